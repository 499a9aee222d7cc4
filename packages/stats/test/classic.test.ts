import { eventually, useRedis } from "@kit/testing";
import { rejection, RequestProxy } from "@tooling/vitest/helpers";
import { Redis } from "ioredis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { drops, fixtureOf } from "./harness.js";

/** Each test shows that this package does not have a known defect of the logs, counters and statistics in "Redis in Action". */
const redis = useRedis(vitest, { permanentKeys: ["*"] });
const fixture = fixtureOf(redis);
const hourMs = 3_600_000;
/** A client whose requests are seen, and the text of each since its handshake. */
const watchedClient = async (): Promise<{ client: Redis; proxy: RequestProxy; sent: string[] }> => {
  const proxy = await RequestProxy.open(redis.server.nodes[0]!.port);
  redis.defer(() => proxy[Symbol.asyncDispose]());
  const client = new Redis(proxy.url, { retryStrategy: () => null });
  client.on("error", () => undefined);
  redis.defer(() => client.disconnect());
  await client.ping();
  const sent: string[] = [];
  proxy.before = (text) => void sent.push(text);
  return { client, proxy, sent };
};
const commandsIn = (sent: readonly string[]): number => sent.join("").match(/\*\d+\r\n\$/g)?.length ?? 0;

describe("defects of the classic recent log, absent here", () => {
  it("stores text only", async () => {
    const stats = fixture.make();
    const log = stats.messages("shop");
    log.log(45, "Card 4242 refused", { fields: { card: 4242 } });
    log.log("info", "Card taken");
    await stats.flush();
    const live = log.tail({ last: 1, minLevel: "warn" });
    expect((await live.next()).value).toMatchObject({ severity: 45, level: "warn" });
    await live.return();
    const first = await log.recent({ limit: 1 });
    const second = await log.recent({ limit: 1, before: first.next });
    const found = [...first.entries, ...second.entries].toSorted((a, b) => a.severity - b.severity);
    expect(found).toMatchObject([
      { text: "Card taken", fields: {} },
      { text: "Card 4242 refused", fields: { card: 4242 } },
    ]);
  });
});

describe("defects of the classic common log, absent here", () => {
  it("never rotates, since the first hour is never stored", async () => {
    const stats = fixture.make();
    const log = stats.messages("shop", { window: { stepMs: 100, keepSamples: 1_000 } });
    log.log("info", "old");
    await eventually(async () => {
      log.log("info", "new");
      await stats.flush();
      expect((await log.frequent({ lastMs: 1 })).map(({ sample }) => sample)).toEqual(["new"]);
    });
    expect((await log.frequent({ lastMs: 60_000 })).map(({ sample }) => sample)).toContain("old");
  });

  it("counts every different text, as many as there are", async () => {
    const stats = fixture.make();
    const masked = stats.messages("shop");
    const bounded = stats.messages("unmasked", { mask: false, maxDistinct: 10 });
    for (let card = 0; card < 50; card++) {
      masked.log("info", `Card ${String(card)} refused`);
      bounded.log("info", `Card ${String(card)} refused`);
      await stats.flush();
    }
    expect((await masked.frequent({ lastMs: hourMs })).map(({ count }) => count)).toEqual([50]);
    const places = await bounded.frequent({ lastMs: hourMs, limit: 1_000 });
    expect([places.length, places.reduce((sum, { count }) => sum + count, 0)]).toEqual([10, 50]);
  });

  it("silently drops a message under conflict", async () => {
    const writers = Array.from({ length: 8 }, () => fixture.on(redis.connect()));
    const dropped = writers.map(drops);
    for (let round = 0; round < 5; round++) {
      for (const stats of writers) stats.messages("shop").log("info", "Everybody hears this");
      await Promise.all(writers.map((stats) => stats.flush()));
    }
    const [counted] = await writers[0]!.messages("shop").frequent({ lastMs: hourMs });
    const { entries } = await writers[0]!.messages("shop").recent();
    expect([counted?.count, entries.length, ...dropped]).toEqual([40, 40, ...writers.map(() => ({}))]);
  });
});

