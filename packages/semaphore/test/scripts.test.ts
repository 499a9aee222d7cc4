import { KitKeyTypeError } from "@kit/core";
import type { HeartbeatReply, ReleaseReply } from "@kit/core/leasing";
import { contract, eventually, useRedis } from "@kit/testing";
import * as helpers from "@tooling/vitest/helpers";
import { about, type KeyState, nothing, rejection, stateOf } from "@tooling/vitest/helpers";
import type { Redis } from "ioredis";
import * as vitest from "vitest";
import { beforeEach, describe, expect, it } from "vitest";
import type { SemaphoreKeys } from "../src/keys.js";
import * as scripts from "../src/scripts/index.js";
import { fixtureOf, name } from "./harness.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);
const weekMs = 604_800_000;
const queueMs = 16_000;

let db: Redis;
let keys: SemaphoreKeys;
beforeEach(() => {
  db = redis.client;
  keys = fixture.keysOf(name);
});

interface Recorded {
  readonly weight?: number;
  readonly tenant?: string;
  readonly holder?: string;
}
interface Asked extends Recorded {
  readonly leaseMs?: number;
  readonly notAfter?: number;
  readonly permits?: number;
  readonly perTenant?: number | "";
  readonly shared?: 0 | 1 | "";
  readonly priority?: number;
  readonly grantMs?: number;
  readonly maxWaiters?: number;
  readonly inbox?: string;
}
const permitRecordOf = (
  token: string,
  { weight = 1, tenant = "", holder = token.toUpperCase() }: Recorded = {},
): string => `${token}|${weight}|${tenant}|${holder}`;
const acquire = (token: string, asked: Asked = {}): ReturnType<typeof scripts.acquire.run> => {
  const { leaseMs = 5_000, notAfter = 0, permits = 2, perTenant = "", shared = 0, priority = 0 } = asked;
  const { grantMs = 2_000, maxWaiters = 10, inbox = "" } = asked;
  const waiting = { shared, priority, grantMs, aliveMs: 15_000, maxWaiters, inbox };
  const terms = { leaseMs, notAfter, permits, perTenant, ...waiting };
  // A thousand at once may take a while.
  return scripts.acquire.run(db, keys, { permitRecord: permitRecordOf(token, asked), terms }, { deadlineMs: 60_000 });
};
const queue = (token: string, asked: Asked = {}): ReturnType<typeof acquire> =>
  acquire(token, { inbox: "-", ...asked });
const release = (token: string, recorded: Recorded = {}, shared = 0): Promise<ReleaseReply> =>
  scripts.release.run(db, keys, { permitRecord: permitRecordOf(token, recorded), shared });
const heartbeatOf = (permitRecords: readonly string[], inbox = "-"): Promise<HeartbeatReply<scripts.Usage>> =>
  scripts.heartbeat.run(db, keys, { shared: 0, aliveMs: 15_000, limit: 2, perTenant: "", inbox, permitRecords });
const heartbeat = (...tokens: readonly string[]): Promise<HeartbeatReply<scripts.Usage>> =>
  heartbeatOf(tokens.map((token) => permitRecordOf(token)));
type RenewTerms = readonly (readonly [permits: string, permitRecord: string, termMs: number])[];
const renew = (...terms: RenewTerms): ReturnType<typeof scripts.renew.run> =>
  scripts.renew.run(
    db,
    { permits: terms.map(([permits]) => permits) },
    { terms: terms.map(([, permitRecord, termMs]) => ({ termMs, permitRecord })) },
  );
const resize = (
  limit: number | "",
  perTenant: number | "" | "-" = "",
  from = "",
  notAfter = 0,
): Promise<scripts.Resized> =>
  scripts.resize.run(db, keys, {
    shared: 0,
    limit,
    perTenant,
    first: 2,
    firstPerTenant: "",
    from,
    notAfter,
    askedAt: 0,
  });
const done = { from: undefined, isMore: false };
/** Calls again as long as it is asked to; resolves with how often that was. */
const toTheEnd = async (resized: scripts.Resized): Promise<number> => {
  let calls = 0;
  for (let step = resized; step.from !== undefined; calls++) step = await resize("", "", step.from);
  return calls;
};
const look = (first = 10, tenant = ""): Promise<scripts.InspectReply> =>
  scripts.inspect.run(db, keys, { first, tenant });

/** The keys in Redis, with expiries only as "about so much". */
const state = (): Promise<Record<keyof SemaphoreKeys, KeyState>> => stateOf(db, keys);
const unchanged = <T>(action: () => Promise<T>): Promise<T> => helpers.unchanged(db, keys, action);
const anInbox = (): ReturnType<typeof helpers.anInbox> => helpers.anInbox(redis);
const held = async (): Promise<string[]> => (await db.zrangebyscore(keys.permits, "(0", "+inf")).toSorted();
/** Tokens of all who stand in the queue, first those of the tenant that sorts first. */
const waiting = async (): Promise<string[]> =>
  (await db.zrange(keys.queue, "0", "-1")).map((row) => /^(?:\||\S* )\d+ ([^|]*)\|/.exec(row)?.[1] ?? row);
const usage = async (): Promise<Record<string, string>> => {
  const rows = await db.zrangebyscore(keys.permits, "-inf", "(0", "WITHSCORES");
  return Object.fromEntries(
    rows.flatMap((name, at) => (at % 2 === 0 ? [[name, String(-Number(rows[at + 1]))] as const] : [])),
  );
};
const aMeta = (value: Record<string, string>): unknown => ({ type: "hash", value, ttl: about(weekMs) });
const scoreOf = (ticket: number, priority = 0): string =>
  ((BigInt(priority) + 1_000n) * 2n ** 42n + BigInt(ticket)).toString().padStart(16, "0");
const aQueue = (...rows: readonly string[]): unknown => ({
  type: "zset",
  value: rows.flatMap((row) => [row, "0"]),
  ttl: about(queueMs),
});
const aRecord = (ticket: number, rest: string): unknown =>
  expect.stringMatching(new RegExp(`^\\d{13} \\d{13} ${scoreOf(ticket)} ${rest}$`, "s"));
const records = (value: Record<string, unknown>): unknown => ({ type: "hash", value, ttl: about(queueMs) });

const serverMs = async (): Promise<number> => {
  const [seconds, micros] = await db.time();
  return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
};
/** Ends a permit on the server. */
const expire = (token: string, recorded: Recorded = {}): Promise<unknown> =>
  db.zadd(keys.permits, "XX", 1, permitRecordOf(token, recorded));
/** Ends the life of a waiter. */
const die = async (token: string, recorded: Recorded = {}): Promise<void> => {
  const permitRecord = permitRecordOf(token, recorded);
  const record = (await db.hget(keys.waiters, permitRecord))!;
  await db.hset(keys.waiters, permitRecord, record.replace(/^\d+/, "1"));
};
/** A semaphore of two permits that are both held, by "a" and "b". */
const fill = async (): Promise<void> => {
  await acquire("a");
  await acquire("b");
};

describe("every script", () => {
  it("keeps the contract of scripts", async () => {
    expect(await contract(scripts, redis.server)).toEqual([]);
  });
});

