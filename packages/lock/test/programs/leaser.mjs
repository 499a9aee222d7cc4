// A lock under its name, for processes of their own.
import { createLock } from "@kit/lock";

export const { Redis } = await import(process.env.KIT_IOREDIS === "5" ? "ioredis5" : "ioredis");

export const make = (redis, prefix, name) => {
  const lock = createLock(redis, { prefix });
  return {
    acquire: () => lock.acquire(name),
    once: (event, listener) => lock.once(event, listener),
    close: (options) => lock.close(options),
  };
};
