import type { RedisArgument } from "@kit/core";
import { contract, useRedis } from "@kit/testing";
import { about, type KeyState, nothing, onMovingSlots, stateOf } from "@tooling/vitest/helpers";
import type { Redis } from "ioredis";
import * as vitest from "vitest";
import { beforeEach, describe, expect, it } from "vitest";
import { indexKey, type LogKeys, type SeriesKeys } from "../src/store/keys.js";
import * as scripts from "../src/store/scripts/index.js";
import * as records from "../src/store/scripts/records.js";
import { fixtureOf } from "./harness.js";

const redis = useRedis(vitest);
onMovingSlots(redis, scripts);
const fixture = fixtureOf(redis);
const ledgerMs = 600_000;
const dayMs = 86_400_000;

let db: Redis;
let keys: SeriesKeys;
let log: LogKeys;
let now: number;
beforeEach(async () => {
  db = redis.client;
  keys = fixture.keysOf("series");
  log = fixture.logKeysOf("log");
  now = await fixture.serverMs();
});

interface Counted {
  readonly seq?: number;
  readonly amount?: number | string;
  readonly validUntil?: number;
  readonly ledger?: number;
  readonly of?: SeriesKeys;
  readonly bucketAmount?: number | string;
}
/** Adds to the total and to bucket 7 of one chunk. */
const counting = ({ seq = 1, amount = 5, validUntil = 0, of = keys, bucketAmount = amount }: Counted = {}) => {
  const series = [of.total, of.writer("w"), of.chunk(1_000, 0)];
  const plan = [amount, dayMs, now + 60_000, 1, 7, bucketAmount];
  return { series, plan: [series.length, plan.length, validUntil, seq, ...plan] };
};
const count = async (...batches: readonly Counted[]): Promise<string[]> => {
  const all = batches.map(counting);
  const series = all.flatMap((one) => one.series);
  const plan = [batches[0]?.ledger ?? ledgerMs, ...all.flatMap((one) => one.plan)];
  const [time, ...replies] = await scripts.count.script.run(db, { series }, { plan });
  expect(Math.abs(Number(time) - now)).toBeLessThan(10_000);
  return replies.map(textOf);
};
/** An error by its code. */
const textOf = (reply: string | Error): string => (reply instanceof Error ? reply.message.replace(/ .*/, "") : reply);
const counterState = (of = keys): Promise<Record<string, KeyState>> =>
  stateOf(db, { total: of.total, writer: of.writer("w"), chunk: of.chunk(1_000, 0) });
const untouched = { total: nothing, writer: nothing, chunk: nothing };

/** The names of a record's fields, in the order in which it is written. */
const fieldsOf = (write: (plan: RedisArgument[], values: never) => void): string[] => {
  const plan: RedisArgument[] = [];
  write(plan, new Proxy({}, { get: (_, field) => field }) as never);
  return plan.map(String);
};
/** A script with the records of its plan; single fields are no records. */
const checked = (name: "count" | "merge" | "log") => {
  const singles = { count: [], merge: ["endsAt"], log: ["entries"] }[name];
  const { momentNames, ...writers } = records;
  const own = Object.entries(writers).filter(([kind]) => kind.startsWith(name) || kind.startsWith("batch"));
  const { script } = { count: scripts.count, merge: scripts.merge, log: scripts.log }[name];
  return {
    ...script,
    records: {
      ...Object.fromEntries(own.map(([kind, write]) => [kind, fieldsOf(write)])),
      ...Object.fromEntries(["ledgerMs", ...singles].map((single) => [single, [single]])),
      ...(name === "merge" && { moments: momentNames }),
    },
  };
};

describe("every script", () => {
  it("keeps the contract of scripts", async () => {
    const all = { ...scripts, count: checked("count"), merge: checked("merge"), log: checked("log") };
    expect(await contract(all, redis.server.nodes[0]!)).toEqual([]);
  });
});