describe("acquire", () => {
  it("takes a permit of a semaphore that is new, and stores the limits", async () => {
    const before = await serverMs();
    expect(await acquire("a")).toEqual({
      state: "granted",
      now: expect.any(Number),
      msLeft: 5_000,
      fencingToken: "",
      limits: { permits: 2, permitsPerTenant: undefined },
    });
    const { permits, ...rest } = await state();
    const [permitRecord, ending] = permits.value as [string, string];
    expect(permitRecord).toBe("a|1||A");
    expect(Number(ending)).toBeGreaterThanOrEqual(before + 5_000);
    expect(Number(ending)).toBeLessThanOrEqual((await serverMs()) + 5_000);
    // Longer than the permit itself.
    expect(permits.ttl).toEqual(about(11_000));
    expect(rest).toEqual({
      meta: aMeta({ layout: "1", permits: "2" }),
      queue: nothing,
      ready: nothing,
      waiters: nothing,
    });
  });

  it("takes a permit of one that is in use, and reports no limits", async () => {
    await acquire("a");
    const reply = await acquire("b", { weight: 1, leaseMs: 60_000 });
    expect(reply).toEqual({ state: "granted", now: expect.any(Number), msLeft: undefined, fencingToken: "" });
    const { permits, ...rest } = await state();
    expect(await held()).toEqual(["a|1||A", "b|1||B"]);
    expect(permits.ttl).toEqual(about(121_000));
    expect(rest).toMatchObject({ meta: aMeta({ layout: "1", permits: "2" }), queue: nothing, waiters: nothing });
  });

  it("replies with the stored limits to a caller with others, and goes by them", async () => {
    await acquire("a");
    const limits = { permits: 2, permitsPerTenant: undefined };
    expect(await acquire("b", { permits: 9 })).toMatchObject({ state: "granted", limits });
    expect(await acquire("c", { permits: 9 })).toMatchObject({ state: "held", limits, used: 2 });
    expect(await db.hget(keys.meta, "permits")).toBe("2");
  });

  it("counts weights above one, and by tenant, with the permits", async () => {
    await acquire("a", { permits: 10, perTenant: 5, weight: 3, tenant: "x" });
    await acquire("b", { permits: 10, perTenant: 5, weight: 2, tenant: "x" });
    await acquire("c", { permits: 10, perTenant: 5, tenant: "y" });
    expect((await state()).meta).toEqual(aMeta({ layout: "1", permits: "10", perTenant: "5" }));
    expect(await usage()).toEqual({ "#": "3", "#x": "5", "#y": "1" });
    for (const [token, weight] of Object.entries({ a: 3, b: 2 })) await release(token, { weight, tenant: "x" });
    expect(await usage()).toEqual({ "#y": "1" });
    await release("c", { tenant: "y" });
    expect(await db.exists(keys.permits)).toBe(0);
  });

  it.each([
    ["with room beside it", 3],
    ["in a semaphore that is full", 2],
  ])("gives a permitRecord that has its permit no second one: %s", async (_where, permits) => {
    await acquire("a", { permits, weight: 2 });
    const before = await usage();
    expect(await queue("a", { permits, weight: 2 })).toMatchObject({ state: "granted" });
    expect(await held()).toEqual(["a|2||A"]);
    expect(await usage()).toEqual(before);
    expect((await look()).used).toBe(2);
  });

  it("leaves a full semaphore as it is when it is not to queue", async () => {
    await fill();
    expect(await unchanged(() => acquire("c"))).toEqual({
      state: "held",
      now: expect.any(Number),
      msLeft: about(5_000),
      permits: 2,
      permitsPerTenant: undefined,
      used: 2,
      position: -1,
      limits: { permits: 2, permitsPerTenant: undefined },
    });
  });

  it("queues in the order of arrival", async () => {
    await fill();
    expect(await queue("c", { inbox: "some:inbox" })).toMatchObject({
      state: "queued",
      msLeft: about(5_000),
      used: 2,
      position: 0,
    });
    expect(await queue("d", { grantMs: 700, weight: 2 })).toMatchObject({ state: "queued", position: 1 });
    expect(await state()).toMatchObject({
      queue: aQueue(` ${scoreOf(1)} c|1||C`, ` ${scoreOf(2)} d|2||D`),
      ready: { type: "zset", value: ["", scoreOf(1)], ttl: about(queueMs) },
      waiters: records({
        "#": "2",
        "c|1||C": aRecord(1, "2000 some:inbox"),
        "d|2||D": aRecord(2, "700 -"),
      }),
    });
  });

  it("queues before others by priority, and after its equals", async () => {
    await fill();
    expect(await queue("later", { priority: 1 })).toMatchObject({ position: 0 });
    expect(await queue("normal")).toMatchObject({ position: 0 });
    expect(await queue("last", { priority: 1_000 })).toMatchObject({ position: 2 });
    expect(await queue("first", { priority: -1_000 })).toMatchObject({ position: 0 });
    expect(await queue("second", { priority: -1_000 })).toMatchObject({ position: 1 });
    expect(await waiting()).toEqual(["first", "second", "normal", "later", "last"]);
  });

  it("keeps the place of a permit record that is queued already", async () => {
    await fill();
    await queue("c");
    await queue("d");
    const before = await waiting();
    expect(await queue("c")).toMatchObject({ state: "queued", position: 0 });
    expect(await waiting()).toEqual(before);
    expect(await db.hget(keys.waiters, "#")).toBe("2");
  });

  it("refuses one more than maxWaiters", async () => {
    await fill();
    await queue("c", { maxWaiters: 1 });
    const reply = await unchanged(() => queue("d", { maxWaiters: 1 }));
    expect(reply).toMatchObject({ state: "full", msLeft: about(5_000), used: 2, position: -1 });
  });

  it("drops the dead anywhere in a full queue before it refuses", async () => {
    await fill();
    for (const token of ["c", "d", "e"]) await queue(token);
    await die("d");
    expect(await queue("f", { maxWaiters: 3 })).toMatchObject({ state: "queued", position: 2 });
    expect(await waiting()).toEqual(["c", "e", "f"]);
    expect(await queue("g", { maxWaiters: 3 })).toMatchObject({ state: "full" });
  });

  it("grants to the waiters after a dead one that a new waiter of a full queue drops", async () => {
    const { channel } = await anInbox();
    await acquire("a");
    await queue("heavy", { weight: 2, inbox: channel });
    await queue("c", { inbox: channel });
    await die("heavy", { weight: 2 });
    // Nothing of it is for the newcomer, who needs more.
    expect(await queue("d", { weight: 2, maxWaiters: 2 })).toMatchObject({ state: "queued", position: 0 });
    expect([await held(), await waiting()]).toEqual([["a|1||A", "c|1||C"], ["d"]]);
  });

  it("counts those that it lets in itself no longer as waiting", async () => {
    const { channel } = await anInbox();
    await fill();
    await queue("c", { inbox: channel });
    await expire("a");
    expect(await queue("d", { maxWaiters: 1 })).toMatchObject({ state: "queued", position: 0 });
    expect([await held(), await waiting()]).toEqual([["b|1||B", "c|1||C"], ["d"]]);
  });

  it("has a place in a full queue for a tenant that has none there, up to as many again", async () => {
    const group = { permits: 2, perTenant: 2, maxWaiters: 2 };
    await acquire("a", { ...group, weight: 2, tenant: "evil" });
    for (const token of ["b", "c"]) await queue(token, { ...group, tenant: "evil" });
    expect(await queue("d", { ...group, tenant: "evil" })).toMatchObject({ state: "full" });
    expect(await queue("e", { ...group, tenant: "one" })).toMatchObject({ state: "queued", position: 0 });
    expect(await queue("f", { ...group, tenant: "one" })).toMatchObject({ state: "full" });
    expect(await queue("g", { ...group, tenant: "two" })).toMatchObject({ state: "queued", position: 0 });
    expect(await queue("h", { ...group, tenant: "three" })).toMatchObject({ state: "full" });
  });

  it("grants to a new caller if the queue is full and its tenant has room", async () => {
    const group = { permits: 4, perTenant: 1, maxWaiters: 1 };
    await acquire("a", { ...group, tenant: "x" });
    await queue("b", { ...group, tenant: "x" });
    expect(await queue("c", { ...group, tenant: "x" })).toMatchObject({ state: "full" });
    expect(await queue("d", { ...group, tenant: "y" })).toMatchObject({ state: "granted" });
    expect(await waiting()).toEqual(["b"]);
  });

  it("does nothing after notAfter, and all before it", async () => {
    const now = await serverMs();
    expect(await acquire("a", { notAfter: now - 1 })).toEqual({ state: "late", now: expect.any(Number) });
    expect(await redis.keys()).toEqual([]);
    expect(await acquire("a", { notAfter: now + 10_000 })).toMatchObject({ state: "granted" });
  });

  it("refuses a weight above either limit, unless that limit is 0", async () => {
    const tooHeavy = { state: "too-heavy", now: expect.any(Number) };
    await acquire("a", { permits: 5, perTenant: 3, tenant: "x" });
    for (const weight of [4, 6, 1_000_000_000])
      expect(await unchanged(() => queue("b", { weight, tenant: "y" }))).toEqual({
        ...tooHeavy,
        permits: 5,
        permitsPerTenant: 3,
      });
    await resize(0);
    expect(await queue("c", { weight: 4, tenant: "y" })).toMatchObject({ state: "queued" });
    await resize(5, 0);
    expect(await queue("d", { weight: 4, tenant: "z" })).toMatchObject({ state: "queued" });
  });

  it("drops waiters that died while suspended", async () => {
    await fill();
    await queue("c");
    await db.zadd(keys.queue, "0", "|1 x|1||X");
    await db.hset(keys.waiters, "x|1||X", "1 0 4398046511104001 2000 -");
    await acquire("d");
    expect(await waiting()).toEqual(["c"]);
    expect(await db.hexists(keys.waiters, "x|1||X")).toBe(0);
  });

  it("grants to the first in the queue when a permit has run out, and queues the newcomer", async () => {
    const { channel, messages } = await anInbox();
    await fill();
    await queue("c", { inbox: channel });
    await expire("a");
    expect(await queue("d")).toMatchObject({ state: "queued", position: 0, used: 2 });
    expect(await held()).toEqual(["b|1||B", "c|1||C"]);
    expect(await waiting()).toEqual(["d"]);
    await expect.poll(() => messages).toEqual([expect.stringMatching(/^c\tgranted\t\d{13}\t2000$/)]);
    expect(messages[0]!.split("\t")[2]).toBe(await db.zscore(keys.permits, "c|1||C"));
  });

  it("is the first in the queue when it asks again after a permit has run out", async () => {
    await fill();
    await queue("c");
    await expire("a");
    expect(await queue("c", { leaseMs: 7_000 })).toMatchObject({ state: "granted", msLeft: 7_000 });
    expect(await held()).toEqual(["b|1||B", "c|1||C"]);
  });

  it("queues after a heavier waiter, although there is room for it", async () => {
    await acquire("a", { permits: 3, weight: 2 });
    expect(await queue("heavy", { permits: 3, weight: 2 })).toMatchObject({ state: "queued", position: 0 });
    expect(await queue("light", { permits: 3 })).toMatchObject({ state: "queued", used: 2, position: 1 });
  });

  it("does not let a try pass a heavier one that waits, though there is room for it", async () => {
    await acquire("a", { permits: 3, weight: 2 });
    await queue("heavy", { weight: 2 });
    expect(await acquire("light")).toMatchObject({ state: "held", used: 2 });
    expect([await held(), await waiting()]).toEqual([["a|2||A"], ["heavy"]]);
    expect(await db.hkeys(keys.waiters)).toEqual(["#", "heavy|2||HEAVY"]);
  });

  it("drops a bounded number of ended permits in one call, and does not count the others", async () => {
    await acquire("a", { permits: 3_000 });
    const over = Array.from({ length: 850 }, (_, index) => `${String(index)}|1||old`);
    await db.zadd(keys.permits, ...over.flatMap((permitRecord) => [1, permitRecord]));
    await resize(2);
    expect(await held()).toHaveLength(651);
    expect(await acquire("b")).toMatchObject({ state: "granted" });
    expect(await held()).toHaveLength(452);
    expect(await acquire("c")).toMatchObject({ state: "held", used: 2 });
    expect(await held()).toHaveLength(252);
  });

  it("asks for another call if ended permits weigh more, until a grant or a refusal is certain", async () => {
    await acquire("a", { permits: 3_000 });
    const over = Array.from({ length: 1_050 }, (_, index) => `${String(index)}|2||old`);
    await db.zadd(keys.permits, -1_050, "#", ...over.flatMap((permitRecord) => [1, permitRecord]));
    await resize(1);
    expect(await acquire("b")).toMatchObject({ state: "held" });
    await resize(2);
    expect(await held()).toHaveLength(451);
    expect(await acquire("b")).toEqual({ state: "unsettled" });
    expect(await acquire("b")).toEqual({ state: "unsettled" });
    expect(await acquire("b")).toMatchObject({ state: "granted" });
    expect(await acquire("c")).toMatchObject({ state: "held", used: 2 });
    expect(await held()).toEqual(["a|1||A", "b|1||B"]);
  });

  it("drops its own tenant's ended permits first, and asks for another call if it cannot find them", async () => {
    const group = { permits: 3_000, perTenant: 2 };
    for (const who of ["x1", "x2"]) await acquire(who, { ...group, tenant: "x" });
    await acquire("y1", { ...group, tenant: "y" });
    const over = Array.from({ length: 850 }, (_, index) => `${String(index)}|1||old`);
    await db.zadd(keys.permits, ...over.flatMap((permitRecord) => [1, permitRecord]));
    await db.zadd(keys.permits, 2, "x1|1|x|X1", 2, "x2|1|x|X2");
    expect(await acquire("x3", { ...group, tenant: "x" })).toMatchObject({ state: "granted" });
    expect([(await held()).length, await usage()]).toEqual([652, { "#x": "1", "#y": "1" }]);
    expect(await acquire("x4", { ...group, tenant: "x" })).toMatchObject({ state: "granted" });
    // A grant where there is room drops others now and then.
    await db.zadd(keys.permits, ...over.flatMap((permitRecord) => [1, permitRecord]));
    expect(await acquire("x5", { ...group, tenant: "x" })).toMatchObject({ state: "held" });
    expect(await held()).toHaveLength(653);
    // Its rows by tenant were lost: only what is dropped shows what is in use.
    await db.zadd(keys.permits, 2, "x3|1|x|X3");
    await db.zrem(keys.permits, "=x x3|1|x|X3", "=x x4|1|x|X4");
    for (let call = 0; call < 3; call++)
      expect(await acquire("x5", { ...group, tenant: "x" })).toEqual({ state: "unsettled" });
    expect(await acquire("x5", { ...group, tenant: "x" })).toMatchObject({ state: "granted" });
    expect(await usage()).toEqual({ "#x": "2", "#y": "1" });
    for (const who of ["x4", "x5"]) await release(who, { tenant: "x" });
    await release("y1", { tenant: "y" });
    expect((await state()).permits).toEqual(nothing);
  });

  it("drops ended permits now and then even if there is room, however many are held", async () => {
    const tenant = "x";
    for (let index = 0; index < 16; index++)
      await acquire(`old${String(index)}`, { permits: 9_999, weight: 2, tenant });
    for (let index = 0; index < 16; index++) await expire(`old${String(index)}`, { weight: 2, tenant });
    await db.zadd(keys.permits, ...Array.from({ length: 300 }, (_, index) => [1, `o${String(index)}|1|y|old`]).flat());
    await acquire("a", { permits: 9_999, weight: 2, tenant, leaseMs: 600_000 });
    // About one in sixteen looks, and drops 200.
    await eventually(async () => {
      await acquire("b", { permits: 9_999 });
      await release("b");
      expect([await held(), await usage()]).toEqual([["a|2|x|A"], { "#": "1", "#x": "2" }]);
    });
  });

  it("refuses a newer layout, and changes nothing", async () => {
    await acquire("a");
    await db.hset(keys.meta, "layout", "2");
    for (const attempt of [acquire, queue])
      expect(await unchanged(() => rejection(attempt("b")))).toMatchObject({ code: "KIT_LAYOUT", retryable: false });
  });
});

