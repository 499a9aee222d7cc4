// A process with a lock of its own that acquires, releases and resumes as its parent says:
//   peer.mjs <single|cluster> <ports> <lock options as JSON> <user name and password as JSON>
import { createLock } from "@kit/lock";

const { Cluster, Redis } = await import(process.env.KIT_IOREDIS === "5" ? "ioredis5" : "ioredis");
const [mode, ports, options, login] = process.argv.slice(2);
const nodes = ports.split(",").map((port) => ({ host: "127.0.0.1", port: Number(port) }));
const redis =
  mode === "cluster"
    ? new Cluster(nodes, { redisOptions: JSON.parse(login) })
    : new Redis({ ...nodes[0], ...JSON.parse(login) });
const lock = createLock(redis, JSON.parse(options));
const leases = new Map();

const keep = (id, lease) => {
  leases.set(id, lease);
  return { id, token: lease.token, fencingToken: lease.fencingToken };
};
const commands = {
  ready: () => redis.ping().then(() => undefined),
  acquire: async (id, name, how) => keep(id, await lock.acquire(name, how)),
  resume: async (id, text) => keep(id, await lock.resume(text)),
  release: (id, leaseId) => leases.get(leaseId).release(),
};

const obey = async ([id, command, ...args]) => {
  try {
    process.send({ id, value: await commands[command](id, ...args) });
  } catch ({ name, code, reason }) {
    process.send({ id, error: { name, code, reason } });
  }
};
process.on("message", (order) => void obey(order));
// An orphan must not outlive its parent.
process.on("disconnect", () => process.exit());
