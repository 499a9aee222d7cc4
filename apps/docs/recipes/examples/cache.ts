import { connect } from "@kit/core";
import { createLock } from "@kit/lock";

const redis = await connect();
const lock = createLock(redis);

/** Reads a value from the cache. On a miss, one caller of all processes loads it, and the others wait for that. */
const cached = async <T>(key: string, ttlMs: number, load: () => Promise<T>): Promise<T> => {
  const read = async (): Promise<T | undefined> => {
    const text = await redis.get(key);
    return text === null ? undefined : (JSON.parse(text) as T);
  };
  const found = await read();
  if (found !== undefined) return found;
  return await lock.using(
    key,
    async () => {
      const loaded = await read(); // by the caller before this one
      if (loaded !== undefined) return loaded;
      const value = await load();
      await redis.set(key, JSON.stringify(value), "PX", ttlMs);
      return value;
    },
    { waitMs: 5_000 },
  );
};

let loads = 0;
const prices = async (): Promise<{ lamp: number }> => {
  loads++;
  return await Promise.resolve({ lamp: 12 });
};
await redis.del("prices");
const all = await Promise.all(Array.from({ length: 50 }, () => cached("prices", 60_000, prices)));
console.log(`${String(all.length)} callers, ${String(loads)} load`); // prints: 50 callers, 1 load

await lock.close();
await redis.close();
