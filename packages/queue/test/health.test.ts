import { connect } from "@kit/core";
import { eventually, FaultProxy, useRedis } from "@kit/testing";
import { block } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { Worker, WorkerHealth } from "../src/index.js";
import { QueueCommands } from "../src/store/commands.js";
import { queueSettings } from "../src/store/options.js";
import { JobLeases } from "../src/work/leases.js";
import { Presence, type WorkerNow } from "../src/presence/index.js";
import { fixtureOf, latch, permanentKeys, Runs } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);
const { make, on, work } = fixture;
const [server] = [() => redis.server.nodes[0]!];

const healthy = { isAlive: true, isReady: true, isConnected: true, error: undefined };
const until = (worker: Worker, health: Partial<WorkerHealth>, timeoutMs = 30_000): Promise<void> =>
  eventually(async () => expect(await worker.health()).toMatchObject(health), { timeoutMs });
const code = (expected: string): WorkerHealth["error"] => expect.objectContaining({ code: expected }) as never;

/** Workers that fall silent while their checks report that they are healthy: bullmq#4378, #4479, #4585, oyster#896. */
describe("the health of a worker", () => {
  it("shows a worker that works, idle and busy, and how long ago the server answered", async () => {
    const [queue, held] = [make(), latch()];
    redis.defer(held.open);
    const worker = work(queue, () => held.promise, { leaseMs: 500 });
    await until(worker, { ...healthy, isPaused: false, running: 0 });
    await queue.add("job");
    await until(worker, { ...healthy, running: 1 });
    await eventually(async () => {
      const { sinceHeartbeatMs, sinceStepMs, silentMs, behindMs } = await worker.health();
      expect(sinceHeartbeatMs).toBeLessThan(5_000);
      expect(sinceStepMs).toBeLessThan(5_000);
      expect(silentMs).toBe(Math.min(sinceHeartbeatMs!, sinceStepMs!));
      expect(behindMs).toBeLessThan(5_000);
    });
    expect(await queue.health()).toMatchObject({
      ...{ isAlive: true, isReady: true, isConnected: true },
      workers: [{ running: 1 }],
    });
  });

  it("is not ready, and alive, while the server hangs; and recovers with it", async () => {
    const queue = make({ deadlineMs: 500 });
    const worker = work(queue, () => undefined);
    await until(worker, healthy);
    await fixture.untilIdle(1);
    server().pause();
    redis.defer(() => server().resume());
    const askedAt = performance.now();
    expect(await worker.health()).toMatchObject({ isAlive: true, isReady: false, isConnected: false });
    expect(performance.now() - askedAt).toBeLessThan(5 * 500);
    expect(await queue.health()).toMatchObject({ isAlive: true, isReady: false, isConnected: false });
    server().resume();
    await until(worker, healthy);
    const runs = new Runs();
    worker.on("completed", ({ job }) => runs.handler(job as never));
    await queue.add("job");
    await runs.until(1);
  });

  it("is not ready, and alive, while its connections are half open", async () => {
    const proxy = await FaultProxy.start({ port: server().port });
    redis.defer(() => proxy.close());
    const client = await connect({ url: `redis://127.0.0.1:${String(proxy.port)}`, deadlineMs: 30_000 });
    redis.defer(() => client.close());
    const [queue, runs] = [on(client, { deadlineMs: 500 }), new Runs()];
    const worker = work(queue, runs.handler);
    await until(worker, healthy);
    proxy.down.hole = proxy.up.hole = true;
    await until(worker, { isAlive: true, isReady: false, isConnected: false });
    proxy.heal();
    await until(worker, healthy);
    await queue.add("job");
    await runs.until(1);
  });

  it("is not ready, and alive, while its server is a replica that accepts no writes, also with an idle queue", async () => {
    const worker = work(make({ deadlineMs: 500 }), () => undefined);
    await until(worker, healthy);
    await server().call("REPLICAOF", "127.0.0.1", "1");
    redis.defer(() => server().call("REPLICAOF", "NO", "ONE"));
    await until(worker, { isAlive: true, isReady: false, isConnected: true });
    expect((await worker.health()).error).toBeDefined();
    await server().call("REPLICAOF", "NO", "ONE");
    await until(worker, healthy);
  });

  it("shows for a while that the event loop was blocked", async () => {
    const worker = work(make(), () => undefined);
    await until(worker, healthy);
    expect((await worker.health()).behindMs).toBeLessThan(2_000);
    block(9_000);
    expect((await worker.health()).behindMs).toBeGreaterThan(3_000);
  });

  it("is not alive when the client has ended, of its queue neither", async () => {
    const client = redis.connect();
    const queue = on(client);
    const worker = work(queue, () => undefined);
    await until(worker, healthy);
    client.disconnect();
    await until(worker, { isAlive: false, isReady: false, isConnected: false, error: code("KIT_CLOSED") });
    expect(await queue.health()).toMatchObject({ isAlive: false, isReady: false });
  });

  it("is not ready, and alive, while it is paused or closes, or the queue cannot be opened", async () => {
    const [queue, held] = [make(), latch()];
    redis.defer(held.open);
    const worker = work(queue, () => held.promise, { abortGraceMs: 60_000 });
    await until(worker, healthy);
    await worker.pause();
    expect(await worker.health()).toMatchObject({ isAlive: true, isReady: false, isPaused: true, isConnected: true });
    worker.resume();
    await queue.add("job");
    await until(worker, { ...healthy, running: 1 });
    const closed = worker.close();
    expect(await worker.health()).toMatchObject({ isAlive: true, isReady: false, running: 1 });
    held.open();
    await closed;
    await redis.client.hset(fixture.keysOf("newer").meta, "layout", 99);
    const refused = work(make({ name: "newer" }), () => undefined);
    await until(refused, { isAlive: true, isReady: false, isConnected: true, error: code("KIT_LAYOUT") });
  });

  it("is not alive when for nine looks no call failed, and none brought the jobs that it wants", async () => {
    const events = { error: () => undefined, evictable: () => undefined };
    const commands = new QueueCommands(
      redis.client,
      "mail",
      queueSettings({ prefix: redis.prefix }),
      events,
      "It",
      true,
    );
    redis.defer(() => commands.life.close({}, () => Promise.resolve()));
    const leases = new JobLeases(commands, 10_000, { lost: () => undefined, cutOff: () => undefined });
    let isWanting = true;
    const now = (): WorkerNow => ({
      ...{ id: "workerX", name: "", concurrency: 1, running: 0, state: "running", isOpen: true, isWanting },
    });
    const presence = new Presence(commands, leases, ["job"], 0, now);
    const look = (times: number): boolean => {
      for (let count = 0; count < times; count++) presence.look();
      return presence.vitals().isStuck;
    };
    // It has never had a reply, and this process is older than a silence.
    await eventually(() => expect(performance.now()).toBeGreaterThan(21_000), { timeoutMs: 30_000 });
    expect([look(8), look(1)]).toEqual([false, true]);
    isWanting = false;
    expect(look(1)).toBe(false);
    isWanting = true;
    expect(look(8)).toBe(false);
    presence.stepped(true);
    expect(look(9)).toBe(false);
  });
});
