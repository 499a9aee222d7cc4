import { connect, type Connection, type KitUnknownOutcomeError, retry } from "@kit/core";
import { eventually, FaultProxy, useRedis } from "@kit/testing";
import { aborted, closedPort, losingOnce, rejection, sentTwice } from "@tooling/vitest/helpers";
import { Redis } from "ioredis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { QueueCommands } from "../src/store/commands.js";
import type { Queue } from "../src/index.js";
import { queueSettings } from "../src/store/options.js";
import { fixtureOf, latch, permanentKeys, Runs } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys, persistence: "always" });
const fixture = fixtureOf(redis);
const { make, work, on } = fixture;

const proxied = async (deadlineMs = 800): Promise<{ proxy: FaultProxy; client: Connection; queue: Queue }> => {
  const proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
  redis.defer(() => proxy.close());
  const client = await connect({ url: `redis://127.0.0.1:${String(proxy.port)}`, deadlineMs: 30_000 });
  redis.defer(() => client.close());
  return { proxy, client, queue: on(client, { deadlineMs }) };
};

const setPolicy = async (policy: string, maxmemory: string): Promise<void> => {
  await redis.server.nodes[0]!.call("CONFIG", "SET", "maxmemory-policy", policy);
  await redis.server.nodes[0]!.call("CONFIG", "SET", "maxmemory", maxmemory);
};

