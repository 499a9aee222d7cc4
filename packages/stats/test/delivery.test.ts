import { tracingChannel } from "node:diagnostics_channel";
import { getEventListeners } from "node:events";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { type KitUnknownOutcomeError, retry } from "@kit/core";
import { eventually, FaultProxy, useRedis } from "@kit/testing";
import { closedPort, losingOnce, rejection, runProgram, sentTwice, timed } from "@tooling/vitest/helpers";
import { Redis } from "ioredis";
import * as vitest from "vitest";
import { describe, expect, it, vi } from "vitest";
import type { Delivery, Stats, StatsOptions } from "../src/index.js";
import { indexKey } from "../src/store/keys.js";
import { drops, fixtureOf } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const closed = { name: "KitClosedError", code: "KIT_CLOSED" };

/** An object whose server is behind a proxy that can lose replies; scripts are loaded, and the time is known. */
const behindProxy = async (options: StatsOptions = {}, retryMs = 5) => {
  const proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
  redis.defer(() => proxy.close());
  const client = new Redis(proxy.port, "127.0.0.1", {
    // Lost calls are ours to send again, not the client's.
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    retryStrategy: () => retryMs,
    disconnectTimeout: 50,
  });
  client.on("error", () => undefined);
  redis.defer(() => client.disconnect());
  const stats = fixture.on(client, { deadlineMs: 2_000, ...options });
  await eventually(() => stats.counter("warm_total").add());
  await eventually(() => stats.distribution("warm_ms").record(1));
  stats.messages("warm").log("info", "warm");
  await eventually(() => stats.flush());
  return { proxy, client, stats, dropped: drops(stats) };
};

const totalOf = (name: string): Promise<number> => fixture.make().counter(name).total();
/** The reply to the next call is lost, and the connection with it. */
const loseReply = async (proxy: FaultProxy, client: Redis): Promise<void> => {
  // Otherwise the lost answer could be one of the handshake.
  await eventually(() => expect(client.status).toBe("ready"));
  proxy.down.cutNext = 1;
};

