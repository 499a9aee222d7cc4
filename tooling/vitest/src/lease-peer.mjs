// A process with an object of a package with leases, which acquires, releases and resumes as its parent says:
//   lease-peer.mjs <module> <single|cluster> <ports> <name> <options as JSON> <user name and password as JSON>
import { clientOf, obey } from "../peer.mjs";

const [module, mode, ports, name, options, login] = process.argv.slice(2);
const { make, ...ioredis } = await import(module);
const redis = clientOf(ioredis, mode, ports, JSON.parse(login));
const leaser = make(redis, name, JSON.parse(options));
const leases = new Map();

const keep = (id, lease) => {
  leases.set(id, lease);
  return { id, token: lease.token };
};
obey({
  ready: () => redis.ping().then(() => undefined),
  acquire: async (id, how) => keep(id, await leaser.acquire(how)),
  tryAcquire: async (id, how) => {
    const lease = await leaser.tryAcquire(how);
    return lease && keep(id, lease);
  },
  resume: async (id, text) => keep(id, await leaser.resume(text)),
  release: (_id, leaseId) => leases.get(leaseId).release(),
  isHeld: (_id, leaseId) => leases.get(leaseId).isHeld,
  now: () => Date.now(),
});
