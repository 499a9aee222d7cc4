// A process that acquires a read/write lock of its own to write when its parent says so:
//   read-write-peer.mjs <single|cluster> <ports> <prefix> <name>
import { createReadWriteLock } from "@kit/lock/read-write";
import { clientOf, obey } from "@tooling/vitest/peer";

const ioredis = await import(process.env.KIT_IOREDIS === "5" ? "ioredis5" : "ioredis");
const [mode, ports, prefix, name] = process.argv.slice(2);
const redis = clientOf(ioredis, mode, ports, {});
const lock = createReadWriteLock(redis, { prefix, deadlineMs: 10_000 });

obey({
  ready: () => redis.ping().then(() => undefined),
  acquire: async () => ({ token: (await lock.write.acquire(name)).token }),
});
