import { connect } from "@kit/core";
import { eventually, type RedisNode, useRedis } from "@kit/testing";
import { inStep, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { createQueueEvents } from "../src/events/index.js";
import type { WorkerHealth } from "../src/index.js";
import { fixtureOf, latch, permanentKeys, Runs } from "./harness.js";

const redis = useRedis(vitest, { mode: "sentinel", permanentKeys });
const fixture = fixtureOf(redis);

const failOver = async (): Promise<RedisNode> => {
  const old = redis.server.nodes[0]!;
  await inStep(old, redis.server.replicas);
  await old.kill();
  redis.defer(() => old.start());
  await eventually(async () => expect(await redis.server.master()).not.toBe(old), { timeoutMs: 15_000 });
  return await redis.server.master();
};

describe("a queue whose master fails", () => {
  it("adds durably once its replicas have the job; until then it is not known, and the same op settles it", async () => {
    const client = await connect({ url: redis.url, deadlineMs: 10_000 });
    redis.defer(() => client.close());
    const { replicas } = redis.server;
    const durable = { replicas: replicas.length, timeoutMs: 200 };
    const queue = fixture.on(client, { name: "durable", durable, deadlineMs: 5_000 });
    await eventually(() => queue.add("job", "first", { id: "first" }), { timeoutMs: 15_000 });
    for (const replica of replicas) replica.pause();
    const unsafe = (await rejection(queue.add("job", "second"))) as { code: string; op: string; message: string };
    expect(unsafe.code).toBe("KIT_UNKNOWN_OUTCOME");
    expect(unsafe.message).toMatch(/^The jobs were added, but are not durable: /);
    // The job is stored, and still on too few replicas.
    expect(await rejection(queue.add("job", "second", { op: unsafe.op }))).toMatchObject({
      code: "KIT_UNKNOWN_OUTCOME",
      op: unsafe.op,
      retryable: true,
    });
    for (const replica of replicas) replica.resume();
    const add = (): Promise<string> => queue.add("job", "second", { op: unsafe.op });
    expect(unsafe.op).toContain(await eventually(add, { timeoutMs: 15_000 }));
    const runs = new Runs();
    fixture.work(queue, runs.handler);
    await runs.until(2);
    await eventually(async () => {
      const { jobs } = fixture.keysOf("durable");
      expect(await (await redis.server.master()).call("EXISTS", jobs)).toBe(0);
    });
    expect(runs.data).toEqual(["first", "second"]);
  });

  it("keeps delayed, waiting, running and dead jobs, and continues without help, on borrowed and owned clients", async () => {
    const owned = await connect({ url: redis.url, deadlineMs: 10_000 });
    redis.defer(() => owned.close());
    const queues = [
      fixture.on(owned, { name: "owned", deadlineMs: 1_000 }),
      fixture.on(fixture.connect(), { name: "borrowed", deadlineMs: 1_000 }),
    ];
    const all = [];
    const events = createQueueEvents(owned, "owned", { prefix: redis.prefix, deadlineMs: 1_000, recordMs: 600_000 });
    redis.defer(() => events.close());
    await events.ready();
    const seen: string[] = [];
    void (async () => {
      for await (const event of events) seen.push("id" in event ? `${event.type} ${event.id}` : event.type);
    })();
    for (const queue of queues) {
      const [runs, { promise, open }] = [new Runs(), latch()];
      const worker = fixture.work(
        queue,
        (job) => {
          runs.handler(job);
          if (job.data === "broken") throw new Error("broken");
          return job.data === "running" ? promise.then(() => "outcome") : undefined;
        },
        { concurrency: 2 },
      );
      const lost: unknown[] = [];
      worker.on("lost", (fact) => lost.push(fact));
      await queue.add("job", "broken");
      const call = queue.call("job", "running", { waitMs: 60_000 });
      await queue.add("job", "delayed", { delayMs: 3_000 });
      await runs.until(2);
      all.push({ queue, runs, open, worker, lost, call });
    }
    const master = await failOver();
    for (const { queue, runs, open, lost, call } of all) {
      let added = "";
      await eventually(
        async () => {
          added = await queue.add("job", "after", { id: "after" });
        },
        { timeoutMs: 20_000 },
      );
      expect(added).toBe("after");
      await eventually(() => expect(runs.data).toEqual(expect.arrayContaining(["after", "delayed"])), {
        timeoutMs: 20_000,
      });
      open();
      const { jobs, dead, leases } = fixture.keysOf(queue.name);
      await eventually(async () => expect(await master.call("ZCARD", leases)).toBe(0), { timeoutMs: 20_000 });
      expect([await master.call("ZCARD", dead), await master.call("HLEN", jobs)]).toEqual([1, 1]);
      expect(await queue.deadLetters()).toMatchObject([{ data: "broken" }]);
      expect(await call).toBe("outcome");
      expect(lost).toEqual([]);
      expect(runs.data.filter((data) => data === "running")).toHaveLength(1);
      if (queue.name !== "owned") continue;
      await eventually(() => expect(seen).toContain("completed after"), { timeoutMs: 20_000 });
      expect(seen.filter((event) => event === "added after")).toHaveLength(1);
    }
  });

  it("charges no crash to a job whose lease ended before a replica was promoted", async () => {
    const client = await connect({ url: redis.url, deadlineMs: 10_000 });
    redis.defer(() => client.close());
    const [runs, held] = [new Runs(), latch()];
    redis.defer(held.open);
    const queue = fixture.on(client, { name: "late", deadlineMs: 1_000 });
    const worker = fixture.work(
      queue,
      async (job) => {
        runs.handler(job);
        await held.promise;
      },
      { leaseMs: 2_000, maxCrashes: 1 },
    );
    const ended = new Promise((resolve) => worker.once("completed", resolve));
    await eventually(() => queue.add("job", 1), { timeoutMs: 15_000 });
    await runs.until(1);
    const old = await redis.server.master();
    const replicas = [...redis.server.nodes, ...redis.server.replicas].filter((node) => node !== old);
    const { leases, meta } = fixture.keysOf("late");
    await inStep(old, replicas);
    const [, end] = (await old.call("ZRANGE", leases, "0", "-1", "WITHSCORES")) as string[];
    for (const replica of replicas) replica.pause();
    await old.kill();
    redis.defer(() => old.start());
    await eventually(() => expect(Date.now()).toBeGreaterThan(Number(end) + 500), { timeoutMs: 10_000 });
    for (const replica of replicas) replica.resume();
    await eventually(async () => expect(await redis.server.master()).not.toBe(old), { timeoutMs: 30_000 });
    held.open();
    await ended;
    expect(runs.jobs).toHaveLength(1);
    expect(await (await redis.server.master()).call("HGET", meta, "crashed")).toBeNull();
  });

  it("takes jobs again when all Sentinels were lost while its idle connections broke (bullmq#4378)", async () => {
    const owned = await connect({ url: redis.url, deadlineMs: 10_000 });
    redis.defer(() => owned.close());
    const all = [["own", owned] as const, ["lent", fixture.connect()] as const].map(([name, client]) => {
      const [runs, queue] = [new Runs(), fixture.on(client, { name, deadlineMs: 1_000 })];
      return { runs, queue, worker: fixture.work(queue, runs.handler) };
    });
    const until = (health: Partial<WorkerHealth>): Promise<void> =>
      eventually(
        async () => {
          for (const { worker } of all) expect(await worker.health()).toMatchObject(health);
        },
        { timeoutMs: 30_000 },
      );
    await until({ isAlive: true, isReady: true });
    const { sentinels } = redis.server;
    const master = await redis.server.master();
    for (const sentinel of sentinels) await sentinel.kill();
    await master.call("CLIENT", "KILL", "TYPE", "normal");
    await until({ isAlive: true, isReady: false, isConnected: false });
    // Several times as long as one try to connect for a wait.
    const since = performance.now();
    await eventually(() => expect(performance.now() - since).toBeGreaterThan(8_000), { timeoutMs: 20_000 });
    await until({ isAlive: true, isReady: false, isConnected: false });
    for (const sentinel of sentinels) await sentinel.start();
    await until({ isAlive: true, isReady: true });
    for (const { queue, runs } of all) {
      await queue.add("job", "after");
      await runs.until(1);
    }
  });
});