describe("count", () => {
  it("adds to total and bucket, with expiries, and remembers the batch", async () => {
    expect(await count({})).toEqual(["5"]);
    expect(await counterState()).toEqual({
      total: { type: "hash", value: { layout: "1", total: "5" }, ttl: about(dayMs) },
      writer: { type: "string", value: "1 5", ttl: about(ledgerMs) },
      chunk: { type: "hash", value: { 7: "5" }, ttl: about(60_000) },
    });
    expect(await count({ seq: 2, amount: 0 }, { seq: 3, amount: 9_007_199_254_740_986 })).toEqual([
      "5",
      "9007199254740991",
    ]);
    expect((await counterState())["total"]!.value).toMatchObject({ total: "9007199254740991" });
  });

  it("answers a repeated batch with its first reply, and changes nothing", async () => {
    await count({ seq: 4 });
    await count({ seq: 5 });
    const before = await counterState();
    expect(await count({ seq: 5 }, { seq: 4 })).toEqual(["10", "10"]);
    expect(await counterState()).toMatchObject({
      total: { value: before["total"]!.value },
      chunk: { value: before["chunk"]!.value },
    });
    expect(await count({ seq: 5, validUntil: 1 })).toEqual(["10"]);
  });

  it("keeps no ledger in the weaker deliveries", async () => {
    expect(await count({ ledger: 0 })).toEqual(["5"]);
    expect(await count({ ledger: 0 })).toEqual(["10"]);
    expect((await counterState())["writer"]).toEqual(nothing);
  });

  it.each<[string, Counted, () => Promise<unknown>]>([
    ["late", { validUntil: 1 }, () => Promise.resolve()],
    ["overflow", { amount: "9007199254740992", bucketAmount: 1 }, () => Promise.resolve()],
  ])("refuses a batch that is %s, and accepts its neighbours", async (reply, batch, prepare) => {
    await prepare();
    const other = fixture.keysOf("other");
    expect(await count(batch, { of: other })).toEqual([reply, "5"]);
    expect(await counterState()).toEqual(untouched);
  });

  it.each<[string, string, (part: string) => Promise<unknown>]>([
    ["type", "total", (key) => db.set(key, "x", "PX", 60_000)],
    ["type", "writer", (key) => db.hset(key, "a", "b")],
    ["type", "chunk", (key) => db.set(key, "x", "PX", 60_000)],
    ["KIT_LAYOUT", "total", (key) => db.hset(key, "layout", "2")],
    ["KIT_LAYOUT", "total", (key) => db.hset(key, "layout", "1", "total", "many")],
    ["KIT_LAYOUT", "total", (key) => db.hset(key, "layout", "1", "total", "1.5")],
    ["KIT_LAYOUT", "total", (key) => db.hset(key, "total", "many")],
  ])(
    "replies %s for a bad %s, writes nothing of that series, and accepts its neighbours",
    async (reply, part, spoil) => {
      const key = { total: keys.total, writer: keys.writer("w"), chunk: keys.chunk(1_000, 0) }[part]!;
      await spoil(key);
      await db.pexpire(key, 60_000);
      const before = await counterState();
      const other = fixture.keysOf("other");
      expect(await count({}, { of: other })).toEqual([reply, "5"]);
      const after = await counterState();
      for (const name of Object.keys(after)) expect(after[name]!.value).toEqual(before[name]!.value);
    },
  );

  it("leaves a bucket that holds no integer as it is, and counts everything else", async () => {
    await db.hset(keys.chunk(1_000, 0), "7", "many");
    await db.pexpire(keys.chunk(1_000, 0), 60_000);
    const other = fixture.keysOf("other");
    expect(await count({ of: other }, {}, { seq: 2, of: other })).toEqual(["5", "5", "10"]);
    expect((await counterState())["chunk"]!.value).toEqual({ 7: "many" });
    expect((await counterState(other))["chunk"]!.value).toEqual({ 7: "10" });
  });

  it("sets an expiry again only with a new bucket", async () => {
    await count({});
    await db.pexpire(keys.chunk(1_000, 0), 30_000);
    await count({ seq: 2 });
    expect((await counterState())["chunk"]).toMatchObject({ value: { 7: "10" }, ttl: about(30_000) });
  });
});

