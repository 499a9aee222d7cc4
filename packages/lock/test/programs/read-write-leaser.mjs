// A read/write lock under its name, held for writing, for processes of their own.
import { createReadWriteLock } from "@kit/lock/read-write";

export const { Redis } = await import(process.env.KIT_IOREDIS === "5" ? "ioredis5" : "ioredis");

export const make = (redis, prefix, name) => {
  const lock = createReadWriteLock(redis, { prefix });
  return {
    acquire: () => lock.write.acquire(name),
    once: (event, listener) => lock.once(event, listener),
    close: (options) => lock.close(options),
  };
};