describe("release", () => {
  it("releases a permit without waiters", async () => {
    await acquire("a", { permits: 9, weight: 4 });
    await acquire("b", { permits: 9 });
    expect(await release("b")).toBe("released");
    expect(await release("a", { weight: 4 })).toBe("released");
    expect(await state()).toMatchObject({ permits: nothing, queue: nothing, ready: nothing });
    expect(await usage()).toEqual({});
  });

  it("hands a heavy permit on to all who fit in its place, and notifies each", async () => {
    const { channel, messages } = await anInbox();
    await acquire("a", { permits: 5, weight: 5 });
    for (const [token, weight] of Object.entries({ b: 2, c: 1, d: 3, e: 1 }))
      await queue(token, { weight, inbox: channel, grantMs: 700 });
    expect(await release("a", { weight: 5 })).toBe("released");
    expect(await held()).toEqual(["b|2||B", "c|1||C"]);
    expect(await waiting()).toEqual(["d", "e"]);
    expect(await usage()).toEqual({ "#": "1" });
    const ending = await db.zscore(keys.permits, "b|2||B");
    await expect
      .poll(() => messages)
      .toEqual([`b\tgranted\t${ending}\t700`, `c\tgranted\t${ending}\t700`, `d\thead\t${ending}`]);
  });

  it.each([
    ["in all", {}, 2],
    ["in its tenant", { tenant: "x", perTenant: 2 }, 9],
  ])(
    "notifies the next waiter when the new permit ends, where there is no more room %s",
    async (_where, group, permits) => {
      const [first, second] = [await anInbox(), await anInbox()];
      const asked = { ...group, permits, grantMs: 700 };
      await acquire("a", asked);
      await acquire("b", asked);
      await queue("c", { ...asked, inbox: first.channel });
      await queue("d", { ...asked, inbox: second.channel });
      await release("a", group);
      const ending = await db.zscore(keys.permits, permitRecordOf("c", group));
      await expect.poll(() => second.messages).toEqual([`d\thead\t${ending}`]);
      await expect.poll(() => first.messages).toEqual([`c\tgranted\t${ending}\t700`]);
    },
  );

  it("leaves who is next alone when it looks by itself before the new permit ends", async () => {
    const [first, second] = [await anInbox(), await anInbox()];
    await acquire("a", { leaseMs: 10_000 });
    await acquire("b");
    await queue("c", { grantMs: 20_000, inbox: first.channel });
    await queue("d", { inbox: second.channel });
    await release("b");
    await db.publish(second.channel, "the last");
    await expect.poll(() => second.messages).toEqual(["the last"]);
    await expect.poll(() => first.messages).toHaveLength(1);
  });

  it("lets several single ones add up for a heavy one, which keeps its place", async () => {
    const { channel } = await anInbox();
    for (const token of ["a", "b", "c"]) await acquire(token, { permits: 3 });
    await queue("heavy", { weight: 3, inbox: channel });
    await queue("light", { inbox: channel });
    await release("a");
    await release("b");
    expect([await held(), await waiting()]).toEqual([["c|1||C"], ["heavy", "light"]]);
    await release("c");
    expect([await held(), await waiting()]).toEqual([["heavy|3||HEAVY"], ["light"]]);
  });

  it("lets waiters after a heavy one in when it leaves the queue", async () => {
    const { channel } = await anInbox();
    await acquire("a");
    await queue("heavy", { weight: 2, inbox: channel });
    await queue("light", { inbox: channel });
    expect(await release("heavy", { weight: 2 })).toBe("left");
    expect([await held(), await waiting()]).toEqual([["a|1||A", "light|1||LIGHT"], []]);
  });

  it("lets others pass a heavy waiter that may be dead while permits are free, and keeps its place", async () => {
    await acquire("a", { permits: 5, weight: 3 });
    await queue("heavy", { weight: 5, inbox: `${redis.prefix}:inbox:nobody` });
    expect(await acquire("light")).toMatchObject({ state: "granted" });
    expect([await held(), await waiting()]).toEqual([["a|3||A", "light|1||LIGHT"], ["heavy"]]);
    // A waiter that polls has no inbox, and blocks.
    await queue("polls", { weight: 5 });
    expect(await acquire("late")).toMatchObject({ state: "held" });
  });

  it("notifies the next waiter when to look when the first one leaves", async () => {
    const [first, second] = [await anInbox(), await anInbox()];
    await acquire("a", { permits: 1, leaseMs: 60_000 });
    await queue("b", { inbox: first.channel });
    await queue("c", { inbox: second.channel });
    await db.zadd(keys.permits, "XX", (await serverMs()) + 1_000, "a|1||A");
    await release("b");
    await expect.poll(() => second.messages).toEqual([expect.stringMatching(/^c\thead\t\d{13}$/)]);
  });

  it("serves each tenant in order, within both limits", async () => {
    const { channel } = await anInbox();
    const group = { permits: 3, perTenant: 2, inbox: channel };
    await queue("x1", { ...group, tenant: "x", weight: 2 });
    await queue("y1", { ...group, tenant: "y" });
    for (const token of ["x2", "x3"]) await queue(token, { ...group, tenant: "x" });
    for (const token of ["y2", "z1"]) await queue(token, { ...group, tenant: token[0]! });
    expect((await held()).map((permitRecord) => permitRecord.slice(0, 2))).toEqual(["x1", "y1"]);
    // One permit is free of all: of those whose tenant has room, the earliest has it.
    await release("y1", { tenant: "y", holder: "Y1" });
    expect((await held()).map((permitRecord) => permitRecord.slice(0, 2))).toEqual(["x1", "y2"]);
    await release("x1", { tenant: "x", weight: 2, holder: "X1" });
    expect((await held()).map((permitRecord) => permitRecord.slice(0, 2))).toEqual(["x2", "x3", "y2"]);
    expect(await usage()).toEqual({ "#x": "2", "#y": "1" });
    expect(await waiting()).toEqual(["z1"]);
  });

  it("finds a permit that ran out no longer held, counts right, and hands it on", async () => {
    const { channel } = await anInbox();
    await acquire("a", { permits: 4, weight: 3 });
    await acquire("b", { permits: 4 });
    await expire("a", { weight: 3 });
    expect(await release("a", { weight: 3 })).toBe("not-held");
    expect([await held(), await usage(), (await look()).used]).toEqual([["b|1||B"], {}, 1]);
    expect(await release("a", { weight: 3 })).toBe("not-held");
    await queue("c", { weight: 3, inbox: channel });
    await expire("b");
    await queue("d", { weight: 2, inbox: channel });
    expect(await release("b")).toBe("not-held");
    expect([await held(), (await look()).used]).toEqual([["c|3||C"], 3]);
  });

  it("reports it of a single permit that ran out", async () => {
    await fill();
    await expire("a");
    expect(await release("a")).toBe("not-held");
    expect(await held()).toEqual(["b|1||B"]);
  });

  it("changes nothing for a permit record that neither has a permit nor waits", async () => {
    await fill();
    await queue("c");
    for (const [token, recorded] of [
      ["nobody", {}],
      ["nobody", { weight: 1_000 }],
      ["a", { weight: 2 }],
      ["a", { holder: "another label" }],
      ["a", { tenant: "x" }],
      ["", {}],
    ] as const)
      expect(await unchanged(() => release(token, recorded))).toBe("not-held");
    expect((await look()).used).toBe(2);
  });

  it("passes over waiters whose inbox has no listener, and keeps their place", async () => {
    const { channel } = await anInbox();
    await fill();
    await queue("unreachable", { inbox: `${redis.prefix}:inbox:nobody` });
    await queue("c", { inbox: channel });
    await queue("d", { inbox: channel });
    await release("a");
    expect(await held()).toEqual(["b|1||B", "c|1||C"]);
    // Suspended, it holds nobody up; its next sign of life brings it back, before the other.
    await heartbeat("unreachable");
    expect(await waiting()).toEqual(["unreachable", "d"]);
  });

  it("passes no waiter over if receivers cannot be counted", async () => {
    const { channel } = await anInbox();
    await fill();
    await queue("far", { inbox: `${redis.prefix}:inbox:nobody` });
    await queue("c", { inbox: channel });
    await release("a", {}, 1);
    expect([await held(), await waiting()]).toEqual([["b|1||B", "far|1||FAR"], ["c"]]);
  });

  it("drops waiters whose sign of life is too old", async () => {
    const { channel } = await anInbox();
    await fill();
    await queue("dead", { inbox: channel });
    await queue("c", { inbox: channel });
    await die("dead");
    await release("a");
    expect([await held(), await waiting()]).toEqual([["b|1||B", "c|1||C"], []]);
    expect(await db.hkeys(keys.waiters)).toEqual(["#"]);
  });

  it("drops waiters without a record", async () => {
    const { channel } = await anInbox();
    await fill();
    await queue("half", { inbox: channel });
    await queue("c", { inbox: channel });
    await db.hdel(keys.waiters, "half|1||HALF");
    await release("a");
    expect([await held(), await waiting()]).toEqual([["b|1||B", "c|1||C"], []]);
  });

  it("reaches a living waiter after all unreachable waiters of one crashed process", async () => {
    const { channel } = await anInbox();
    await fill();
    for (let index = 0; index < 40; index++)
      await queue(`unreachable${String(index)}`, { inbox: `${redis.prefix}:inbox:nobody`, maxWaiters: 100 });
    await queue("c", { inbox: channel, maxWaiters: 100 });
    await release("a");
    expect(await held()).toEqual(["b|1||B", "c|1||C"]);
  });

  it("refuses a newer layout while there are waiters, and changes nothing", async () => {
    await fill();
    await queue("c");
    await db.hset(keys.meta, "layout", "2");
    for (const token of ["a", "c"])
      expect(await unchanged(() => rejection(release(token)))).toMatchObject({ code: "KIT_LAYOUT" });
  });
});

