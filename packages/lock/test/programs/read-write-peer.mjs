// A process with a read/write lock, which it acquires to write, releases and resumes as its parent says:
//   read-write-peer.mjs <single|cluster> <ports> <prefix> <name> [<username> <password>]
import { createReadWriteLock } from "@kit/lock/read-write";
import { clientOf, obey } from "@tooling/vitest/peer";

const ioredis = await import(process.env.KIT_IOREDIS === "5" ? "ioredis5" : "ioredis");
const [mode, ports, prefix, name, username, password] = process.argv.slice(2);
const redis = clientOf(ioredis, mode, ports, username ? { username, password } : {});
const lock = createReadWriteLock(redis, { prefix, deadlineMs: 10_000 });
const leases = new Map();

const keep = (id, lease) => {
  leases.set(id, lease);
  return { id, token: lease.token };
};
obey({
  ready: () => redis.ping().then(() => undefined),
  acquire: async (id, options) => keep(id, await lock.write.acquire(name, options)),
  resume: async (id, text) => keep(id, await lock.resume(text)),
  release: (id, leaseId) => leases.get(leaseId).release(),
});
