import { connect } from "@kit/core";
import { eventually, FaultProxy, useRedis } from "@kit/testing";
import { aborted } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { cancelJob } from "../src/manage/index.js";
import { fixtureOf, name, permanentKeys, Runs } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);
const { make, on, work } = fixture;
const address = () => ({ queue: name, prefix: redis.prefix });

describe("a job in a worker", () => {
  it("that had not started when it was cancelled makes no event, even if its end was on its way", async () => {
    const proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
    redis.defer(() => proxy.close());
    const client = await connect(`redis://127.0.0.1:${String(proxy.port)}`);
    redis.defer(() => client.close());
    const worker = work(on(client), () => undefined, { concurrency: 5 });
    const events: string[] = [];
    for (const event of ["cancelled", "lost"] as const)
      worker.on(event, ({ job }) => events.push(`${event} ${job.id}`));
    await fixture.untilIdle(1);
    await worker.pause();
    const queue = make();
    // The one expires, the other has no handler: their ends are sent as soon as the worker has them.
    const ids = [await queue.add("job", 1, { expiresMs: 1 }), await queue.add("nobody", 2)];
    // Its age counts from the producer's estimate of the server's clock, which is ahead by up to a round trip.
    const addedAt = performance.now();
    await eventually(() => expect(performance.now() - addedAt).toBeGreaterThan(500));
    proxy.down.latencyMs = 300;
    worker.resume();
    await eventually(async () => expect((await fixture.counts()).leases).toBe(2));
    proxy.up.latencyMs = 1_000;
    for (const id of ids) expect(await cancelJob(redis.client, address(), id)).toBe("cancelled");
    [proxy.up.latencyMs, proxy.down.latencyMs] = [0, 0];
    // The ends were refused.
    await fixture.untilIdle(1);
    await worker.close();
    expect(events).toEqual([]);
    expect(await fixture.counts()).toMatchObject({ jobs: 0, dead: 0 });
  });

  it("that is a suspect and about to start goes back before a pause resolves", async () => {
    const proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
    redis.defer(() => proxy.close());
    const client = await connect(`redis://127.0.0.1:${String(proxy.port)}`);
    redis.defer(() => client.close());
    const worker = work(on(client), () => undefined);
    await fixture.untilIdle(1);
    await worker.pause();
    const id = await make().add("job", 1);
    // Two crashes: with a third it would be a dead letter.
    await fixture.db.hset(fixture.keysOf().failures, id, "0\t2\t");
    proxy.down.latencyMs = 300;
    worker.resume();
    await eventually(async () => expect((await fixture.counts()).leases).toBe(1));
    // The reply to the take comes, and the record that the job begins stays on its way.
    const takenAt = performance.now();
    proxy.up.latencyMs = 1_000;
    await eventually(() => expect(performance.now() - takenAt).toBeGreaterThan(600));
    await worker.pause();
    expect(await fixture.counts()).toMatchObject({ leases: 0, waiting: 1 });
  });

  it("whose time is over while its worker closes starts elsewhere only when its handler has ended", async () => {
    const order: string[] = [];
    const [queue, runs] = [make(), new Runs()];
    const handler = async (job: Parameters<Runs["handler"]>[0]): Promise<void> => {
      const began = performance.now();
      runs.handler(job);
      await aborted(job.signal);
      // It saves its state for longer than the job may take.
      await eventually(() => expect(performance.now() - began).toBeGreaterThan(700));
      order.push("saved");
    };
    const first = work(queue, handler, { abortGraceMs: 60_000 });
    await queue.add("job", 1, { timeoutMs: 300 });
    await runs.until(1);
    const second = make();
    const closed = first.close({ timeoutMs: 50 });
    work(second, () => void order.push("again"));
    await closed;
    await fixture.untilEmpty();
    expect(order[0]).toBe("saved");
  });

  it("starts immediately if the job before it was cancelled and its end refused, with ack each", async () => {
    const [queue, runs] = [make({ maxAttempts: 1 }), new Runs()];
    const handler = async (job: Parameters<Runs["handler"]>[0]): Promise<void> => {
      runs.handler(job);
      if (job.data === 3) await cancelJob(redis.client, address(), job.id);
      throw new Error("broken");
    };
    work(queue, handler, { ack: "each", concurrency: 1, leaseMs: 600_000 });
    // From now on it knows that the jobs are quick.
    for (let data = -20; data < 0; data++) await queue.add("job", data);
    await runs.until(20);
    await fixture.untilIdle(1);
    await queue.addAll(Array.from({ length: 6 }, (_, data) => ({ name: "job", data })));
    await runs.until(26);
    expect(runs.data.slice(20)).toEqual([0, 1, 2, 3, 4, 5]);
  });
});