describe("renew", () => {
  it("extends living permits, and reports the outcome of each", async () => {
    await fill();
    const [elsewhere, corrupt] = [fixture.keysOf("elsewhere").permits, fixture.keysOf("corrupt").permits];
    await db.rpush(corrupt, "x");
    await db.pexpire(corrupt, 1_000);
    const now = await serverMs();
    const reply = await renew(
      [keys.permits, "a|1||A", 9_000],
      [keys.permits, "nobody|1||", 9_000],
      [elsewhere, "a|1||A", 9_000],
      [corrupt, "a|1||A", 9_000],
    );
    expect(reply.states).toEqual(["extended", "gone", "gone", "corrupt"]);
    expect(reply.now).toBeGreaterThanOrEqual(now);
    expect(Number(await db.zscore(keys.permits, "a|1||A"))).toBe(reply.now + 9_000);
    expect(await held()).toEqual(["a|1||A", "b|1||B"]);
    expect([await db.exists(elsewhere), await db.type(corrupt)]).toEqual([0, "list"]);
  });

  it("lengthens a permit, and never shortens one", async () => {
    await acquire("a", { leaseMs: 50_000 });
    const left = async (termMs: number): Promise<number> => {
      const { now, states } = await renew([keys.permits, "a|1||A", termMs]);
      expect(states).toEqual(["extended"]);
      return Number(await db.zscore(keys.permits, "a|1||A")) - now;
    };
    expect(await left(3_000)).toEqual(about(50_000));
    // Only looked up.
    expect(await left(0)).toEqual(about(50_000));
    expect(await left(90_000)).toBe(90_000);
  });

  it("reports an expired permit as gone, even before it is dropped", async () => {
    await fill();
    await expire("a");
    expect((await unchanged(() => renew([keys.permits, "a|1||A", 9_000]))).states).toEqual(["gone"]);
  });

  it("keeps the key longer than its longest permit, whatever the others are", async () => {
    await acquire("long", { leaseMs: 60_000 });
    await acquire("short", { leaseMs: 20_000 });
    expect(await db.pttl(keys.permits)).toBeGreaterThan(100_000);
    await renew([keys.permits, "short|1||SHORT", 10_000]);
    expect(await db.pttl(keys.permits)).toBeGreaterThan(100_000);
    await renew([keys.permits, "short|1||SHORT", 80_000]);
    expect(await db.pttl(keys.permits)).toBeGreaterThan(80_000);
    expect((await look()).used).toBe(2);
  });
});