describe("a lost reply", () => {
  it("is sent again in effectively-once delivery, and counts once", async () => {
    const { proxy, client, stats, dropped } = await behindProxy();
    const counter = stats.counter("orders_total");
    for (let round = 1; round <= 5; round++) {
      counter.inc(3);
      await loseReply(proxy, client);
      await stats.flush();
      await loseReply(proxy, client);
      expect(await counter.add(1)).toBe(round * 4);
    }
    expect(proxy.stats.resets).toBeGreaterThanOrEqual(10);
    expect([await totalOf("orders_total"), dropped]).toEqual([20, {}]);
  });

  it("counts once in distributions and message logs", async () => {
    const { proxy, client, stats } = await behindProxy();
    const latency = stats.distribution("request_ms", { slowest: 1 });
    const log = stats.messages("checkout");
    latency.observe(5, { subject: "a" });
    await loseReply(proxy, client);
    await stats.flush();
    await loseReply(proxy, client);
    expect((await latency.record(7)).total).toMatchObject({ count: 2, sum: 12 });
    log.log("warn", "refused");
    await loseReply(proxy, client);
    await stats.flush();
    expect([(await log.recent()).entries.length, (await log.frequent({ lastMs: 1_000 }))[0]?.count]).toEqual([1, 1]);
    expect((await latency.total()).count).toBe(2);
  });

  it("is given up in at-most-once delivery: counted, and reported as unknown", async () => {
    const { proxy, client, stats, dropped } = await behindProxy({ delivery: "at-most-once" });
    const counter = stats.counter("once_total");
    counter.inc(3);
    await loseReply(proxy, client);
    expect(await rejection(stats.flush())).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME" });
    expect(dropped).toEqual({ unknown: 3 });
    await stats.flush();
    expect(await totalOf("once_total")).toBe(3);
    await loseReply(proxy, client);
    expect(await rejection(counter.add(2))).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME" });
    expect([await totalOf("once_total"), dropped]).toEqual([5, { unknown: 3 }]);
  });

  it("may count twice in at-least-once delivery", async () => {
    const { proxy, client, stats, dropped } = await behindProxy({ delivery: "at-least-once" });
    const counter = stats.counter("least_total");
    counter.inc(3);
    await loseReply(proxy, client);
    await stats.flush();
    expect([await totalOf("least_total"), dropped]).toEqual([6, {}]);
  });

  it("that stays lost leaves the amount open: op waits for it, and later amounts wait behind it", async () => {
    const { proxy, stats, dropped } = await behindProxy({ deadlineMs: 1_000 }, 10);
    const counter = stats.counter("open_total");
    await counter.add(1);
    proxy.down.hole = true;
    const error = (await rejection(counter.add(10))) as KitUnknownOutcomeError;
    expect(error).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME", op: expect.any(String) as unknown, retryable: false });
    counter.inc(100);
    // Its own deadline may come first.
    expect(await rejection(stats.flush())).toMatchObject({
      code: expect.stringMatching(/KIT_(UNKNOWN_OUTCOME|UNAVAILABLE)/) as unknown,
    });
    expect(await rejection(counter.add(0, { op: error.op }))).toMatchObject({
      code: "KIT_UNKNOWN_OUTCOME",
      op: error.op,
      retryable: true,
    });
    expect(await totalOf("open_total")).toBe(11);
    // Nobody can be reached now: that nothing was sent this time does not make the first time undone.
    proxy.refuse = true;
    proxy.resetAll();
    await eventually(async () => expect(await rejection(stats.flush())).toMatchObject({ code: "KIT_UNAVAILABLE" }));
    proxy.heal();
    expect(await eventually(() => counter.add(0, { op: error.op }))).toBe(11);
    await eventually(() => stats.flush());
    expect(await counter.add(0, { op: error.op })).toBe(11);
    expect([await totalOf("open_total"), stats.report().pending, dropped]).toEqual([111, 0, {}]);
    await expect(counter.add(1, { op: "nonsense" })).rejects.toThrow(RangeError);
  });

  it.each(["effectively-once", "at-least-once", "at-most-once"] as const)(
    "adds no second amount under retry(), in %s delivery",
    async (delivery) => {
      const { proxy, client, stats } = await behindProxy({ deadlineMs: 1_000 }, 10);
      const counter = stats.counter("money_total", { delivery });
      const took = stats.distribution("price_ms", { delivery });
      await counter.add(1);
      await took.record(1);
      for (const call of [() => counter.add(10), () => took.record(10)] as readonly (() => Promise<unknown>)[]) {
        const { attempt, tries } = losingOnce(proxy, call);
        const error = await rejection(retry(attempt, { waitMs: 30_000 }));
        expect([error, tries()]).toMatchObject([{ code: "KIT_UNKNOWN_OUTCOME", retryable: false }, 1]);
        await eventually(() => client.ping());
      }
      await eventually(() => stats.flush());
      expect([await counter.total(), (await took.total()).count]).toEqual([11, 2]);
    },
  );

  it("that stays lost can be waited for until a signal aborts", async () => {
    const { proxy, stats } = await behindProxy({ deadlineMs: 1_000 }, 10);
    const counter = stats.counter("signal_total");
    proxy.down.hole = true;
    const { op } = (await rejection(counter.add(1))) as KitUnknownOutcomeError;
    const ending = new AbortController();
    const waiting = rejection(counter.add(1, { op, signal: ending.signal }));
    ending.abort(new Error("enough"));
    expect(await waiting).toMatchObject({ message: "enough" });
    proxy.heal();
    proxy.resetAll();
    expect(await eventually(() => counter.add(1, { op }))).toBe(1);
  });

  it("for which nobody waits leaves nothing in memory once it is settled", async () => {
    const { proxy, stats } = await behindProxy({ deadlineMs: 1_000 }, 10);
    const log = stats.messages("forgotten");
    const sealed: WeakRef<object>[] = [];
    const { outbox } = log;
    const seal = outbox.seal.bind(outbox);
    outbox.seal = (...args) => {
      const batch = seal(...args);
      sealed.push(new WeakRef(batch));
      return batch;
    };
    log.log("info", "lost");
    proxy.down.hole = true;
    expect(await rejection(stats.flush())).toMatchObject({
      code: expect.stringMatching(/KIT_(UNKNOWN_OUTCOME|UNAVAILABLE)/) as unknown,
    });
    proxy.heal();
    proxy.resetAll();
    await eventually(() => stats.flush());
    expect(sealed).toHaveLength(1);
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    await eventually(() => {
      collect();
      expect(sealed[0]?.deref()).toBeUndefined();
    });
  });

  it("that stays lost keeps nobody waiting beyond the deadline, and unsent amounts are not counted later", async () => {
    const { proxy, stats } = await behindProxy({ deadlineMs: 1_000 }, 10);
    const counter = stats.counter("behind_total");
    proxy.down.hole = true;
    expect(await rejection(counter.add(1))).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME" });
    const { ms } = await timed(async () => {
      expect(await rejection(counter.add(10))).toMatchObject({ code: "KIT_UNAVAILABLE" });
    });
    expect(ms).toBeLessThan(5_000);
    proxy.heal();
    await eventually(() => stats.flush());
    expect(await totalOf("behind_total")).toBe(1);
  });

  it("that is settled in the end releases the amounts that waited behind it", async () => {
    const { proxy, client, stats } = await behindProxy({ deadlineMs: 1_000 }, 10);
    const counter = stats.counter("meanwhile_total");
    proxy.down.hole = true;
    expect(await rejection(counter.add(1))).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME" });
    proxy.heal();
    proxy.resetAll();
    await eventually(() => client.ping());
    proxy.down.latencyMs = 100;
    counter.inc(10);
    const flushing = stats.flush();
    // The open amount is on its way again.
    await new Promise((resolve) => setImmediate(resolve));
    const adding = counter.add(100);
    await Promise.all([flushing, adding]);
    expect(await totalOf("meanwhile_total")).toBe(111);
  });

  it("and a repeat of the call that arrives late count once together", async () => {
    const { proxy, client, stats } = await behindProxy();
    const counter = stats.counter("late_total");
    await sentTwice(proxy, client, 300, async () => {
      counter.inc(5);
      await stats.flush();
    });
    counter.inc(2);
    await stats.flush();
    // The late copy has arrived when the proxy has forwarded everything that it held.
    await eventually(async () => expect(await totalOf("late_total")).toBe(7));
    const { total } = fixture.keysOf("late_total");
    const calls = async (): Promise<number> =>
      Number(
        /cmdstat_evalsha:calls=(\d+)/.exec(String(await redis.server.nodes[0]!.call("INFO", "commandstats")))?.[1],
      );
    const before = await calls();
    await eventually(async () => expect(await calls()).toBeGreaterThanOrEqual(before));
    expect(await redis.client.hget(total, "total")).toBe("7");
  });
});

