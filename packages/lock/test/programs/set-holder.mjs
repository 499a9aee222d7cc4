// A process that takes and holds several names of a lock as its parent says:
//   set-holder.mjs <single|cluster> <ports> <lock options as JSON>
import { createLock } from "@kit/lock";
import { clientOf, obey } from "@tooling/vitest/peer";

const ioredis = await import("ioredis");
const [mode, ports, options] = process.argv.slice(2);
const redis = clientOf(ioredis, mode, ports, {});
const lock = createLock(redis, JSON.parse(options));
const sets = [];

obey({
  ready: () => redis.ping().then(() => undefined),
  acquireAll: async (_id, names, how) => {
    const set = await lock.acquireAll(names, how);
    sets.push(set);
    return [...set.fencingTokens.values()];
  },
});