describe("merge", () => {
  const partialOf = (value: number, until = now + 60_000): (string | number)[] => [
    ...[1, 1, 1, 1, 1, value, 0, value, value, value, 0, 0],
    ...[until, "p5", 1, "b1.2", 1, value, "a"],
  ];
  const merging = (seq: number, value: number, validUntil = 0): { series: string[]; plan: (string | number)[] } => {
    const partial = partialOf(value);
    const series = [keys.dist, keys.writer("w"), keys.window(1_000, 0), keys.slowest(1_000, 0)];
    const plan = [dayMs, 16, 3, 1, ...partial];
    return { series, plan: [ledgerMs, series.length, plan.length, validUntil, seq, ...plan] };
  };
  const merge = async (...args: Parameters<typeof merging>): Promise<string> => {
    const { series, plan } = merging(...args);
    const [, reply = ""] = await scripts.merge.script.run(db, { series }, { plan });
    return textOf(reply);
  };
  const state = (): Promise<Record<string, KeyState>> =>
    stateOf(db, {
      dist: keys.dist,
      writer: keys.writer("w"),
      window: keys.window(1_000, 0),
      list: keys.slowest(1_000, 0),
    });

  it("adds what a large value has cut off from the sum to its compensation, also over many batches", async () => {
    let reply = "";
    for (const [index, value] of [1, 1e100, 1, -1e100].entries()) reply = await merge(index + 1, value);
    const [sums, compensations] = [5, 6].map((at) => [at, at + 8].map((field) => Number(reply.split(" ")[field])));
    expect([sums, compensations]).toEqual([
      [0, 0],
      [2, 2],
    ]);
  });

  it("merges into the window and all of time, with expiries, once for each batch", async () => {
    expect(await merge(1, 4)).toBe("1 4 0 4 4 4 0 0 1 4 0 4 4 4 0 0");
    const first = await merge(2, 8);
    expect(first).toBe("2 6 8 4 8 12 0 0 2 6 8 4 8 12 0 0");
    expect(await merge(2, 8)).toBe(first);
    const hash = {
      count: "2",
      mean: "6",
      m2: "8",
      min: "4",
      max: "8",
      sum: "12",
      compensation: "0",
      rest: "0",
      p5: "2",
    };
    expect(await state()).toEqual({
      dist: { type: "hash", value: { ...hash, "b1.2": "2", layout: "1" }, ttl: about(dayMs) },
      writer: { type: "string", value: `2 ${first}`, ttl: about(ledgerMs) },
      window: { type: "hash", value: hash, ttl: about(60_000) },
      list: { type: "zset", value: ["a", "8"], ttl: about(60_000) },
    });
  });

  it("keeps all of time of partials whose window is over, several in one call", async () => {
    const window = [keys.window(1_000, 0), keys.slowest(1_000, 0)];
    const series = [keys.dist, keys.writer("w"), ...window, ...window];
    const partials = [4, 8].flatMap((value) => partialOf(value, now - 1));
    const own = [dayMs, 16, 3, 2, ...partials];
    const plan = [ledgerMs, series.length, own.length, 0, 1, ...own];
    const [, reply] = await scripts.merge.script.run(db, { series }, { plan });
    expect(reply).toBe("2 6 8 4 8 12 0 0 2 6 8 4 8 12 0 0");
    expect(await state()).toMatchObject({ dist: { value: { count: "2" } }, window: nothing, list: nothing });
  });

  it("refuses batches that are late, of another type or layout, and writes nothing", async () => {
    expect(await merge(1, 4, 1)).toBe("late");
    expect(await state()).toEqual({ dist: nothing, writer: nothing, window: nothing, list: nothing });
    for (const key of [keys.window(1_000, 0), keys.slowest(1_000, 0), keys.writer("w"), keys.dist]) {
      await db.rpush(key, "x");
      expect(await merge(1, 4)).toBe("type");
      await db.del(key);
    }
    await db.hset(keys.dist, "layout", "7");
    expect(await merge(1, 4)).toBe("KIT_LAYOUT");
    await db.del(keys.dist);
    expect(await state()).toEqual({ dist: nothing, writer: nothing, window: nothing, list: nothing });
  });

  it("accepts the neighbours of a series with damaged numbers once", async () => {
    await merge(1, 4);
    await db.hset(keys.dist, "mean", "many", "p5", "many");
    await db.hset(keys.window(1_000, 0), "count", "", "p5", "1.5");
    const other = fixture.keysOf("other");
    const [damaged, sound] = [merging(2, 8), merging(2, 8)];
    const series = [other.dist, other.writer("w"), other.window(1_000, 0), other.slowest(1_000, 0), ...damaged.series];
    const plan = [...sound.plan, ...damaged.plan.slice(1)];
    const [, first] = await scripts.merge.script.run(db, { series }, { plan });
    expect(first).toBe("1 8 0 8 8 8 0 0 1 8 0 8 8 8 0 0");
    expect(await db.hgetall(keys.dist)).toMatchObject({ count: "2", sum: "12", p5: "many" });
  });

  it("keeps digits and infinities over many merges", async () => {
    await merge(1, 0.1);
    await merge(2, 0.2);
    expect((await state())["dist"]!.value).toMatchObject({ sum: "0.30000000000000004", min: "0.10000000000000001" });
    await merge(3, 1.7e308);
    await merge(4, 1.7e308);
    expect((await state())["dist"]!.value).toMatchObject({
      sum: "inf",
      m2: "inf",
      compensation: "0",
      max: "1.6999999999999999e+308",
    });
    expect(await merge(5, 1)).toMatch(/^5 \S+ inf /);
  });
});