describe("without faults", () => {
  it.each<[Delivery]>([["at-most-once"], ["at-least-once"], ["effectively-once"]])(
    "each amount counts once, also those added while a call is under way (%s)",
    async (delivery) => {
      const stats = fixture.make({ delivery, flushMs: 1 });
      const counter = stats.counter("busy_total");
      const latency = stats.distribution("busy_ms");
      const adding: Promise<unknown>[] = [];
      for (let round = 0; round < 200; round++) {
        counter.inc(2);
        latency.observe(1);
        adding.push(counter.add(1), latency.record(1));
        // Some rounds in one turn of the event loop, some while replies come in.
        if (round % 3 === 0) await new Promise((resolve) => setImmediate(resolve));
      }
      await Promise.all(adding);
      await stats.flush();
      expect([await counter.total(), (await latency.total()).count, stats.report().pending]).toEqual([600, 400, 0]);
    },
  );
});

describe("a process that is killed", () => {
  it.each<[Delivery]>([["at-most-once"], ["at-least-once"], ["effectively-once"]])(
    "after its flush was sent counts at most once (%s)",
    async (delivery) => {
      const peer = await fixture.spawn({ delivery });
      await peer.add("killed_total", 1);
      await peer.inc("killed_total", 10);
      const node = redis.server.nodes[0]!;
      node.pause();
      void peer.flush().catch(() => undefined);
      // The call lies in the server's socket buffer, or has not left the process.
      await peer.now();
      await peer.kill();
      node.resume();
      await eventually(async () => expect([1, 11]).toContain(await totalOf("killed_total")));
    },
  );

  it("between a sink's call and its reply counts once when the next one repeats it", async () => {
    const deltas = [
      { name: "lines_total", labels: { file: "a" }, amount: 5 },
      { name: "lines_total", labels: { file: "b" }, amount: 7 },
    ];
    const peer = await fixture.spawn();
    await peer.apply(deltas, { writer: "shipper", seq: 1 });
    const node = redis.server.nodes[0]!;
    node.pause();
    void peer.apply(deltas, { writer: "shipper", seq: 2 }).catch(() => undefined);
    await peer.now();
    await peer.kill();
    node.resume();
    const next = await fixture.spawn();
    await next.apply(deltas, { writer: "shipper", seq: 2 });
    await next.apply(deltas, { writer: "shipper", seq: 2 });
    const lines = fixture.make().counter("lines_total", { labelNames: ["file"] });
    expect([await lines.total({ file: "a" }), await lines.total({ file: "b" })]).toEqual([10, 14]);
  });
});

