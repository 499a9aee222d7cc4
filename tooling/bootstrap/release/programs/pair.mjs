// One of two processes of different versions on one server: `node pair.mjs NAME ME OTHER`. They run each other's jobs and hand
// a lock to each other, and print what each saw.
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "@kit/core";
import { createLock } from "@kit/lock";
import { createQueue } from "@kit/queue";

const [name = "", me = "", other = ""] = process.argv.slice(2);
const waitMs = 20_000;
const rounds = 3;

const redis = await connect();
const lock = createLock(redis);
const [own, others] = [me, other].map((one) => createQueue(redis, `${name}-${one}`));
own.work({ echo: ({ data }) => `${data.text} by ${me}` });
const reply = await others.call("echo", { text: `from ${me}` }, { waitMs });

const tokens = [];
for (let round = 1; round <= rounds; round++) {
  const lease = await lock.acquire(name, { waitMs });
  tokens.push(lease.fencingToken);
  // Until the other process waits: this release then hands the lock to it. After the last round it may have left.
  const until = performance.now() + waitMs;
  while (round < rounds && (await lock.inspect(name)).waiters === 0) {
    if (performance.now() > until) throw new Error(`${other} does not wait for the lock`);
    await sleep(5);
  }
  await lease.release();
}

await Promise.all([own.close(), others.close()]);
await lock.close();
await redis.close();
console.log(JSON.stringify({ reply, tokens }));
