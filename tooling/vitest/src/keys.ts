import { expect } from "vitest";

/** The contents of a key. */
export interface KeyState {
  readonly type: string;
  readonly value: unknown;
  readonly ttl: number;
}

/** The commands that read keys. */
export interface KeyReader {
  type(key: string): Promise<string>;
  pttl(key: string): Promise<number>;
  get(key: string): Promise<unknown>;
  hgetall(key: string): Promise<unknown>;
  zrange(key: string, start: string, stop: string, withScores: "WITHSCORES"): Promise<unknown>;
  lrange(key: string, start: string, stop: string): Promise<unknown>;
}

export const nothing: KeyState = { type: "none", value: null, ttl: -2 };

/** Type, value and expiry of each of some keys. */
export const stateOf = async <Keys extends object>(
  db: KeyReader,
  keys: Keys,
): Promise<Record<keyof Keys, KeyState>> => {
  const look = async (key: string): Promise<KeyState> => {
    const type = await db.type(key);
    const read: Record<string, () => Promise<unknown>> = {
      string: () => db.get(key),
      zset: () => db.zrange(key, "0", "-1", "WITHSCORES"),
      hash: () => db.hgetall(key),
      list: () => db.lrange(key, "0", "-1"),
    };
    return { type, value: (await read[type]?.()) ?? null, ttl: await db.pttl(key) };
  };
  const all = Object.entries(keys).map(async ([part, key]) => [part, await look(String(key))] as const);
  return Object.fromEntries(await Promise.all(all)) as Record<keyof Keys, KeyState>;
};

/** Matches the rest of an expiry, less the time that a test may take on a busy machine: a second, or half of the expiry. */
export const about = (ttl: number): unknown => ({
  asymmetricMatch: (actual: unknown) =>
    typeof actual === "number" && actual <= ttl && actual > ttl - Math.max(1_000, ttl / 2),
  toString: () => `about ${String(ttl)}`,
});

/** Runs an action that must not change some keys, not even an expiry. */
export const unchanged = async <T>(db: KeyReader, keys: object, action: () => Promise<T>): Promise<T> => {
  const before: Record<string, KeyState> = await stateOf(db, keys);
  const result = await action();
  const after: Record<string, KeyState> = await stateOf(db, keys);
  for (const [part, { type, value, ttl }] of Object.entries(before))
    expect({ part, ...after[part] }).toEqual({ part, type, value, ttl: ttl < 0 ? ttl : about(ttl) });
  return result;
};

interface Subscriber {
  on(event: "message", listener: (channel: string, message: string) => void): unknown;
  removeAllListeners(event: "message"): unknown;
  subscribe(channel: string): Promise<unknown>;
}

/** An inbox with a subscriber, for one test. */
export const anInbox = async (redis: {
  readonly prefix: string;
  connect(): Subscriber;
  defer(close: () => unknown): void;
}): Promise<{ readonly channel: string; readonly messages: string[] }> => {
  const channel = `${redis.prefix}:inbox:${crypto.randomUUID()}`;
  const messages: string[] = [];
  const subscriber = redis.connect();
  subscriber.on("message", (_channel, message) => messages.push(message));
  redis.defer(() => subscriber.removeAllListeners("message"));
  await subscriber.subscribe(channel);
  return { channel, messages };
};
