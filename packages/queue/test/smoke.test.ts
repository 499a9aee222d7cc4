import { eventually, FaultProxy, useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { fixtureOf, permanentKeys, Runs } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);

it("works with either major of ioredis: bytes, delays, retries, lost connections, closing", async () => {
  const proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
  redis.defer(() => proxy.close());
  const client = fixture.connect({ port: proxy.port, host: "127.0.0.1" });
  const queue = fixture.on(client, { maxAttempts: 2, backoff: { firstMs: 10 } });
  const runs = new Runs();
  const worker = fixture.work(queue, (job) => {
    runs.handler(job);
    if (job.data === "fails" && job.attempt === 1) throw new Error("once");
  });
  worker.on("error", () => undefined);
  const bytes = Uint8Array.from([0, 255, 10, 128]);
  await queue.add("job", bytes);
  await queue.add("job", "fails");
  await queue.add("job", "late", { delayMs: 200 });
  await runs.until(4);
  expect(runs.data[0]).toEqual(Buffer.from(bytes));
  for (let round = 0; round < 5; round++) {
    proxy.resetAll();
    await eventually(() => queue.add("job", round, { id: `round-${String(round)}` }));
    await runs.until(5 + round);
  }
  await fixture.untilEmpty();
  await worker.close();
  expect(runs.data.slice(4)).toEqual([0, 1, 2, 3, 4]);
});