describe("without a server", () => {
  const unreachable = async (options: StatsOptions = {}): Promise<Stats> => {
    const client = new Redis(closedPort, "127.0.0.1", { retryStrategy: () => 20, disconnectTimeout: 50 });
    client.on("error", () => undefined);
    redis.defer(() => client.disconnect());
    return fixture.on(client, { deadlineMs: 100, ...options });
  };

  it("a call that waits rejects by its deadline, and its amount is not counted later", async () => {
    const node = redis.server.nodes[0]!;
    const client = redis.connect({ retryStrategy: () => 10 });
    const stats = fixture.on(client, { deadlineMs: 1_000 });
    const counter = stats.counter("away_total");
    await counter.add(1);
    await node.kill();
    await eventually(() => expect(client.status).not.toBe("ready"));
    counter.inc(2);
    expect(await rejection(counter.add(40))).toMatchObject({ code: "KIT_UNAVAILABLE" });
    await node.start();
    await eventually(() => stats.flush());
    // The server has lost its data: the total begins again, like a counter that was reset; it never goes down below zero.
    expect(await counter.total()).toBe(2);
    expect(await counter.add(1)).toBe(3);
  });

  it("amounts stay buffered, are sent by themselves when it is back, with one event for its beginning and one for its end", async () => {
    const node = redis.server.nodes[0]!;
    const stats = fixture.on(redis.connect({ retryStrategy: () => 10 }), { deadlineMs: 100, flushMs: 20 });
    const errors: string[] = [];
    stats.on("error", ({ code }) => errors.push(code));
    await node.kill();
    const counter = stats.counter("patient_total");
    counter.inc(5);
    let failedFlushes = 0;
    const flushes = tracingChannel("kit:stats.flush");
    const onFailed = { error: () => failedFlushes++ };
    flushes.subscribe(onFailed as never);
    redis.defer(() => flushes.unsubscribe(onFailed as never));
    await eventually(() => expect(failedFlushes).toBeGreaterThan(2));
    expect(errors).toEqual(["KIT_UNAVAILABLE"]);
    counter.inc(6);
    await node.start();
    await eventually(async () => expect(await counter.total()).toBe(11));
    await eventually(() => expect(errors).toEqual(["KIT_UNAVAILABLE", "KIT_RECOVERED"]));
    await eventually(() => expect(stats.report()).toMatchObject({ pending: 0, dropped: { closed: 0, full: 0 } }));
  });

  it("messages for which there is no room leave nothing behind", async () => {
    const stats = await unreachable({ maxPending: 2 });
    const dropped = drops(stats);
    const log = stats.messages("full");
    const { now } = performance;
    let second = 0;
    const clock = vi.spyOn(performance, "now").mockImplementation(() => now.call(performance) + 1_000 * second);
    for (; second < 20; second++) log.log("info", "lost");
    clock.mockRestore();
    expect([dropped, log.outbox.buffered.timeline.size]).toEqual([{ full: 19 }, 1]);
  });

  it("close() returns by its deadline, and reports lost amounts", async () => {
    const stats = await unreachable();
    const dropped = drops(stats);
    stats.counter("lost_total").inc(7);
    stats.distribution("lost_ms").observe(1);
    stats.messages("lost").log("info", "lost");
    const waiting = rejection(stats.counter("lost_total").add(1));
    const { ms } = await timed(() => stats.close({ timeoutMs: 250 }));
    expect(ms).toBeGreaterThan(240);
    expect(await waiting).toMatchObject({ code: expect.stringMatching(/KIT_(UNAVAILABLE|CLOSED)/) as unknown });
    expect(dropped).toEqual({ closed: 9 });
    expect(stats.report()).toMatchObject({ pending: 0, dropped: { closed: 9 } });
  });
});

