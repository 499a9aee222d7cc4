// Counts commands where they leave a client, since the server's counters include the commands inside scripts.
import { nodeRedisMethods, now } from "@tooling/lab";
import { Redis } from "ioredis";

const byName = new Map<string, number>();
let total = 0;
let instants: number[] | undefined;
const listeners = new Set<(client: Redis) => void>();

const count = (command: string): void => {
  const name = command.toLowerCase();
  total++;
  instants?.push(now());
  byName.set(name, (byName.get(name) ?? 0) + 1);
};

const send = Redis.prototype.sendCommand;
Redis.prototype.sendCommand = function (this: Redis, ...args: Parameters<typeof send>) {
  count(args[0].name);
  for (const listener of listeners) listener(this);
  return send.apply(this, args);
};

const countOnNodeRedis = async (): Promise<void> => {
  const methods = await nodeRedisMethods();
  const { sendCommand } = methods;
  methods.sendCommand = function (this: unknown, args, ...more) {
    count(String(args[0]));
    return sendCommand.call(this, args, ...more);
  };
};

let counting: Promise<void> | undefined;
/** From then on the commands of node-redis' clients are counted, too. */
export const alsoOnNodeRedis = (): Promise<void> => (counting ??= countOnNodeRedis());

/** The commands that all clients of this process have sent so far. */
export const sent = (): number => total;

/** The same for one command, by its name in lower case. */
export const sentOf = (command: string): number => byName.get(command) ?? 0;

/** From the first call on: when each command was sent. */
export const sentAt = (): readonly number[] => (instants ??= []);

/** Calls `listener` with the connection of each command of ioredis, until the returned function is called. */
export const onSent = (listener: (client: Redis) => void): (() => void) => {
  listeners.add(listener);
  return () => void listeners.delete(listener);
};