describe("heartbeat", () => {
  it("keeps waiters alive and replies with the position of each", async () => {
    await fill();
    for (const token of ["c", "d", "e"]) await queue(token);
    const stale = Date.now() + 1_000;
    const record = (await db.hget(keys.waiters, "e|1||E"))!;
    await db.hset(keys.waiters, "e|1||E", record.replace(/^\d+/, String(stale)));
    for (const key of [keys.queue, keys.ready, keys.waiters]) await db.pexpire(key, 3_000);
    expect(await heartbeat("e", "c")).toEqual({
      now: expect.any(Number),
      msLeft: about(5_000),
      permits: 2,
      permitsPerTenant: undefined,
      used: 2,
      states: [2, 0],
    });
    const after = await state();
    expect(await waiting()).toEqual(["c", "d", "e"]);
    expect([after.queue.ttl, after.ready.ttl, after.waiters.ttl]).toEqual([
      about(queueMs),
      about(queueMs),
      about(queueMs),
    ]);
    expect(Number((await db.hget(keys.waiters, "e|1||E"))!.slice(0, 13))).toBeGreaterThan(stale + 5_000);
  });

  it("notifies waiters on their current channel", async () => {
    const [gone, now] = [await anInbox(), await anInbox()];
    await fill();
    await queue("c");
    await queue("d", { inbox: gone.channel });
    await heartbeatOf(
      ["c", "d"].map((token) => permitRecordOf(token)),
      now.channel,
    );
    await release("a");
    await release("b");
    const granted = (): string[] => now.messages.flatMap((message) => /^(.)\tgranted/.exec(message)?.[1] ?? []);
    await expect.poll(granted).toEqual(["c", "d"]);
    await db.publish(gone.channel, "the last");
    await expect.poll(() => gone.messages).toEqual(["the last"]);
  });

  it("reports an unknown permit record as unknown", async () => {
    await fill();
    expect((await heartbeat("x", "y")).states).toEqual(["unknown", "unknown"]);
    expect([await held(), await waiting()]).toEqual([["a|1||A", "b|1||B"], []]);
  });

  it("replies to the holder of a permit that it holds", async () => {
    await fill();
    expect((await heartbeat("a", "c")).states).toEqual([{ msLeft: about(5_000), fencingToken: "" }, "unknown"]);
  });

  it("grants to all who fit of those who ask, and reports it", async () => {
    await fill();
    for (const token of ["c", "d", "e"]) await queue(token);
    await expire("a");
    await expire("b");
    const granted = { msLeft: 2_000, fencingToken: "" };
    expect((await heartbeat("e", "d", "c")).states).toEqual([0, granted, granted]);
    expect([await held(), await waiting()]).toEqual([["c|1||C", "d|1||D"], ["e"]]);
  });

  it("passes over waiters that cannot be notified and that did not ask", async () => {
    await fill();
    for (const token of ["c", "d"]) await queue(token);
    await expire("a");
    expect((await heartbeat("d")).states).toEqual([{ msLeft: 2_000, fencingToken: "" }]);
    await expire("b");
    expect((await heartbeat("c")).states).toEqual([{ msLeft: 2_000, fencingToken: "" }]);
  });

  it("reports when the next permit ends, or that there is none", async () => {
    expect((await heartbeat("x")).msLeft).toBe(-1);
    await acquire("a", { leaseMs: 9_000 });
    await acquire("b", { leaseMs: 3_000 });
    expect((await heartbeat("x")).msLeft).toEqual(about(3_000));
  });

  it("answers 500 waiters at once", async () => {
    await fill();
    const tokens = Array.from({ length: 500 }, (_, index) => `w${String(index)}`);
    await Promise.all(tokens.map((token) => queue(token, { maxWaiters: 500 })));
    expect((await heartbeat(...tokens)).states).toEqual(tokens.map((_, index) => index));
  });

  it("refuses a newer layout, and changes nothing", async () => {
    await fill();
    await queue("c");
    await db.hset(keys.meta, "layout", "2");
    expect(await unchanged(() => rejection(heartbeat("c")))).toMatchObject({ code: "KIT_LAYOUT" });
  });
});