describe("defects of the classic counters, absent here", () => {
  const seven = [1, 5, 60, 300, 3_600, 18_000, 86_400].map((second) => ({ stepMs: second * 1_000, keepSamples: 120 }));

  it("take 16 commands a hit", async () => {
    const { client, sent } = await watchedClient();
    const stats = fixture.on(client);
    const hits = stats.counter("hits_total", { precisions: seven });
    // The script is known to the server from here on, and the server's clock to us.
    await hits.add();
    sent.length = 0;
    for (let hit = 0; hit < 100; hit++) hits.inc();
    await stats.flush();
    expect(commandsIn(sent)).toBe(1);
    // A hundredth of what 100 hits cost there.
    expect(sent.join("").length).toBeLessThan(1_039);
    // A waiting caller also needs one command.
    await hits.add();
    expect([commandsIn(sent), await hits.total()]).toEqual([2, 102]);
  });

  it("share one key, which every hit writes", async () => {
    const stats = fixture.make();
    for (const name of ["hits_total", "sales_total"]) await stats.counter(name).add();
    const written = await fixture.db.keys(`${redis.prefix}:stats:*`);
    expect(written.filter((key) => !/\{(hits|sales)_total\}/.test(key))).toEqual([]);
    expect(written.length).toBeGreaterThanOrEqual(2 * 4);
  });

  it("treat the instant 0 as now", async () => {
    const hits = fixture.make().counter("hits_total");
    await hits.add(1, { at: 0 });
    const today = await hits.read({ lastMs: 86_400_000, stepMs: 900_000 });
    expect([await hits.total(), today.some(({ value }) => value > 0)]).toEqual([1, false]);
  });

  it("are read whole, with gaps", async () => {
    const now = Math.floor((await fixture.serverMs()) / 60_000) * 60;
    const hits = fixture.make().counter("hits_total");
    for (const minutes of [90, 60, 3, 1]) await hits.add(1, { at: (now - minutes * 60) * 1_000 });
    const read = await hits.read({ fromAt: (now - 240) * 1_000, toAt: now * 1_000, stepMs: 60_000 });
    expect(read.map(({ value }) => value)).toEqual([0, 1, 0, 1]);
    const wide = await hits.read({ fromAt: (now - 240) * 1_000, toAt: now * 1_000, stepMs: 120_000 });
    expect(wide.reduce((sum, { value }) => sum + value, 0)).toBe(2);
  });

  it("stay forever when the clean-up dies", async () => {
    const hits = fixture.make().counter("hits_total", { precisions: [{ stepMs: 10, keepSamples: 100 }] });
    await hits.add();
    const own = await fixture.db.keys(`${redis.prefix}:stats:*`);
    expect(own.length).toBeGreaterThanOrEqual(2);
    for (const key of own) expect(await fixture.db.pttl(key)).not.toBe(-1);
    // It expires once its sixty buckets of 10 ms and another hundred are over, without a cleaner.
    await eventually(async () => expect(await fixture.db.keys(`${redis.prefix}:stats:*:c:*`)).toEqual([]));
  });

  it("are skipped when two processes clean up", async () => {
    const now = Date.now();
    const old = now / 1000 - 400 * 86_400;
    const stats = fixture.make();
    const hits = stats.counter("hits_total", { labelNames: ["page"] });
    for (let page = 0; page < 100; page++) hits.inc({ page }, 1, { at: old * 1_000 });
    await stats.flush();
    // An amount that is older than any precision keeps is not stored in one: it could only stay.
    expect(await fixture.db.keys(`${redis.prefix}:stats:*:c:*`)).toEqual([]);
    for (let page = 0; page < 99; page++) await fixture.db.del(hits.series({ page }).outbox.keys.total);
    const cleaned = await Promise.all([stats.clean(), stats.clean(), stats.clean()]);
    expect(cleaned.reduce((sum, count) => sum + count, 0)).toBe(99);
    expect((await stats.expose()).text.match(/^hits_total\{.*/gm)).toEqual(['hits_total{page="99"} 1']);
  });
});

describe("defects of the classic statistics, absent here", () => {
  it("never rotate", async () => {
    const serverMs = await fixture.serverMs();
    const cart = fixture.make().distribution("cart_ms");
    await cart.record(100, { at: serverMs - 5 * hourMs });
    await cart.record(1, { at: serverMs });
    expect(await cart.summary({ lastMs: 60_000 })).toMatchObject({ count: 1, max: 1 });
    expect(await cart.summary({ lastMs: 6 * hourMs })).toMatchObject({ count: 2, max: 100 });
    // The hour before is that, also when nothing happened, and not the last in which something did.
    const hours = await cart.windows({ lastMs: 3 * hourMs, stepMs: hourMs });
    expect(hours.slice(0, -1).map(({ summary }) => summary.count)).toEqual(hours.slice(0, -1).map(() => 0));
  });

  it("lose the deviation of values that are near each other", async () => {
    const values = [1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16];
    const cart = fixture.make().distribution("cart_ms");
    for (const value of values) await cart.record(value);
    expect((await cart.total()).stddev).toBe(Math.sqrt(22.5));
  });

  it("write two temporary keys for each value", async () => {
    const { client } = await watchedClient();
    await fixture.on(client).distribution("cart_ms").record(1);
    const written = await fixture.db.keys(`${redis.prefix}:stats:*`);
    expect(written.filter((key) => !key.includes("{cart_ms}"))).toEqual([]);
    const totals = await fixture.on(client).distribution("cart_ms").record(2);
    expect(totals.total).toMatchObject({ count: 2, sum: 3, min: 1, max: 2 });
  });
});

describe("defects of the classic access times, absent here", () => {
  const refused = (): Promise<never> => Promise.reject(new Error("refused"));

  it("do not measure failures", async () => {
    const stats = fixture.make();
    const latency = stats.distribution("request_ms", { labelNames: ["route", "outcome"] });
    await rejection(latency.timed({ route: "/cart" }, refused));
    await stats.flush();
    expect((await latency.total({ route: "/cart", outcome: "error" })).count).toBe(1);
  });

  it("list a context by its average of all time", async () => {
    const latency = fixture.make().distribution("request_ms", { slowest: 10 });
    const serverMs = await fixture.serverMs();
    await latency.record(60_000, { at: serverMs - 5 * hourMs, subject: "/cart" });
    await latency.record(1, { at: serverMs, subject: "/cart" });
    expect(await latency.slowest({ lastMs: 60_000 })).toEqual([{ subject: "/cart", value: 1 }]);
  });
});