describe("index", () => {
  const keepMs = 30_000;
  const index = (...series: (string | readonly [series: string, foundAt: string | number])[]): Promise<number> => {
    const listed = series.map((one) =>
      typeof one === "string" ? { series: one, foundAt: "" } : { series: one[0], foundAt: one[1] },
    );
    return scripts.index.run(db, { index: indexKey(redis.prefix, "views") }, { keepMs, maxSeries: 3, listed });
  };
  const listed = (): Promise<string[]> => db.zrange(indexKey(redis.prefix, "views"), "0", "-1", "WITHSCORES");
  const names = async (): Promise<string[]> => (await listed()).filter((_, place) => place % 2 === 0);

  it("lists series by when they were counted, up to a maximum, with an expiry", async () => {
    expect([await index("a", "b"), await index("b", "c"), await names()]).toEqual([0, 0, ["a", "b", "c"]]);
    const [, score] = await listed();
    expect(Math.abs(Number(score) - now)).toBeLessThan(10_000);
    const state = await stateOf(db, { index: indexKey(redis.prefix, "views") });
    expect(state["index"]).toMatchObject({ type: "zset", ttl: about(keepMs) });
    await db.zadd(indexKey(redis.prefix, "views"), "1", "c", String(now + 5_000), "a");
    // Counted too long ago; one more than there is room for.
    await index("d", "e");
    expect(await names()).toEqual(["d", "e", "a"]);
  });

  it("removes series that are gone, unless they were counted since", async () => {
    await index("a", "b");
    const [, score = ""] = await listed();
    expect([await index(["a", score], ["b", 1], ["c", 1]), await names()]).toEqual([1, ["b"]]);
  });

  it("lists others in the same call in which the last one goes", async () => {
    await index("a");
    const [, score = ""] = await listed();
    expect([await index(["a", score], "b"), await names()]).toEqual([1, ["b"]]);
    const [, later = ""] = await listed();
    expect([await index(["b", later]), await names()]).toEqual([1, []]);
  });
});

