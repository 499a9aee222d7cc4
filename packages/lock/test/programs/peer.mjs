// A process with a lock of its own that acquires, releases and resumes as its parent says:
//   peer.mjs <single|cluster> <ports> <lock options as JSON> <user name and password as JSON>
import { createLock } from "@kit/lock";
import { clientOf, obey } from "@tooling/vitest/peer";

const ioredis = await import(process.env.KIT_IOREDIS === "5" ? "ioredis5" : "ioredis");
const [mode, ports, options, login] = process.argv.slice(2);
const redis = clientOf(ioredis, mode, ports, JSON.parse(login));
const lock = createLock(redis, JSON.parse(options));
const leases = new Map();

const keep = (id, lease) => {
  leases.set(id, lease);
  return { id, token: lease.token, fencingToken: lease.fencingToken };
};
obey({
  ready: () => redis.ping().then(() => undefined),
  acquire: async (id, name, how) => keep(id, await lock.acquire(name, how)),
  resume: async (id, text) => keep(id, await lock.resume(text)),
  release: (id, leaseId) => leases.get(leaseId).release(),
});
