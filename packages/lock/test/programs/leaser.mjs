// A lock under its name, for processes of their own.
import { createLock } from "@kit/lock";

export const { Cluster, Redis } = await import(process.env.KIT_IOREDIS === "5" ? "ioredis5" : "ioredis");

export const make = (redis, name, options) => {
  const lock = createLock(redis, options);
  return {
    acquire: (how) => lock.acquire(name, how),
    resume: (text) => lock.resume(text),
    once: (event, listener) => lock.once(event, listener),
    close: (how) => lock.close(how),
  };
};