describe("log", () => {
  const logging = async (
    seq: number,
    fingerprint: string,
    times = 1,
    maxDistinct = 2,
    validUntil = 0,
    missed = 0,
  ): Promise<string> => {
    const series = [log.meta, log.writer("w"), log.log("warn"), log.top("warn", 0), log.seen("warn", 0)];
    const entry = [now, 40, `text of ${fingerprint}`, "", fingerprint];
    const counted = [fingerprint, times, times + missed, now, now + seq, `sample of ${fingerprint}`];
    const own = [1, 2, 30_000, dayMs, maxDistinct, 1, ...entry, now + 60_000, missed, 1, ...counted];
    const plan = [ledgerMs, series.length, own.length, validUntil, seq, ...own];
    const [, reply = ""] = await scripts.log.script.run(db, { series }, { plan });
    return textOf(reply);
  };
  const state = (): Promise<Record<string, KeyState>> =>
    stateOf(db, { meta: log.meta, log: log.log("warn"), top: log.top("warn", 0), seen: log.seen("warn", 0) });

  it("stores the entry and counts it in one step, once for each batch, with expiries", async () => {
    expect([await logging(1, "a", 3), await logging(2, "a"), await logging(2, "a")]).toEqual(["1", "1", "1"]);
    expect(await state()).toEqual({
      meta: { type: "hash", value: { layout: "1" }, ttl: about(dayMs) },
      log: { type: "stream", value: null, ttl: about(30_000) },
      top: { type: "zset", value: ["a", "4"], ttl: about(60_000) },
      seen: { type: "hash", value: { a: `4 ${now} ${now + 2} sample of a` }, ttl: about(60_000) },
    });
    await logging(3, "b");
    expect(await db.xlen(log.log("warn"))).toBe(2);
  });

  it("lets a new fingerprint take the place of the rarest, with its score, which is noted", async () => {
    await logging(1, "a", 5);
    await logging(2, "b", 2);
    await logging(3, "c", 1);
    expect(await state()).toMatchObject({
      top: { value: ["c", "3", "a", "5"] },
      seen: { value: { "": "0 2", a: expect.stringMatching(/^5 /), c: expect.stringMatching(/^1 /) } },
    });
    await logging(4, "c", 1);
    expect((await state())["seen"]!.value).toMatchObject({ "": "0 2", c: `2 ${now} ${now + 4} sample of c` });
    // A writer whose list is longer adds another: it may have been counted as often as the one that has left.
    await logging(5, "d", 1, 3);
    expect(await state()).toMatchObject({ top: { value: ["d", "3", "c", "4", "a", "5"] } });
  });

  it("adds what a batch has missed to the bound of all messages", async () => {
    await logging(1, "a", 5, 2, 0, 7);
    await logging(2, "a", 1, 2, 0, 1);
    expect(await state()).toMatchObject({
      top: { value: ["a", "6"] },
      seen: { value: { "": "8 0", a: `14 ${now} ${now + 2} sample of a` } },
    });
  });

  it("replaces the only fingerprint where there is room for one", async () => {
    await logging(1, "a", 5, 1);
    await logging(2, "b", 2, 1);
    expect(await state()).toMatchObject({
      top: { value: ["b", "7"] },
      seen: { value: { "": "0 5", b: expect.stringMatching(/^2 /) } },
    });
  });

  it("refuses batches that are late, of another type or layout, and stores nothing", async () => {
    expect(await logging(1, "a", 1, 2, 1)).toBe("late");
    for (const key of [log.log("warn"), log.top("warn", 0), log.seen("warn", 0), log.writer("w"), log.meta]) {
      await db.rpush(key, "x");
      expect(await logging(1, "a")).toBe("type");
      await db.del(key);
    }
    await db.hset(log.meta, "layout", "2");
    expect(await logging(1, "a")).toBe("KIT_LAYOUT");
    await db.del(log.meta);
    expect(await state()).toEqual({ meta: nothing, log: nothing, top: nothing, seen: nothing });
  });
});