describe("close", () => {
  it("sends buffered amounts; a second call does nothing; later amounts are dropped and counted", async () => {
    const stats = fixture.make();
    const dropped = drops(stats);
    const counter = stats.counter("closed_total");
    const latency = stats.distribution("closed_ms");
    const log = stats.messages("closed");
    counter.inc(3);
    latency.observe(1);
    log.log("info", "last words");
    const flushing = stats.flush();
    counter.inc(4);
    await Promise.all([flushing, stats.close(), stats.close({ timeoutMs: 1 })]);
    counter.inc(5);
    latency.observe(1);
    log.log("info", "too late");
    expect([await totalOf("closed_total"), dropped]).toEqual([7, { closed: 7 }]);
    expect(await rejection(counter.add(1))).toMatchObject(closed);
    expect(await rejection(latency.record(1))).toMatchObject(closed);
    expect(await rejection(stats.apply([], { writer: "w", seq: 1 }))).toMatchObject(closed);
    expect(() => stats.counter("closed_total")).toThrow("closed");
  });

  it("ends by its own deadline when the server is silent, and reports amounts that may be lost", async () => {
    const node = redis.server.nodes[0]!;
    const stats = fixture.make({ deadlineMs: 30_000 });
    const dropped = drops(stats);
    const counter = stats.counter("silent_total");
    await counter.add(1);
    node.pause();
    counter.inc(3);
    const flushing = stats.flush().catch(() => undefined);
    await new Promise((resolve) => setImmediate(resolve));
    counter.inc(4);
    const adding = rejection(counter.add(5));
    const { ms } = await timed(() => stats.close({ timeoutMs: 300 }));
    expect(ms).toBeLessThan(5_000);
    expect([await adding, dropped]).toMatchObject([closed, { unknown: 3, closed: 4 }]);
    node.resume();
    await flushing;
    await eventually(async () => expect(await totalOf("silent_total")).toBe(4));
    expect(stats.report().pending).toBe(0);
  });

  it("and flush() wait for series that are being listed", async () => {
    const { proxy, stats } = await behindProxy();
    const counter = stats.counter("listed_total", { labelNames: ["n"] });
    const key = indexKey(redis.prefix, "listed_total");
    proxy.up.latencyMs = 100;
    for (const [n, end] of [() => stats.flush(), () => stats.close()].entries()) {
      await counter.add({ n });
      // The totals are stored, so the listing is under way.
      const listing = stats.flush();
      await end();
      expect(await redis.client.zcard(key)).toBe(n + 1);
      await listing;
    }
  });

  it("lets a process end, and so does a buffer that nobody sends", async () => {
    const program = new URL("programs/ending.mjs", import.meta.url);
    for (const how of ["close", "leave"]) {
      const ended = await runProgram(redis, program, [how, redis.url, redis.prefix]);
      expect(ended).toEqual({ printed: "", code: 0 });
    }
    expect(await totalOf("ending_total")).toBe(1);
  });
});

