// A semaphore, with one permit by default, for processes of their own.
import { createSemaphore } from "@kit/semaphore";

export const { Cluster, Redis } = await import(process.env.KIT_IOREDIS === "5" ? "ioredis5" : "ioredis");

export const make = (redis, name, options) => createSemaphore(redis, name, { permits: 1, ...options });