describe("resize", () => {
  it("sets the limits of a semaphore that nobody has used", async () => {
    expect(await resize(7, 3)).toEqual(done);
    expect((await state()).meta).toEqual(aMeta({ layout: "1", permits: "7", perTenant: "3" }));
    expect(await acquire("a", { permits: 1, perTenant: 1, tenant: "x" })).toMatchObject({
      limits: { permits: 7, permitsPerTenant: 3 },
    });
  });

  it("changes nothing after its instant", async () => {
    await resize(7);
    const late = await unchanged(async () => await resize(9, "", "", (await serverMs()) - 1));
    expect(late).toMatchObject({ refused: "late" });
    expect(await resize(9, "", "", (await serverMs()) + 60_000)).toEqual(done);
    expect((await state()).meta).toEqual(aMeta({ layout: "1", permits: "9" }));
  });

  it("raised, lets in all that fit; lowered, takes nothing from anybody", async () => {
    const { channel, messages } = await anInbox();
    await fill();
    for (const token of ["c", "d", "e"]) await queue(token, { inbox: channel });
    await resize(4);
    expect([(await held()).length, await waiting()]).toEqual([4, ["e"]]);
    await expect.poll(() => messages.filter((message) => message.includes("granted"))).toHaveLength(2);
    await resize(1);
    expect(await held()).toHaveLength(4);
    for (const token of ["a", "b", "c"]) {
      expect(await release(token)).toBe("released");
      expect(await waiting()).toEqual(["e"]);
    }
    await release("d");
    expect([await held(), await waiting()]).toEqual([["e|1||E"], []]);
  });

  it("keeps the limit of each tenant unless another is named, and lets in who fits then", async () => {
    const { channel } = await anInbox();
    const group = { permits: 9, perTenant: 1, inbox: channel };
    for (const token of ["x1", "x2", "x3", "y1", "y2"]) await queue(token, { ...group, tenant: token[0]! });
    await resize(9);
    expect(await waiting()).toEqual(["x2", "x3", "y2"]);
    await resize(9, 2);
    expect(await waiting()).toEqual(["x3"]);
    expect(await usage()).toEqual({ "#x": "2", "#y": "2" });
  });

  it("changes one limit alone, and starts with those of its caller", async () => {
    await resize("", 3);
    expect((await look()).limits).toEqual({ permits: 2, permitsPerTenant: 3 });
    await resize(7);
    expect((await look()).limits).toEqual({ permits: 7, permitsPerTenant: 3 });
    await resize("", 1);
    expect((await look()).limits).toEqual({ permits: 7, permitsPerTenant: 1 });
  });

  it("ends a group, and lets in who waited for its tenant alone", async () => {
    const { channel } = await anInbox();
    const group = { permits: 4, perTenant: 1, inbox: channel };
    for (const token of ["x1", "x2", "x3", "y1"]) await queue(token, { ...group, tenant: token[0]! });
    expect(await waiting()).toEqual(["x2", "x3"]);
    await resize("", "-");
    expect((await look()).limits).toEqual({ permits: 4, permitsPerTenant: undefined });
    expect([await waiting(), await usage()]).toEqual([[], { "#x": "3", "#y": "1" }]);
    // The counts of that time hold when it is a group again.
    await resize(9, 3);
    expect(await acquire("x4", { ...group, tenant: "x", inbox: "" })).toMatchObject({ state: "held" });
  });

  it("counts tenants again when it becomes a group", async () => {
    const mixed = { permits: 9, leaseMs: 5_000 };
    for (const token of ["x1", "x2"]) await acquire(token, { ...mixed, tenant: "x" });
    // All have lapsed unseen, and somebody without a tenant came first.
    await db.del(keys.permits);
    await acquire("a", mixed);
    await resize("", 2);
    expect(await usage()).toEqual({});
    expect(await acquire("x3", { ...mixed, tenant: "x", weight: 2 })).toMatchObject({ state: "granted" });
  });

  it("asks to be called again where one call does not grant it all", async () => {
    const { channel } = await anInbox();
    const lasting = { leaseMs: 60_000, grantMs: 60_000, maxWaiters: 9_999 };
    for (const token of ["a", "b"]) await acquire(token, lasting);
    const tokens = Array.from({ length: 1_500 }, (_, index) => `w${String(index)}`);
    await Promise.all(tokens.map((token) => queue(token, { ...lasting, inbox: channel })));
    expect(await resize(5_000)).toEqual({ ...done, isMore: true });
    expect(await db.zcard(keys.permits)).toBe(1_002);
    expect(await resize(5_000)).toEqual(done);
    expect([await db.zcard(keys.permits), await db.exists(keys.queue, keys.ready)]).toEqual([1_502, 0]);
  });

  it("puts hundreds of tenants in their places over several calls, then grants in order of arrival", async () => {
    const { channel, messages } = await anInbox();
    const lasting = { leaseMs: 60_000, grantMs: 60_000 };
    const group = { ...lasting, permits: 5_000, perTenant: 1, maxWaiters: 9_999, inbox: channel };
    const tenants = Array.from({ length: 1_200 }, (_, index) => `t${String((index * 7) % 1_200)}`);
    for (const letter of ["a", "b"])
      await Promise.all(tenants.map((tenant) => acquire(`${letter}${tenant}`, { ...group, tenant })));
    expect(await db.exists(keys.ready)).toBe(0);
    // From here on the server has the scripts.
    await toTheEnd(await resize("", 1));
    await release("nobody");
    await heartbeatOf([permitRecordOf("nobody")]);
    // Room, and others who look, meanwhile: nobody may come in before those who came first. In one write, since a change counts as
    // under way for a second.
    const [first] = await Promise.all([
      resize("", 2),
      release(`a${tenants[0]!}`, { tenant: tenants[0]! }),
      resize(5_001),
      heartbeatOf([permitRecordOf(`b${tenants[9]!}`, { tenant: tenants[9]! })]),
    ]);
    expect((await held()).filter((permitRecord) => permitRecord.startsWith("b"))).toEqual([]);
    // And a pause by somebody else.
    await toTheEnd(await resize(0));
    expect(await toTheEnd(first)).toBe(2);
    expect(await db.hmget(keys.meta, "permits", "perTenant", "evaluating")).toEqual(["0", "2", null]);
    expect(await db.zcard(keys.ready)).toBe(1_200);
    await toTheEnd(await resize(1_202));
    await expect.poll(() => messages.filter((message) => message.includes("granted"))).toHaveLength(3);
    expect((await held()).filter((permitRecord) => permitRecord.startsWith("b"))).toEqual(
      tenants
        .slice(0, 3)
        .map((tenant) => permitRecordOf(`b${tenant}`, { tenant }))
        .toSorted(),
    );
  });

  it("grants nothing by a place that a tenant had by other limits", async () => {
    const { channel } = await anInbox();
    const group = { permits: 5, perTenant: 2 };
    await acquire("x1", { ...group, tenant: "x" });
    for (const token of ["y1", "z1"]) await acquire(token, { ...group, tenant: token[0]!, weight: 2 });
    for (const token of ["x2", "w1"]) await queue(token, { ...group, tenant: token[0]!, inbox: channel });
    // As if it had not come to this tenant yet.
    await db.hset(keys.meta, "perTenant", 1);
    await release("y1", { tenant: "y", weight: 2 });
    expect((await held()).filter((permitRecord) => /^[xw]/.test(permitRecord))).toEqual([
      permitRecordOf("w1", { tenant: "w" }),
      permitRecordOf("x1", { tenant: "x" }),
    ]);
  });

  it("refuses a newer layout, and changes nothing", async () => {
    await fill();
    await db.hset(keys.meta, "layout", "2");
    expect(await unchanged(() => rejection(resize(9)))).toMatchObject({ code: "KIT_LAYOUT" });
  });
});

