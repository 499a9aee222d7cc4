// Counts commands where they leave a client, since the server's counters include the commands inside scripts.
import { now } from "@tooling/lab";
import { Redis } from "ioredis";

const byName = new Map<string, number>();
let total = 0;
let instants: number[] | undefined;

const send = Redis.prototype.sendCommand;
Redis.prototype.sendCommand = function (this: Redis, ...args: Parameters<typeof send>) {
  const name = args[0].name.toLowerCase();
  total++;
  instants?.push(now());
  byName.set(name, (byName.get(name) ?? 0) + 1);
  return send.apply(this, args);
};

/** The commands that all clients of this process have sent so far. */
export const sent = (): number => total;

/** The same for one command, by its name in lower case. */
export const sentOf = (command: string): number => byName.get(command) ?? 0;

/** From the first call on: when each command was sent. */
export const sentAt = (): readonly number[] => (instants ??= []);
