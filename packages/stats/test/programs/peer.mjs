// A process with a statistics object of its own, which counts on request of its parent:
//   peer.mjs <single|cluster> <ports> <options as JSON> <user name and password as JSON>
import { createStats } from "@kit/stats";
import { clientOf, obey } from "@tooling/vitest/peer";
import * as ioredis from "ioredis";

const [mode, ports, options, login] = process.argv.slice(2);
const redis = clientOf(ioredis, mode, ports, JSON.parse(login));
const stats = createStats(redis, JSON.parse(options));

obey({
  ready: () => redis.ping().then(() => undefined),
  inc: (_id, name, times) => {
    const counter = stats.counter(name);
    for (let time = 0; time < times; time++) counter.inc();
  },
  add: (_id, name, amount) => stats.counter(name).add(amount),
  flush: () => stats.flush(),
  apply: (_id, deltas, how) => {
    for (const { name, labels = {} } of deltas) stats.counter(name, { labelNames: Object.keys(labels) });
    return stats.apply(deltas, how);
  },
  now: () => Date.now(),
});