describe("flushing", () => {
  it("goes by itself after flushMs, and earlier when the buffer is half full", async () => {
    const quick = fixture.make({ flushMs: 20 });
    quick.counter("quick_total").inc();
    await eventually(async () => expect(await totalOf("quick_total")).toBe(1));
    const small = fixture.make({ maxPending: 8 });
    const counter = small.counter("small_total", { precisions: [{ stepMs: 1_000, keepMs: 60_000 }] });
    const now = await fixture.serverMs();
    for (let second = 0; second < 4; second++) counter.inc(1, { at: now - second * 1_000 });
    await eventually(async () => expect(await totalOf("small_total")).toBe(4));
  });

  it("sends one call for many series, and one for many waiting callers", async () => {
    const stats = fixture.make();
    const counter = stats.counter("many_total", { labelNames: ["n"] });
    await counter.add({ n: 0 });
    const node = redis.server.nodes[0]!;
    await node.call("CONFIG", "RESETSTAT");
    for (let n = 0; n < 60; n++) counter.inc({ n });
    await stats.flush();
    await Promise.all(Array.from({ length: 500 }, () => counter.add({ n: 0 })));
    const calls = /cmdstat_evalsha:calls=(\d+)/.exec(String(await node.call("INFO", "commandstats")))?.[1];
    // The third lists the series that are new.
    expect(Number(calls)).toBe(3);
  });

  it("sends a large buffer in parts, and waits for all of them", async () => {
    const stats = fixture.make({ deadlineMs: 100_000 });
    const options = { precisions: [{ stepMs: 1_000, keepMs: 100_000_000 }] };
    const counter = stats.counter("great_total", options);
    const latency = stats.distribution("great_ms", { windows: [{ stepMs: 10_000, keepMs: 20_000_000 }] });
    const log = stats.messages("great", { keepEntries: 50_000 });
    const now = await fixture.serverMs();
    for (let second = 0; second < 12_000; second++) counter.inc(2, { at: now - 1_000 * second });
    for (let value = 0; value < 4_000; value++) latency.observe(1.1 ** (value % 500), { at: now - 1_000 * value });
    for (let entry = 0; entry < 3_000; entry++) log.log("info", `entry ${entry}`);
    await stats.flush();
    const sum = (await counter.read({ lastMs: 70_000_000, stepMs: 10_000_000 })).reduce(
      (all, { value }) => all + value,
      0,
    );
    expect([await counter.total(), sum]).toEqual([24_000, 24_000]);
    expect((await latency.total()).count).toBe(4_000);
    const stored = fixture.logKeysOf("great").log("info");
    expect([(await log.frequent({ lastMs: 1 }))[0]?.count, await fixture.db.xlen(stored)]).toEqual([3_000, 3_000]);
    expect(stats.report()).toMatchObject({ pending: 0 });
    // As many callers wait.
    const totals = await Promise.all(Array.from({ length: 20_000 }, () => counter.add(1)));
    expect(Math.max(...totals.slice(-10))).toBe(44_000);
  });

  it("sends the amounts of many callers in parts, and one part that is refused does not hold up the next", async () => {
    const stats = fixture.make();
    const counter = stats.counter("callers_total", { precisions: [{ stepMs: 1_000, keepMs: 10_000_000 }] });
    const now = await fixture.serverMs();
    await counter.add(1);
    const node = redis.server.nodes[0]!;
    await node.call("CONFIG", "RESETSTAT");
    const most = Number.MAX_SAFE_INTEGER - 1_500;
    const adding = Array.from({ length: 3_500 }, (_, second) =>
      counter.add(second === 0 ? most : 1, { at: now - second * 1_000 }),
    );
    const outcomes = (await Promise.allSettled(adding)).map(({ status }) => status);
    // Two parts would pass the limit; the last, of half the size, just reaches it.
    const parts = [outcomes.slice(0, 1_000), outcomes.slice(1_000, 3_000), outcomes.slice(3_000)];
    expect(parts.map((part) => [...new Set(part)])).toEqual([["fulfilled"], ["rejected"], ["fulfilled"]]);
    const calls = /cmdstat_evalsha:calls=(\d+)/.exec(String(await node.call("INFO", "commandstats")))?.[1];
    expect([Number(calls), await counter.total()]).toEqual([4, Number.MAX_SAFE_INTEGER]);
  });

  it("counts amounts that a server whose clock is minutes ahead has refused as too late", async () => {
    const stats = fixture.make();
    const dropped = drops(stats);
    const counter = stats.counter("slept_total");
    await counter.add(1);
    // The machine has slept: its monotonic clock stood still meanwhile.
    const { now } = performance;
    const sleeping = vi.spyOn(performance, "now").mockImplementation(() => now.call(performance) - 600_000);
    try {
      counter.inc(5);
      expect(await rejection(counter.add(20))).toMatchObject({ code: "KIT_UNAVAILABLE", retryable: true });
      await stats.flush();
      expect(await counter.add(10)).toBe(16);
      expect([dropped, stats.report().pending]).toEqual([{}, 0]);
    } finally {
      sleeping.mockRestore();
    }
  });

  it("frees the places of amounts that lie too far ahead", async () => {
    const stats = fixture.make({ maxPending: 4 });
    const dropped = drops(stats);
    const counter = stats.counter("ahead_total");
    const later = (await fixture.serverMs()) + 3_600_000;
    for (let second = 0; second < 4; second++) counter.inc(1, { at: later + second * 1_000 });
    await stats.flush();
    expect([stats.report().pending, dropped]).toEqual([0, { future: 4 }]);
    counter.inc(5);
    await stats.flush();
    expect([await counter.total(), dropped]).toEqual([5, { future: 4 }]);
  });

  it("while a caller gives up leaves no listener behind", async () => {
    const stats = fixture.make();
    const ending = new AbortController();
    const adding = stats.counter("aborted_total").add(1, { signal: ending.signal });
    ending.abort(new Error("enough"));
    expect(await rejection(adding)).toMatchObject({ message: "enough" });
    expect(await rejection(stats.counter("aborted_total").add(1, { signal: ending.signal }))).toMatchObject({
      message: "enough",
    });
    // It was not on its way yet.
    await stats.flush();
    expect(await totalOf("aborted_total")).toBe(0);
  });

  it("and many tails go on leaves one listener on the signal that they share", async () => {
    const log = fixture.make().messages("shared");
    const ending = new AbortController();
    const tails = Array.from({ length: 12 }, () => log.tail({ signal: ending.signal }));
    const waiting = tails.map((tail) => tail.next());
    const clients = async (): Promise<string> => String(await redis.server.nodes[0]!.call("CLIENT", "LIST"));
    await eventually(async () => expect((await clients()).match(/cmd=xread/g)).toHaveLength(12));
    expect(getEventListeners(ending.signal, "abort")).toHaveLength(1);
    ending.abort();
    for (const { done } of await Promise.all(waiting)) expect(done).toBe(true);
  });
});
