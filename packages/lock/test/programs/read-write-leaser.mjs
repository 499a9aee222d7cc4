// A read/write lock under its name, held for writing, for processes of their own.
import { createReadWriteLock } from "@kit/lock/read-write";

export const { Cluster, Redis } = await import(process.env.KIT_IOREDIS === "5" ? "ioredis5" : "ioredis");

export const make = (redis, name, options) => {
  const lock = createReadWriteLock(redis, options);
  return {
    acquire: (how) => lock.write.acquire(name, how),
    resume: (text) => lock.resume(text),
    once: (event, listener) => lock.once(event, listener),
    close: (how) => lock.close(how),
  };
};