describe("inspect", () => {
  it("shows a semaphore that nobody has used, and leaves it so", async () => {
    expect(await look()).toEqual({ limits: undefined, used: 0, usedByAll: 0, waiting: 0, holders: [], queue: [] });
    expect(await redis.keys()).toEqual([]);
  });

  it("shows limits, the first to end and the first in the queue, and changes nothing", async () => {
    const group = { permits: 9, perTenant: 5 };
    await acquire("a", { ...group, tenant: "x", weight: 4, leaseMs: 9_000 });
    await acquire("b", { ...group, tenant: "y", leaseMs: 3_000, weight: 5 });
    await queue("c", { ...group, tenant: "y", priority: 1 });
    await queue("d", { ...group, tenant: "a%20b" });
    await queue("e", { ...group, tenant: "x", weight: 2 });
    expect(await unchanged(() => look(2))).toEqual({
      limits: { permits: 9, permitsPerTenant: 5 },
      used: 9,
      usedByAll: 9,
      waiting: 3,
      holders: [
        { holder: "B", weight: 5, tenant: "y", msLeft: about(3_000) },
        { holder: "A", weight: 4, tenant: "x", msLeft: about(9_000) },
      ],
      queue: [
        { holder: "D", weight: 1, tenant: "a b" },
        { holder: "E", weight: 2, tenant: "x" },
      ],
    });
    expect((await look(1)).holders).toHaveLength(1);
  });

  it("shows one tenant alone, its waiters that are suspended too, and changes nothing", async () => {
    const group = { permits: 9, perTenant: 3 };
    await acquire("x1", { ...group, tenant: "x", weight: 2, leaseMs: 9_000 });
    for (const token of ["y1", "y2", "y3"]) await acquire(token, { ...group, tenant: "y" });
    await acquire("x2", { ...group, tenant: "x" });
    await queue("y4", { ...group, tenant: "y" });
    await queue("x3", { ...group, tenant: "x" });
    await queue("x4", { ...group, tenant: "x", weight: 3 });
    await release("x2", { tenant: "x" });
    expect(await waiting()).toEqual(["x4", "y4", "x3"]);
    expect(await unchanged(() => look(10, "x"))).toEqual({
      limits: { permits: 9, permitsPerTenant: 3 },
      used: 2,
      usedByAll: 5,
      waiting: 2,
      holders: [{ holder: "X1", weight: 2, tenant: "x", msLeft: about(9_000) }],
      queue: [{ holder: "X4", weight: 3, tenant: "x" }],
    });
    await expire("y2", { tenant: "y" });
    expect(await look(1, "y")).toMatchObject({ used: 2, usedByAll: 4, waiting: 1, holders: [{ holder: "Y1" }] });
    expect(await look(10, "z")).toMatchObject({ used: 0, usedByAll: 4, waiting: 0, holders: [], queue: [] });
  });

  it("finds the permits of a tenant behind thousands of others", async () => {
    const group = { permits: 9_999, perTenant: 5_000 };
    await acquire("x1", { ...group, tenant: "x" });
    const others = Array.from({ length: 3_000 }, (_, index) => [1e13 + index, `t${String(index)}|1|y|h`]).flat();
    await db.zadd(keys.permits, ...(others as string[]));
    await db.zadd(keys.permits, "XX", 2e13, permitRecordOf("x1", { tenant: "x" }));
    expect(await look(10, "x")).toMatchObject({ used: 1, holders: [{ holder: "X1" }] });
  });

  it("shows a tenant that another program has stored as it is", async () => {
    await acquire("a", { permits: 9, perTenant: 5, tenant: "%" });
    expect((await look()).holders).toMatchObject([{ holder: "A", tenant: "%" }]);
  });

  it("leaves out permits that ran out", async () => {
    await acquire("a", { permits: 9, weight: 4 });
    await acquire("b", { permits: 9, weight: 2 });
    await expire("a", { weight: 4 });
    expect(await unchanged(() => look())).toMatchObject({ used: 2, holders: [{ holder: "B" }] });
  });

  it("refuses a newer layout", async () => {
    await acquire("a");
    await db.hset(keys.meta, "layout", "2");
    expect(await rejection(look())).toMatchObject({ code: "KIT_LAYOUT" });
  });
});

describe("every key has an end", () => {
  const endless = async (): Promise<string[]> => {
    const all = Object.entries(await state()).filter(([, { ttl }]) => ttl === -1);
    return all.map(([part]) => part);
  };

  it("after a release that sets the only waiter suspended", async () => {
    await fill();
    await queue("unreachable", { inbox: `${redis.prefix}:inbox:nobody` });
    await release("a");
    expect(await db.zcard(keys.queue)).toBe(1);
    expect(await endless()).toEqual([]);
  });

  it("after a release that gives a tenant room, but nobody else", async () => {
    const group = { permits: 3, perTenant: 2 };
    await acquire("x1", { ...group, tenant: "x" });
    await queue("x2", { ...group, tenant: "x", weight: 2 });
    await acquire("y1", { ...group, tenant: "y", weight: 2 });
    await release("x1", { tenant: "x", holder: "X1" });
    expect(await db.zcard(keys.ready)).toBe(1);
    expect(await endless()).toEqual([]);
  });

  it("after a release where the counts were lost", async () => {
    await acquire("x1", { permits: 9, perTenant: 5, tenant: "x", weight: 3 });
    await acquire("x2", { permits: 9, perTenant: 5, tenant: "x", weight: 2 });
    await db.del(keys.meta);
    await release("x1", { tenant: "x", weight: 3, holder: "X1" });
    expect(await endless()).toEqual([]);
  });

  it("after new limits by which nobody fits", async () => {
    await queue("x1", { permits: 1, perTenant: 1, tenant: "x" });
    await queue("x2", { permits: 1, perTenant: 1, tenant: "x" });
    await resize(1, 2);
    expect(await db.zcard(keys.ready)).toBe(1);
    expect(await endless()).toEqual([]);
  });
});

describe("hostile holders and tenants", () => {
  const texts = ["a|b", "|", "two words", "two\nlines", "tab\there", "granted\t1\t2", "nul\u0000byte", "%s {} (x", "#"];

  it.each(texts)("%j goes through queue, grant, renewal and release as it is", async (text) => {
    const { channel } = await anInbox();
    const recorded = { holder: text, tenant: encodeURIComponent(text) };
    const group = { permits: 1, perTenant: 1, inbox: channel, ...recorded };
    await queue("a", group);
    await queue("b", group);
    const shown = { holder: text, tenant: text, weight: 1 };
    expect(await look()).toMatchObject({ used: 1, waiting: 1, holders: [shown], queue: [shown] });
    expect((await renew([keys.permits, permitRecordOf("a", recorded), 9_000])).states).toEqual(["extended"]);
    expect(await release("a", recorded)).toBe("released");
    expect(await held()).toEqual([permitRecordOf("b", recorded)]);
    expect((await heartbeatOf([permitRecordOf("b", recorded)])).states).toEqual([
      { msLeft: about(2_000), fencingToken: "" },
    ]);
    expect(await release("b", recorded)).toBe("released");
    expect(await usage()).toEqual({});
  });

  it("a tenant whose name begins another's has a queue of its own", async () => {
    const { channel } = await anInbox();
    const group = { permits: 9, perTenant: 1, inbox: channel };
    for (const tenant of ["a", "ab", "a!", "a%20b", "A"]) {
      await queue(`${tenant}1`, { ...group, tenant });
      expect(await queue(`${tenant}2`, { ...group, tenant })).toMatchObject({ state: "queued", position: 0 });
    }
    await release("a1", { tenant: "a", holder: "A1" });
    expect((await waiting()).toSorted()).toEqual(["A2", "a!2", "a%20b2", "ab2"].toSorted());
  });
});

describe("a key of another type", () => {
  /** A full semaphore with a waiter, so that each script has to do with all keys; then one of them is something else. */
  const spoil = async (part: keyof SemaphoreKeys): Promise<void> => {
    await fill();
    await queue("c");
    await db.del(keys[part]);
    await db.rpush(keys[part], "stranger");
    await db.pexpire(keys[part], 30_000);
  };
  const all: readonly (keyof SemaphoreKeys)[] = ["permits", "meta", "queue", "ready", "waiters"];
  const cases: readonly (readonly [
    what: string,
    run: () => Promise<unknown>,
    parts: readonly (keyof SemaphoreKeys)[],
  ])[] = [
    ["acquire", () => queue("d"), all],
    ["release by a holder", () => release("a"), all],
    ["release by a waiter", () => release("c"), all],
    ["heartbeat", () => heartbeat("c"), all],
    ["resize", () => resize(9), all],
    ["inspect", () => look(), ["permits", "meta", "queue", "waiters"]],
  ];
  const advice =
    "a script must read each of its keys by a command of the key's type; EXISTS, PTTL and DEL take any type";
  const table = cases.flatMap(([what, run, parts]) => parts.map((part) => ({ what, part, run })));

  it.each(table)("is named by $what when it is $part, and nothing is changed", async ({ part, run }) => {
    await spoil(part);
    const error = await unchanged(() => run().catch((thrown: unknown) => thrown));
    expect(error, advice).toBeInstanceOf(KitKeyTypeError);
    expect(error).toMatchObject({ code: "KIT_KEY_TYPE", key: keys[part], found: "list" });
    expect(String(error)).toContain(keys[part]);
  });
});

