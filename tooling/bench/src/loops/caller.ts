// The common part of the implementations of locks and semaphores.
import { randomUUID } from "node:crypto";
import { connected } from "../clients.js";

/** One of many callers of a name, with the objects that the library needs for each of them. */
export interface Caller {
  /** Acquires the name, however long that takes, runs `routine`, and releases it. */
  using(name: string, routine: () => Promise<void> | void): Promise<void>;
}

interface Pushed extends Caller {
  using(name: string, routine: () => Promise<void> | void, mode?: string): Promise<void>;
}

/** Longer than any case. */
export const foreverMs = 3_600_000;

/** The objects that a library needs per caller and name. */
export const perName = <T>(make: (name: string) => T): ((name: string) => T) => {
  const made = new Map<string, T>();
  return (name) => {
    let one = made.get(name);
    if (one === undefined) made.set(name, (one = make(name)));
    return one;
  };
};

export const inWords = (settings: object): string =>
  Object.entries(settings)
    .map(([name, value]) => `${name} ${String(value)}`)
    .join(", ");

/**
 * The floor of a hand-over. `takeOrQueue` (KEYS name, queue; ARGV token, inbox, operand) replies 1 when it took the
 * name; `handOn` (KEYS name, queue; ARGV operand) gives it to the head of the queue and publishes the token to its
 * inbox. `mode` stands before the token.
 */
export const pushed = async (url: string, takeOrQueue: string, handOn: string, operand: number): Promise<Pushed> => {
  const redis = await connected(url);
  const subscriber = await connected(url);
  const inbox = `inbox:${randomUUID()}`;
  const waiting = new Map<string, () => void>();
  await subscriber.subscribe(inbox);
  subscriber.on("message", (_channel, token) => waiting.get(token)?.());
  const take = String(await redis.script("LOAD", takeOrQueue));
  const give = String(await redis.script("LOAD", handOn));
  return {
    using: async (name, routine, mode = "") => {
      const token = `${mode}${randomUUID()}`;
      const granted = new Promise<void>((resolve) => waiting.set(token, resolve));
      if ((await redis.evalsha(take, 2, name, `${name}:queue`, token, inbox, operand)) !== 1) await granted;
      waiting.delete(token);
      await routine();
      await redis.evalsha(give, 2, name, `${name}:queue`, operand);
    },
  };
};