describe("a queue whose connections break", () => {
  it("checks its server for each caller by that caller's deadline", async () => {
    await using proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
    // One of its owner's, whose connection nobody replaces when a reply is late.
    const client = new Redis({ port: proxy.port });
    redis.defer(() => client.disconnect());
    await client.ping();
    const events = { error: () => undefined, evictable: () => undefined };
    for (const [first, second] of [
      [300, 30_000],
      [30_000, 300],
    ] as const) {
      const commands = new QueueCommands(client, "mail", queueSettings({ prefix: redis.prefix }), events, "It");
      redis.defer(() => commands.life.close({}, async () => undefined));
      proxy.down.latencyMs = 1_500;
      const calls = [commands.open(first), commands.open(second)] as const;
      const [short, long] = first < second ? calls : ([calls[1], calls[0]] as const);
      expect(await rejection(short)).toMatchObject({
        code: "KIT_UNKNOWN_OUTCOME",
        message: expect.not.stringContaining("replicated") as string,
      });
      await long;
      proxy.down.latencyMs = 0;
    }
  });

  it("closes its worker when the owner ends the client, and reports it", async () => {
    const client = redis.connect();
    const queue = on(client);
    const worker = work(queue, () => undefined);
    const errors: unknown[] = [];
    worker.on("error", (error) => errors.push(error));
    const completed = new Promise((resolve) => worker.once("completed", resolve));
    await queue.add("job");
    await completed;
    client.disconnect();
    await eventually(() => expect(errors).toContainEqual(expect.objectContaining({ code: "KIT_CLOSED" })));
    await worker.close();
  });

  it("loses no job and charges no crash while replies, requests and whole connections get lost", async () => {
    const { proxy, queue } = await proxied();
    const safe = make();
    const ran: unknown[] = [];
    const crashes: number[] = [];
    const worker = work(
      queue,
      (job) => {
        ran.push(job.data);
        crashes.push(job.crashes);
      },
      { concurrency: 5 },
    );
    worker.on("error", () => undefined);
    const count = 3_000;
    for (let start = 0; start < count; start += 100) {
      // Half of them with ids that come again each round: an end that is sent twice must not end the next job of its id.
      await safe.addAll(
        Array.from({ length: 100 }, (_, n) => ({
          name: "job",
          data: start + n,
          ...(n % 2 === 0 ? {} : { id: `own-${String(n)}` }),
        })),
      );
      if (start % 300 === 0) proxy.down.cutNext = 1;
      else if (start % 300 === 100) proxy.up.cutNext = 1;
      else proxy.resetAll();
      await fixture.untilEmpty();
    }
    expect(new Set(ran).size).toBe(count);
    expect(crashes.every((crash) => crash === 0)).toBe(true);
    expect(await fixture.counts()).toMatchObject({ failures: 0, dead: 0 });
  });

  it("adds a job once whose reply is lost, though it may be done by the time it is sent again", async () => {
    const { proxy, queue } = await proxied();
    const runs = new Runs();
    work(make(), runs.handler);
    await queue.add("job", "first");
    for (let round = 0; round < 10; round++) {
      proxy.down.cutNext = 1;
      await queue.add("job", round);
    }
    await fixture.untilEmpty();
    expect(runs.data).toEqual(["first", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(proxy.stats.resets).toBe(10);
  });

  it("gives an add whose reply is lost the answer of the request that came first", async () => {
    const { proxy, queue } = await proxied();
    const runs = new Runs();
    const worker = work(make(), runs.handler);
    await queue.addOnce("job", "first", { id: "first" });
    const each = async (state?: string): Promise<void> => {
      for (let n = 0; n < 5; n++) {
        const id = String(n);
        proxy.down.cutNext = 1;
        const answer = await queue.addOnce("job", n, { id });
        expect(answer).toEqual(state === undefined ? { id, isAdded: true } : { id, isAdded: false, state });
      }
    };
    // The job may be done when the request is sent again.
    await each();
    await fixture.untilEmpty();
    await worker.close();
    await make().addAll(Array.from({ length: 5 }, (_, n) => ({ name: "job", id: String(n) })));
    await each("ready");
    expect(runs.data).toEqual(["first", 0, 1, 2, 3, 4]);
    expect(proxy.stats.resets).toBe(10);
  });

  it("takes fewer large jobs at a time when its connection is too slow for many", async () => {
    await make().addAll(Array.from({ length: 40 }, () => ({ name: "job", data: "x".repeat(200_000) })));
    const { proxy, queue } = await proxied(1_000);
    // All jobs need two seconds, and 4 MiB of them a little longer than the deadline.
    proxy.down.bytesPerSecond = 4_000_000;
    const runs = new Runs();
    work(queue, runs.handler, { concurrency: 100 });
    await runs.until(40, 30_000);
    expect(runs.jobs.map(({ crashes }) => crashes)).toEqual(runs.jobs.map(() => 0));
  });

  it("adds a job once when the network delivers it twice", async () => {
    const proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
    redis.defer(() => proxy.close());
    const client = await connect({ url: `redis://127.0.0.1:${String(proxy.port)}`, deadlineMs: 30_000 });
    redis.defer(() => client.close());
    const queue = on(client);
    await queue.add("job", 1);
    const id = await sentTwice(proxy, client, 300, () => queue.add("job", 2));
    const runs = new Runs();
    work(make(), runs.handler);
    await runs.until(2);
    // The late copy comes after the job is done.
    await eventually(async () =>
      expect(await fixture.nodeOf().then((node) => node.call("INFO", "commandstats"))).toMatch(/evalsha/),
    );
    await queue.add("job", 3);
    await runs.until(3);
    await fixture.untilEmpty();
    expect(runs.data).toEqual([1, 2, 3]);
    expect(runs.jobs[1]!.id).toBe(id);
  });

  it("keeps the op of an unknown outcome through a repeat that cannot reach the queue, and adds no second job", async () => {
    const { proxy, queue } = await proxied(400);
    await queue.add("job", "first");
    proxy.down.hole = true;
    const { op } = (await rejection(queue.add("job", "second"))) as { op?: string };
    expect(op).toMatch(/./);
    // Checks the queue again, since the connection was lost, and gets no answer.
    proxy.resetAll();
    for (let round = 0; round < 3; round++)
      expect(await rejection(queue.add("job", "second", { op }))).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME", op });
    // An add that is no repeat was not sent.
    expect(await rejection(queue.add("job", "third"))).toMatchObject({ code: "KIT_UNAVAILABLE" });
    proxy.down.hole = false;
    proxy.resetAll();
    await eventually(() => queue.add("job", "second", { op }));
    expect((await fixture.counts()).jobs).toBe(2);
  });

  it("reports that the client of an add was closed meanwhile, and not that no server answered in time", async () => {
    const { proxy, client, queue } = await proxied(60_000);
    proxy.down.hole = true;
    const failed = rejection(queue.add("job", 1));
    // The queue is being opened, and its reply lost.
    await eventually(() => expect(proxy.stats.droppedBytes).toBeGreaterThan(0));
    client.disconnect();
    expect(await failed).toMatchObject({ code: "KIT_UNAVAILABLE", retryable: false });
    expect(String(await failed)).toMatch(/: The client for 127\.0\.0\.1:\d+ was closed: the job was not added$/);
  });

  it("reports an unknown outcome, and settles it with the same op", async () => {
    const { proxy, queue } = await proxied();
    const runs = new Runs();
    await queue.add("job", 0);
    // The request arrives, and no reply does for longer than the deadline.
    proxy.down.hole = true;
    const unknown = (await rejection(queue.add("job", 1))) as { code: string; op: string };
    expect(unknown.code).toBe("KIT_UNKNOWN_OUTCOME");
    // A repeat that fails changes nothing: the outcome is still unknown, under the same op.
    const { code, op } = unknown;
    expect(await rejection(queue.add("job", 1, { op }))).toMatchObject({ code, op, retryable: true });
    proxy.down.hole = false;
    work(make(), runs.handler);
    await runs.until(2);
    await fixture.untilEmpty();
    await eventually(async () => {
      await queue.add("job", 1, { op: unknown.op });
    });
    await queue.add("job", 2);
    await runs.until(3);
    await fixture.untilEmpty();
    expect(runs.data).toEqual([0, 1, 2]);
  });

  it("adds one job for a call under retry(), or rejects with what settles it", async () => {
    const { proxy, client, queue } = await proxied(400);
    const runs = new Runs();
    work(make(), runs.handler);
    await queue.add("job", "first");
    const lost = async (call: () => Promise<unknown>): Promise<KitUnknownOutcomeError> => {
      const { attempt, tries } = losingOnce(proxy, call);
      const error = await rejection(retry(attempt, { waitMs: 30_000 }));
      expect([error, tries()]).toMatchObject([{ code: "KIT_UNKNOWN_OUTCOME", retryable: false }, 1]);
      await eventually(() => client.ping());
      return error as KitUnknownOutcomeError;
    };
    const settled = ({ op }: KitUnknownOutcomeError, data: string): Promise<string> =>
      eventually(() => queue.add("job", data, { op }));
    await settled(await lost(() => queue.add("job", "add")), "add");
    // Its job may have run by the time of a repeat, and then an id no longer keeps out another.
    await settled(await lost(() => queue.add("job", "id", { id: "mine" })), "id");
    // Its outcome is not waited for any more.
    await settled(await lost(() => queue.call("job", "call", { waitMs: 500 })), "call");
    const jobs = [
      { name: "job", data: "a" },
      { name: "job", data: "b", unique: { key: "b", ttlMs: 60_000 } },
    ];
    expect((await lost(() => queue.addAll(jobs))).op).toBeUndefined();

    const keyed = (data: string) => ({ name: "job", data, unique: { key: data, ttlMs: 60_000 } });
    const { name, data, ...unique } = keyed("key");
    const calls = [() => queue.add(name, data, unique), () => queue.addAll([keyed("x"), keyed("y")])];
    for (const call of calls as readonly (() => Promise<unknown>)[]) {
      const { attempt, tries } = losingOnce(proxy, call);
      await retry(attempt, { waitMs: 30_000 });
      expect(tries()).toBeGreaterThan(1);
    }
    await fixture.untilEmpty();
    expect(runs.data.map(String).toSorted()).toEqual(["a", "add", "b", "call", "first", "id", "key", "x", "y"]);
  });

  it("does not add the first of many jobs again when the others were not added", async () => {
    const { proxy, queue } = await proxied(400);
    await queue.add("job", 0);
    // One call carries 1 MiB.
    const many = Array.from({ length: 8 }, (_, data) => ({
      name: "job",
      data: `${String(data)}${"x".repeat(200_000)}`,
    }));
    let tries = 0;
    const add = async (): Promise<unknown> => {
      tries++;
      const adding = rejection(queue.addAll(many));
      await eventually(async () => expect((await fixture.counts()).jobs).toBeGreaterThan(1));
      proxy.refuse = true;
      proxy.resetAll();
      const error = await adding;
      proxy.heal();
      throw error;
    };
    proxy.up.latencyMs = 50;
    const error = await rejection(retry(add, { waitMs: 20_000 }));
    expect([error, tries]).toMatchObject([{ code: "KIT_UNKNOWN_OUTCOME", op: undefined, retryable: false }, 1]);
  });

  it("names the stall of its own event loop after which the server did not answer either", async () => {
    const [queue, node] = [make({ deadlineMs: 300, maxPending: 2 }), redis.server.nodes[0]!];
    await eventually(() => queue.add("job", 0));
    node.pause();
    const lost = rejection(queue.add("job", 1));
    // Sent; the next one is not, and waits for its reply.
    await new Promise(setImmediate);
    const unsent = rejection(queue.add("job", 2));
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 700);
    const errors = await Promise.all([lost, unsent]).finally(() => node.resume());
    const stall = String.raw`\(no reply; the event loop was blocked for at least 0\.\d s\)`;
    expect(errors).toMatchObject([
      { code: "KIT_UNKNOWN_OUTCOME", message: expect.stringMatching(new RegExp(stall)) as string },
      { code: "KIT_UNAVAILABLE", message: expect.stringMatching(new RegExp(` in time ${stall}: `)) as string },
    ]);
  });

  it("reports no job as lost whose end the server recorded before a later heartbeat", async () => {
    const [queue, lost] = [make(), [] as unknown[]];
    let ran = 0;
    const worker = work(
      queue,
      () => {
        ran++;
        // The heartbeat is due when the handler ends.
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 700);
      },
      { leaseMs: 2_000, strict: true },
    );
    worker.on("lost", ({ job }) => lost.push(job.id));
    for (let n = 0; n < 6; n++) await queue.add("job", n);
    await eventually(() => expect(ran).toBe(6), { timeoutMs: 60_000 });
    await fixture.untilEmpty();
    await worker.close();
    expect(lost).toEqual([]);
  });

  it("gives a caller one outcome of one run, whichever request or reply of its connection is lost", async () => {
    const { proxy, queue } = await proxied();
    queue.on("error", () => undefined);
    const runs = new Runs();
    work(make(), (job) => (runs.handler(job), job.data));
    for (let round = 0; round < 12; round++) {
      if (round % 3 === 0) proxy.down.cutNext = 1;
      else if (round % 3 === 1) proxy.up.cutNext = 1;
      const call = queue.call("job", round);
      if (round % 3 === 2) proxy.resetAll();
      expect(await call).toBe(round);
    }
    expect(runs.data).toEqual(Array.from({ length: 12 }, (_, round) => round));
  });

  it("runs nothing once it closes, and hands back the jobs that were on their way to it", async () => {
    const { proxy, queue } = await proxied(30_000);
    const closed = { now: false };
    const late: unknown[] = [];
    const { promise, open } = latch();
    redis.defer(open);
    const { failures } = fixture.keysOf();
    // A further crash makes it a dead letter, so the worker records its begin first.
    await fixture.db.hset(failures, "risky", "0\t2\t");
    const risky = work(queue, ({ data }) => (closed.now ? late.push(data) : promise));
    risky.on("error", () => undefined);
    await fixture.untilIdle(1);
    proxy.down.latencyMs = 300;
    await make().add("job", "risky", { id: "risky" });
    await eventually(async () => expect(await fixture.db.hget(failures, "risky")).toMatch(/^0\t2 \w{12}\t$/));
    closed.now = true;
    await risky.close({ timeoutMs: 5_000 });
    expect(await fixture.counts()).toMatchObject({ waiting: 1, leases: 0 });

    proxy.up.latencyMs = 100;
    closed.now = false;
    await fixture.db.del(fixture.keysOf().failures);
    await make().addAll(Array.from({ length: 2_000 }, (_, data) => ({ name: "job", data })));
    const ahead = work(queue, ({ data }) => void (closed.now && late.push(data)));
    ahead.on("error", () => undefined);
    await new Promise((resolve) => ahead.once("completed", resolve));
    closed.now = true;
    await ahead.close();
    expect(await fixture.counts()).toMatchObject({ leases: 0, failures: 0 });
    expect(late).toEqual([]);
  });

  it("aborts its handlers at the end of the time to close, though the server is silent about the jobs that go back", async () => {
    const { proxy, queue } = await proxied(30_000);
    await make().addAll(Array.from({ length: 2_000 }, (_, data) => ({ name: "job", data })));
    let closed: Promise<void> | undefined;
    const reasons: unknown[] = [];
    const worker = work(queue, async ({ data, signal }) => {
      // Of the later ones some are in hand by then.
      if ((data as number) < 1_000) return;
      proxy.down.hole = true;
      await Promise.resolve();
      closed ??= worker.close({ timeoutMs: 100 });
      reasons.push(await aborted(signal));
      proxy.heal();
      proxy.resetAll();
    });
    worker.on("error", () => undefined);
    // Its lease would end later, and sooner than the deadline of the call that hands jobs back.
    await eventually(() => expect(reasons).toMatchObject([{ code: "KIT_CLOSED" }]));
    await closed;
  });

  it("continues after the server killed its connections, also the waiting one", async () => {
    const runs = new Runs();
    const queue = make();
    const worker = work(queue, runs.handler);
    worker.on("error", () => undefined);
    const node = redis.server.nodes[0]!;
    for (let round = 0; round < 4; round++) {
      await eventually(async () => expect(String(await node.call("CLIENT", "LIST"))).toMatch(/cmd=bzpopmin/));
      const list = String(await node.call("CLIENT", "LIST"));
      const id = /^id=(\d+) .*cmd=bzpopmin/m.exec(list)?.[1] ?? "";
      await node.call("CLIENT", "KILL", "ID", id);
      await queue.add("job", round);
      await runs.until(round + 1);
    }
    expect(runs.data).toEqual([0, 1, 2, 3]);
  });

  it("runs a delayed job in time though the request of its look is lost", async () => {
    const { proxy, queue } = await proxied();
    const runs = new Runs();
    const errors: string[] = [];
    work(queue, runs.handler).on("error", ({ code }) => errors.push(code));
    await fixture.untilIdle(1);
    const id = await make().add("job", 1, { delayMs: 2_000 });
    const { delayed, wake } = fixture.keysOf();
    const dueAt = Number(await fixture.db.zscore(delayed, id));
    await eventually(async () => expect(await fixture.db.exists(wake)).toBe(0));
    // It has looked, and waits again: the next request is the look of its timer.
    await fixture.untilIdle(1);
    proxy.up.cutNext = 1;
    await runs.until(1, 20_000);
    // The job may start before the worker tells that it has recovered.
    await eventually(() => expect(errors).toEqual(["KIT_UNKNOWN_OUTCOME", "KIT_RECOVERED"]));
    // The wait ends after 13 s at the earliest.
    expect(runs.jobs[0]!.takenAt - dueAt).toBeLessThan(9_000);
  });

  it("charges no crash to the first job after a reconnect, however long it had waited", async () => {
    const { queue } = await proxied();
    const runs = new Runs();
    const events: string[] = [];
    const worker = work(queue, runs.handler, { leaseMs: 500 });
    worker.on("crashed", () => events.push("crashed"));
    worker.on("lost", () => events.push("lost"));
    await fixture.untilIdle(1);
    const node = redis.server.nodes[0]!;
    const list = async (): Promise<string[]> => String(await node.call("CLIENT", "LIST")).split("\n");
    const own = (await list()).filter((line) => line.includes(" name=kit "));
    for (const line of own) await node.call("CLIENT", "KILL", "ID", /^id=(\d+)/.exec(line)![1]!);
    // The connection that waits stays, and waits for longer than the lease.
    await eventually(async () =>
      expect(await list()).toContainEqual(expect.stringMatching(/ idle=(?:[2-9]|\d\d+) .*cmd=bzpopmin/)),
    );
    await make().add("job", 1);
    await runs.until(1);
    await fixture.untilEmpty();
    expect(events).toEqual([]);
    expect(runs.jobs.map(({ crashes }) => crashes)).toEqual([0]);
  });

  it("continues after a restart of the server, idle and busy, with all its jobs", async () => {
    const runs = new Runs();
    const queue = make({ deadlineMs: 5_000 });
    const worker = work(queue, runs.handler, { concurrency: 3 });
    worker.on("error", () => undefined);
    await queue.add("job", "before");
    await runs.until(1);
    const node = redis.server.nodes[0]!;
    await queue.add("job", "delayed", { delayMs: 500 });
    await node.kill();
    await node.start();
    await runs.until(2, 20_000);
    await queue.addAll(Array.from({ length: 500 }, (_, n) => ({ name: "job", data: n })));
    await node.kill();
    await node.start();
    await fixture.untilEmpty();
    expect(new Set(runs.data)).toEqual(new Set(["before", "delayed", ...Array.from({ length: 500 }, (_, n) => n)]));
  });

  it("notices a silent server, and continues when it replies again", async () => {
    const { proxy, queue } = await proxied();
    const runs = new Runs();
    const worker = work(queue, runs.handler);
    const errors: string[] = [];
    worker.on("error", ({ code }) => errors.push(code));
    await queue.add("job", 1);
    await runs.until(1);
    proxy.down.hole = true;
    proxy.up.hole = true;
    const safe = make();
    await safe.add("job", 2);
    expect(await rejection(queue.add("job", 3))).toMatchObject({
      code: "KIT_UNKNOWN_OUTCOME",
      // The queue is not durable.
      message: expect.not.stringContaining("replicated") as string,
    });
    proxy.heal();
    proxy.resetAll();
    await runs.until(2, 25_000);
    await worker.close();
    expect(runs.data).toContain(2);
  });

  it("reports a lost job if its end arrives after another worker has taken it", async () => {
    const { proxy, queue } = await proxied(300);
    const runs = new Runs();
    const cutOff = work(
      queue,
      (job) => {
        runs.handler(job);
        proxy.up.hole = true;
      },
      { leaseMs: 2_000 },
    );
    const [events, errors] = [[] as string[], [] as string[]];
    cutOff.on("completed", () => events.push("completed"));
    cutOff.on("lost", ({ job }) => events.push(`lost ${job.id}`));
    cutOff.on("error", ({ code }) => errors.push(code));
    const id = await make().add("job", 1);
    await runs.until(1);
    // Its end was sent, and may have arrived: a lease that ends now says nothing yet.
    await eventually(() => expect(errors).toContain("KIT_UNKNOWN_OUTCOME"));
    work(make(), runs.handler, { leaseMs: 2_000 });
    await runs.until(2);
    proxy.heal();
    proxy.resetAll();
    await eventually(() => expect(events).toEqual([`lost ${id}`]));
  });

  it("renews the lease of a job in time, taken right after all others were lost, on a slow network", async () => {
    // Longer than the network takes: a silent connection is replaced at this deadline, together with its heartbeats.
    const { proxy, queue } = await proxied(10_000);
    const runs = new Runs();
    const { promise, open } = latch();
    redis.defer(open);
    const [leaseMs, lost] = [5_000, [] as unknown[]];
    work(queue, (job) => (runs.handler(job), promise), { concurrency: 2, leaseMs })
      .on("error", () => undefined)
      .on("lost", ({ job }) => lost.push(job.data));
    const safe = make();
    await safe.add("job", "gone");
    await runs.until(1);
    await fixture.untilIdle(1);
    const { leases, jobs } = fixture.keysOf();
    await fixture.db.del(leases, jobs);
    await eventually(() => expect(lost).toEqual(["gone"]));
    await safe.add("job", "kept");
    await runs.until(2);
    proxy.down.latencyMs = 300;
    const endOf = async (): Promise<number> => Number((await fixture.db.zrange(leases, "0", "0", "WITHSCORES"))[1]);
    // By the server's clock: each renewal was made before the lease had ended.
    for (let renewals = 0; renewals < 2; renewals++) {
      const end = await endOf();
      const next = await eventually(async () => {
        const renewed = await endOf();
        expect(renewed).toBeGreaterThan(end);
        return renewed;
      });
      expect(next - leaseMs).toBeLessThan(end);
    }
    expect(lost).toEqual(["gone"]);
  });

  it("counts no attempt that its handler ended because the server was silent", async () => {
    const { proxy, queue } = await proxied();
    const runs = new Runs();
    const worker = work(
      queue,
      async (job) => {
        runs.handler(job);
        if (runs.jobs.length > 1) return;
        proxy.down.hole = true;
        await aborted(job.signal);
        proxy.heal();
        proxy.resetAll();
        throw new Error("broken off");
      },
      { leaseMs: 500 },
    );
    worker.on("error", () => undefined);
    await make().add("job", 1, { maxAttempts: 1 });
    await runs.until(2);
    await fixture.untilEmpty();
    expect(runs.jobs.map(({ attempt }) => attempt)).toEqual([1, 1]);
    expect((await fixture.counts()).dead).toBe(0);
  });

  it("fails an add at its deadline when there is no server, and adds when there is one again", async () => {
    const client = redis.connect({ port: closedPort, retryStrategy: () => 20 });
    const queue = on(client, { deadlineMs: 300, maxPending: 2 });
    const adds = [queue.add("job", 1), queue.add("job", 2), queue.add("job", 3)].map(rejection);
    expect(await Promise.all(adds)).toMatchObject([
      { code: "KIT_UNAVAILABLE" },
      { code: "KIT_UNAVAILABLE" },
      { code: "KIT_QUEUE_FULL", maxPending: 2 },
    ]);
  });

  it("refuses adds by name while the server is a replica, refuses writes or is busy, and then works on", async () => {
    const client = await connect({ url: redis.url, deadlineMs: 30_000 });
    redis.defer(() => client.close());
    const queue = on(client, { deadlineMs: 1_000 });
    const runs = new Runs();
    const worker = work(queue, runs.handler);
    worker.on("error", () => undefined);
    await queue.add("job", "before");
    await runs.until(1);
    const node = redis.server.nodes[0]!;
    await node.call("REPLICAOF", "127.0.0.1", String(closedPort));
    redis.defer(() => node.call("REPLICAOF", "NO", "ONE"));
    expect(await rejection(queue.add("job", "to a replica"))).toMatchObject({
      code: expect.stringMatching(/^KIT_(READONLY|UNAVAILABLE)$/) as string,
    });
    await node.call("REPLICAOF", "NO", "ONE");
    await eventually(() => queue.add("job", "to a master", { id: "master" }));
    await runs.until(2);
    redis.defer(() => node.call("CONFIG", "SET", "min-replicas-to-write", "0"));
    await node.call("CONFIG", "SET", "min-replicas-to-write", "1");
    expect(await rejection(queue.add("job", "unsafe"))).toMatchObject({ code: "KIT_SERVER", retryable: true });
    await node.call("CONFIG", "SET", "min-replicas-to-write", "0");
    await node.call("CONFIG", "SET", "lua-time-limit", "10");
    const endless = redis.connect().eval("while true do end", 0) as Promise<unknown>;
    const ended = rejection(endless);
    await eventually(async () => expect(String(await rejection(node.call("PING")))).toMatch(/BUSY/));
    expect(await rejection(queue.add("job", "to a busy one"))).toMatchObject({
      code: expect.stringMatching(/^KIT_/) as string,
    });
    await node.call("SCRIPT", "KILL");
    expect(String(await ended)).toMatch(/killed/);
    await eventually(() => queue.add("job", "after", { id: "after" }));
    await runs.until(3);
    await fixture.untilEmpty();
    expect(runs.data).toEqual(["before", "to a master", "after"]);
  });

  it("reports it when it cannot open the connection on which it waits, and works on once it can", async () => {
    const client = redis.connect() as Redis;
    let isBroken = true;
    const broken = (own: Redis): Redis => {
      const duplicate = own.duplicate.bind(own);
      own.duplicate = (options) => {
        if (isBroken && JSON.stringify(options).includes("queue-wait")) throw new TypeError("no more of these");
        return broken(duplicate(options));
      };
      return own;
    };
    const [queue, runs] = [on(broken(client)), new Runs()];
    const errors: string[] = [];
    work(queue, runs.handler).on("error", ({ code, message }) => errors.push(`${code} ${message}`));
    await eventually(() => expect(errors).toEqual(["KIT_UNEXPECTED Waiting for work failed: no more of these"]));
    isBroken = false;
    await fixture.untilIdle(1);
    await queue.add("job", 1);
    await runs.until(1);
  });

  it("waits longer each time, and reports why, while an idle queue's server rejects the wait", async () => {
    const queue = make();
    const runs = new Runs();
    const refused: string[] = [];
    work(queue, runs.handler).on("error", ({ code, message }) => refused.push(`${code} ${message}`));
    await fixture.untilIdle(1);
    const node = redis.server.nodes[0]!;
    await node.call("CONFIG", "RESETSTAT");
    await node.call("CONFIG", "SET", "min-replicas-to-write", "1");
    redis.defer(() => node.call("CONFIG", "SET", "min-replicas-to-write", "0"));
    const id = /^id=(\d+) .*cmd=bzpopmin/m.exec(String(await node.call("CLIENT", "LIST")))?.[1] ?? "";
    await node.call("CLIENT", "UNBLOCK", id);
    const tries = async (): Promise<number> => {
      const stats = String(await node.call("INFO", "commandstats"));
      return Number(/cmdstat_bzpopmin:.*rejected_calls=(\d+)/.exec(stats)?.[1] ?? 0);
    };
    await eventually(async () => expect(await tries()).toBeGreaterThan(3));
    // A worker that does not pause makes thousands.
    expect(await tries()).toBeLessThan(40);
    expect(refused).toEqual([expect.stringMatching(/^KIT_SERVER .* failed: the server has too few replicas/)]);
    await node.call("CONFIG", "SET", "min-replicas-to-write", "0");
    await queue.add("job", "after");
    await runs.until(1);
  });

  it("recovers when the server has forgotten its scripts", async () => {
    const runs = new Runs();
    const queue = make();
    work(queue, runs.handler);
    for (let round = 0; round < 3; round++) {
      await queue.add("job", round);
      await runs.until(round + 1);
      await redis.server.nodes[0]!.call("SCRIPT", "FLUSH");
    }
    await queue.add("job", 3);
    await runs.until(4);
    expect(runs.data).toEqual([0, 1, 2, 3]);
  });

  it("ends jobs and hands them back on a server at its memory limit, which rejects adds", async () => {
    const queue = make({ allowEviction: false });
    const runs = new Runs();
    const node = redis.server.nodes[0]!;
    await queue.addAll(Array.from({ length: 100 }, (_, n) => ({ name: "job", data: n })));
    await node.call("CONFIG", "SET", "maxmemory", "1");
    redis.defer(() => node.call("CONFIG", "SET", "maxmemory", "0"));
    expect(await rejection(queue.add("job", 1))).toMatchObject({ code: "KIT_SERVER_FULL" });
    const worker = work(queue, runs.handler, { concurrency: 5 });
    const errors: unknown[] = [];
    worker.on("error", (error) => errors.push(error));
    await runs.until(100);
    await fixture.untilEmpty();
    await worker.close();
    expect(errors).toEqual([]);
    await node.call("CONFIG", "SET", "maxmemory", "0");
  });

  it("refuses a server that may evict any key, also one that it reconnects to, unless allowEviction is set", async () => {
    const node = redis.server.nodes[0]!;
    redis.defer(() => setPolicy("noeviction", "0"));
    const refused = { code: "KIT_QUEUE_EVICTION", queue: "mail", policy: "allkeys-lru" };
    const [queue, errors] = [make(), [] as unknown[]];
    await queue.add("job", 1);
    work(queue, () => undefined).on("error", (error) => errors.push(error));
    await fixture.untilEmpty();
    await setPolicy("allkeys-lru", "1gb");
    expect(await rejection(make().add("job", 1))).toMatchObject(refused);
    // As a failover does.
    await node.call("CLIENT", "KILL", "TYPE", "normal");
    await eventually(async () => expect(await rejection(queue.add("job", 1))).toMatchObject(refused));
    await eventually(() => expect(errors).toContainEqual(expect.objectContaining(refused)));
    const [allowed, policies] = [make({ allowEviction: true }), [] as string[]];
    allowed.on("evictable", ({ policy }) => policies.push(policy));
    await allowed.add("job", 1);
    expect(policies).toEqual(["allkeys-lru"]);
  });

  it("accepts a server that evicts only keys with an expiry, with one event, and one with an unknown policy", async () => {
    const node = redis.server.nodes[0]!;
    redis.defer(() => setPolicy("noeviction", "0"));
    const [queue, policies] = [make(), [] as string[]];
    queue.on("evictable", ({ policy }) => policies.push(policy));
    await setPolicy("volatile-lru", "1gb");
    for (let n = 0; n < 3; n++) await queue.add("job", n);
    await node.call("CLIENT", "KILL", "TYPE", "normal");
    await eventually(() => queue.add("job", 3));
    expect(policies).toEqual(["volatile-lru"]);

    await node.call("ACL", "SETUSER", "blind", "on", ">pw", "~*", "&*", "+@all", "-info");
    redis.defer(() => node.call("ACL", "DELUSER", "blind"));
    const own = on(redis.connect({ username: "blind", password: "pw", enableReadyCheck: false }));
    const codes: string[] = [];
    own.on("error", ({ code }) => codes.push(code));
    await own.add("job", 1);
    expect(codes).toEqual(["KIT_NO_PERMISSION"]);
  });

  it("stores its layout again when the server has lost it while the producer stayed connected", async () => {
    const { meta } = fixture.keysOf();
    const own = make();
    await own.add("job", 1);
    await fixture.db.flushall();
    await own.add("job", 2);
    await eventually(async () => expect(await fixture.db.hget(meta, "layout")).toBe("1"));
  });

  it("refuses data of a newer version, and names a key of another type, changing nothing", async () => {
    const keys = fixture.keysOf();
    await fixture.db.hset(keys.meta, "layout", "2");
    expect(await rejection(make().add("job", 1))).toMatchObject({ code: "KIT_LAYOUT" });
    const [errors, idle] = [[] as string[], make()];
    const refused = work(idle, () => undefined);
    refused.on("error", ({ code }) => errors.push(code));
    await eventually(() => expect(errors).toEqual(["KIT_LAYOUT"]));
    // Whatever makes a worker look for jobs, it does not touch them.
    await fixture.db.hset(keys.jobs, "own", "0 job\n1");
    await fixture.db.rpush(keys.waiting, "own");
    refused.concurrency = 2;
    for (let look = 0; look < 50; look++)
      expect(await fixture.counts()).toMatchObject({ jobs: 1, waiting: 1, leases: 0 });
    await refused.close();
    await fixture.db.del(keys.meta, keys.jobs, keys.waiting);
    await fixture.db.set(keys.waiting, "not a list", "EX", 60);
    expect(await rejection(make().add("job", 1))).toMatchObject({
      code: "KIT_KEY_TYPE",
      key: keys.waiting,
      found: "string",
    });
    expect(await fixture.db.exists(keys.jobs, keys.producers)).toBe(0);
  });
});
