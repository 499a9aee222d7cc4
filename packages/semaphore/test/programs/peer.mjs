// A process with a semaphore of its own that acquires, releases and resumes as its parent says:
//   peer.mjs <single|cluster> <ports> <name> <semaphore options as JSON> <user name and password as JSON>
import { createSemaphore } from "@kit/semaphore";
import { clientOf, obey } from "@tooling/vitest/peer";

const ioredis = await import(process.env.KIT_IOREDIS === "5" ? "ioredis5" : "ioredis");
const [mode, ports, name, options, login] = process.argv.slice(2);
const redis = clientOf(ioredis, mode, ports, JSON.parse(login));
const semaphore = createSemaphore(redis, name, JSON.parse(options));
const permits = new Map();

const keep = (id, permit) => {
  permits.set(id, permit);
  return { id, token: permit.token, remainingMs: permit.remainingMs };
};
obey({
  ready: () => redis.ping().then(() => undefined),
  acquire: async (id, how) => keep(id, await semaphore.acquire(how)),
  tryAcquire: async (id, how) => {
    const permit = await semaphore.tryAcquire(how);
    return permit && keep(id, permit);
  },
  resume: async (id, text) => keep(id, await semaphore.resume(text)),
  release: (id, permitId) => permits.get(permitId).release(),
  isHeld: (id, permitId) => permits.get(permitId).isHeld,
  now: () => Date.now(),
});
