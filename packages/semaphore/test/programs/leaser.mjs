// A semaphore with one permit, for processes of their own.
import { createSemaphore } from "@kit/semaphore";

export const { Redis } = await import(process.env.KIT_IOREDIS === "5" ? "ioredis5" : "ioredis");

export const make = (redis, prefix, name) => createSemaphore(redis, name, { permits: 1, prefix });