describe("a server at maxmemory", () => {
  beforeEach(() => {
    redis.defer(() => db.config("SET", "maxmemory", "0"));
  });
  const full = (): Promise<unknown> => db.config("SET", "maxmemory", "1");

  it("refuses an acquire and a place in the queue with KIT_SERVER_FULL, and nothing is changed", async () => {
    const refused = { code: "KIT_SERVER_FULL", retryable: true };
    await full();
    expect(await unchanged(() => rejection(acquire("a")))).toMatchObject(refused);
    await db.config("SET", "maxmemory", "0");
    await acquire("a");
    await full();
    for (const attempt of [() => acquire("b"), () => queue("b")])
      expect(await unchanged(() => rejection(attempt()))).toMatchObject(refused);
    await db.config("SET", "maxmemory", "0");
    await acquire("b");
    await full();
    expect(await unchanged(() => rejection(queue("c")))).toMatchObject(refused);
  });

  it("lets other limits through, a pause above all", async () => {
    await fill();
    await full();
    await resize(0);
    expect(await db.hget(keys.meta, "permits")).toBe("0");
  });

  it("lets a release through, which hands the permit on", async () => {
    const { channel, messages } = await anInbox();
    await fill();
    await queue("c", { inbox: channel });
    await full();
    expect(await release("a")).toBe("released");
    expect([await held(), await waiting()]).toEqual([["b|1||B", "c|1||C"], []]);
    await expect.poll(() => messages).toHaveLength(1);
  });

  it("lets renew, heartbeat and leave through, and a grant by heartbeat", async () => {
    await fill();
    await queue("c");
    await queue("d");
    await full();
    expect((await renew([keys.permits, "a|1||A", 7_000])).states).toEqual(["extended"]);
    expect((await heartbeat("c", "d")).states).toEqual([0, 1]);
    expect(await release("d")).toBe("left");
    await db.config("SET", "maxmemory", "0");
    await expire("a");
    await full();
    expect((await heartbeat("c")).states).toEqual([{ msLeft: 2_000, fencingToken: "" }]);
  });
});

describe("a server that has evicted one key", () => {
  /** A group with four permits in use, two of them of weight 2, and two tenants that wait. */
  const group = { permits: 6, perTenant: 4 };
  const begin = async (channel: string): Promise<void> => {
    await acquire("x1", { ...group, tenant: "x", weight: 2 });
    await acquire("x2", { ...group, tenant: "x", weight: 2 });
    await acquire("y1", { ...group, tenant: "y" });
    await acquire("y2", { ...group, tenant: "y" });
    await queue("x3", { ...group, tenant: "x", inbox: channel });
    await queue("z1", { ...group, tenant: "z", inbox: channel });
  };
  const tokens = async (): Promise<string[]> => (await held()).map((permitRecord) => permitRecord.slice(0, 2));
  const beatAll = (inbox: string): Promise<HeartbeatReply<scripts.Usage>> =>
    scripts.heartbeat.run(db, keys, {
      shared: 0,
      aliveMs: 15_000,
      limit: group.permits,
      perTenant: group.perTenant,
      inbox,
      permitRecords: [permitRecordOf("x3", { tenant: "x" }), permitRecordOf("z1", { tenant: "z" })],
    });

  it("notices that no permit is held where it lost the permits, and serves the waiters", async () => {
    const { channel } = await anInbox();
    await begin(channel);
    await db.del(keys.permits);
    expect((await beatAll(channel)).states).toEqual([
      { msLeft: 2_000, fencingToken: "" },
      { msLeft: 2_000, fencingToken: "" },
    ]);
    expect([await tokens(), await usage(), (await look()).used]).toEqual([["x3", "z1"], { "#x": "1", "#z": "1" }, 2]);
    expect(await release("x1", { tenant: "x", weight: 2, holder: "X1" })).toBe("not-held");
    expect((await look()).used).toBe(2);
  });

  it("keeps the counts where it lost the limits, and takes the limits of whoever asks", async () => {
    const { channel } = await anInbox();
    await begin(channel);
    await db.del(keys.meta);
    expect(await acquire("y3", { ...group, tenant: "y" })).toMatchObject({ state: "held", used: 6 });
    expect((await state()).meta).toEqual(aMeta({ layout: "1", permits: "6", perTenant: "4" }));
    expect(await usage()).toEqual({ "#": "2", "#x": "4", "#y": "2" });
    await release("y1", { tenant: "y", holder: "Y1" });
    expect(await tokens()).toEqual(["x1", "x2", "y2", "z1"]);
  });

  it("grants nothing on a release where it lost the limits, but to the next who brings some", async () => {
    const { channel } = await anInbox();
    await begin(channel);
    await db.del(keys.meta);
    expect(await release("x1", { tenant: "x", weight: 2, holder: "X1" })).toBe("released");
    await beatAll(channel);
    expect(await tokens()).toEqual(["x2", "x3", "y1", "y2", "z1"]);
    expect((await look()).used).toBe(6);
  });

  it.each(["queue", "ready", "waiters"] as const)("serves all who wait, in order, where it lost %s", async (part) => {
    const { channel } = await anInbox();
    await begin(channel);
    await db.del(keys[part]);
    const { states } = await beatAll(channel);
    for (const [index, token] of ["x3", "z1"].entries())
      if (states[index] === "unknown") await queue(token, { ...group, tenant: token[0]!, inbox: channel });
    expect((await look()).used).toBe(6);
    await release("y1", { tenant: "y", holder: "Y1" });
    expect(await tokens()).toEqual(["x1", "x2", "y2", "z1"]);
    await release("x1", { tenant: "x", weight: 2, holder: "X1" });
    expect(await tokens()).toEqual(["x2", "x3", "y2", "z1"]);
    expect([await waiting(), await usage()]).toEqual([[], { "#": "1", "#x": "3", "#y": "1", "#z": "1" }]);
  });
});

it("costs a heartbeat about one command a waiter", async () => {
  await acquire("a", { permits: 1 });
  const waiters = Array.from({ length: 200 }, (_, index) => `w${String(index)}`);
  for (const token of waiters) await queue(token, { permits: 1, maxWaiters: 1_000 });
  await db.config("RESETSTAT");
  expect((await heartbeat(...waiters)).states).toEqual(waiters.map((_, index) => index));
  const stats = [...(await db.info("commandstats")).matchAll(/cmdstat_[\w|]+:calls=(\d+)/g)];
  expect(stats.reduce((sum, [, calls]) => sum + Number(calls), 0)).toBeLessThan(240);
});

describe("what somebody wrote manually", () => {
  const group = { permits: 6, perTenant: 2 };

  it.each([
    ["permits", "inf"],
    ["permits", "nan"],
    ["permits", "-1"],
    ["permits", "1e9"],
    ["permits", " 9"],
    ["permits", "0x10"],
    ["permits", "10000000000000000"],
    ["permits", ""],
    ["perTenant", "inf"],
    ["perTenant", "-5"],
  ])(
    "is damage where %s is %j: nobody gets in until its key is deleted, and nobody beyond the limits then",
    async (field, text) => {
      for (const token of ["a", "b"]) await acquire(token, { ...group, tenant: "x", weight: 2, perTenant: 4 });
      await db.hset(keys.meta, field, text);
      const damaged = { code: "KIT_LAYOUT", retryable: false };
      for (const attempt of [
        () => acquire("c", { ...group, tenant: "y" }),
        () => acquire("c", { permits: 6 }),
        () => heartbeat("c"),
        () => resize(9),
        () => release("a", { tenant: "x", weight: 2, holder: "A" }),
        () => look(),
      ])
        expect(await unchanged(() => rejection(attempt()))).toMatchObject(damaged);
      await db.del(keys.meta);
      await acquire("c", { ...group, tenant: "y", weight: 2 });
      await acquire("d", { ...group, tenant: "z" });
      expect(await held()).toEqual(["a|2|x|A", "b|2|x|B", "c|2|y|C"]);
    },
  );
});
