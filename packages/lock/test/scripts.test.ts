import { KitKeyTypeError } from "@kit/core";
import type { AcquireReply, HeartbeatReply, ReleaseReply } from "@kit/core/leasing";
import { contract, useRedis } from "@kit/testing";
import * as helpers from "@tooling/vitest/helpers";
import { about, type KeyState, lapse, nothing, onMovingSlots, rejection, stateOf } from "@tooling/vitest/helpers";
import type { Redis } from "ioredis";
import * as vitest from "vitest";
import { beforeEach, describe, expect, it } from "vitest";
import type { LockKeys } from "../src/keys.js";
import * as scripts from "../src/scripts/index.js";
import { fixtureOf } from "./harness.js";

const redis = useRedis(vitest);
onMovingSlots(redis, scripts, true);
const fixture = fixtureOf(redis);
const weekMs = 604_800_000;

let db: Redis;
let keys: LockKeys;
beforeEach(() => {
  db = redis.client;
  keys = fixture.keysOf("chest");
});

interface Asked {
  readonly leaseMs?: number;
  readonly notAfter?: number;
  readonly shared?: 0 | 1 | "";
  readonly grantMs?: number;
  readonly maxWaiters?: number;
  readonly inbox?: string;
  readonly holder?: string;
}
const ownerOf = (token: string): string => `${token}|${token.toUpperCase()}`;
const acquire = (token: string, asked: Asked = {}): Promise<AcquireReply<scripts.Held>> => {
  const { leaseMs = 5_000, notAfter = 0, shared = 0, grantMs = 2_000, maxWaiters = 10, inbox = "" } = asked;
  const owner = asked.holder === undefined ? ownerOf(token) : `${token}|${asked.holder}`;
  const terms = { leaseMs, notAfter, shared, grantMs, aliveMs: 15_000, maxWaiters, inbox };
  return scripts.acquire.run(db, keys, { owner, terms });
};
const queue = (token: string, asked: Asked = {}): Promise<AcquireReply<scripts.Held>> =>
  acquire(token, { inbox: "-", ...asked });
const release = (
  token: string,
  fencingToken = "",
  shared = 0,
  op = "",
  keepMs: number | "" = "",
  minHoldMs: number | "" = "",
): Promise<ReleaseReply> =>
  scripts.release.run(db, keys, { owner: ownerOf(token), terms: { shared, fencingToken, op, keepMs, minHoldMs } });
const force = (owner = "a|A", op = "", keepMs: number | "" = ""): Promise<ReleaseReply> =>
  scripts.release.run(db, keys, { owner, terms: { shared: 0, fencingToken: "*", op, keepMs, minHoldMs: "" } });
const heartbeat = (tokens: readonly string[], inbox = "-"): Promise<HeartbeatReply<scripts.Held>> =>
  scripts.heartbeat.run(db, keys, { shared: 0, aliveMs: 15_000, inbox, tokens });
type RenewTerms = readonly (readonly [lease: string, owner: string, termMs: number])[];
const renew = (...terms: RenewTerms): ReturnType<typeof scripts.renew.run> =>
  scripts.renew.run(
    db,
    { leases: terms.map(([lease]) => lease) },
    { terms: terms.map(([, owner, termMs]) => ({ termMs, owner })) },
  );

/** The keys in Redis, with expiries only as "about so much". */
const state = async (): Promise<Record<keyof LockKeys, KeyState>> => await stateOf(db, keys);
const aLease = (owner: string, ttl: number): unknown => ({ type: "string", value: owner, ttl: about(ttl) });
const aFence = (value: string): unknown => ({ type: "string", value, ttl: about(weekMs) });
const aQueue = (...members: readonly string[]): unknown => ({ type: "zset", value: members, ttl: about(16_000) });
const aRecord = (rest: string): unknown => expect.stringMatching(new RegExp(`^\\d{13} \\d{13} ${rest}$`, "s"));
const records = (value: Record<string, unknown>): unknown => ({ type: "hash", value, ttl: about(16_000) });

/** Runs something that must not change anything, not even an expiry. */
const unchanged = <T>(action: () => Promise<T>): Promise<T> => helpers.unchanged(db, keys, action);
const anInbox = (): ReturnType<typeof helpers.anInbox> => helpers.anInbox(redis);

const serverMicros = async (): Promise<number> => {
  const [seconds, micros] = await db.time();
  return Number(seconds) * 1e6 + Number(micros);
};

const granted = async (reply: Promise<AcquireReply<scripts.Held>>): Promise<string> => {
  const outcome = await reply;
  if (outcome.state !== "granted") throw new Error(`it was ${outcome.state}`);
  return outcome.fencingToken;
};

/** The fencing token that one of those who asked was granted with. */
const grantedBy = ({ states }: HeartbeatReply<scripts.Held>): string => {
  const fencingTokens = states.flatMap((state) => (typeof state === "object" ? [state.fencingToken] : []));
  expect(fencingTokens).toHaveLength(1);
  return fencingTokens[0]!;
};

describe("every script", () => {
  it("keeps the contract of scripts", async () => {
    expect(await contract(scripts, redis.server)).toEqual([]);
  });
});

describe("acquire", () => {
  it("takes a free lock", async () => {
    const before = await serverMicros();
    const reply = await acquire("a");
    expect(reply).toEqual({
      state: "granted",
      now: expect.any(Number),
      msLeft: undefined,
      fencingToken: expect.any(String),
    });
    const fencingToken = await granted(Promise.resolve(reply));
    expect(Number(fencingToken)).toBeGreaterThanOrEqual(before);
    expect(Number(fencingToken)).toBeLessThanOrEqual(await serverMicros());
    expect(await state()).toEqual({
      lease: aLease("a|A", 5_000),
      fence: aFence(`1:${fencingToken}`),
      queue: nothing,
      waiters: nothing,
    });
  });

  it("gives the same answer to the token that holds it", async () => {
    const fencingToken = await granted(acquire("a"));
    const reply = await unchanged(() => queue("a"));
    expect(reply).toMatchObject({ state: "granted", fencingToken, msLeft: about(5_000) });
  });

  it("leaves a held lock as it is when it is not to queue", async () => {
    await acquire("a");
    const reply = await unchanged(() => acquire("b"));
    expect(reply).toEqual({
      state: "held",
      now: expect.any(Number),
      msLeft: about(5_000),
      owner: { token: "a", holder: "A" },
      position: -1,
    });
  });

  it("queues in the order of arrival", async () => {
    const fencingToken = await granted(acquire("a"));
    expect(await queue("b", { inbox: "some:inbox" })).toEqual({
      state: "queued",
      now: expect.any(Number),
      msLeft: about(5_000),
      owner: { token: "a", holder: "A" },
      position: 0,
    });
    expect(await queue("c", { grantMs: 700, holder: "with | bars\nand lines" })).toMatchObject({ position: 1 });
    expect(await state()).toEqual({
      lease: aLease("a|A", 5_000),
      fence: aFence(`1:${fencingToken}`),
      queue: aQueue("b", "1", "c", "2"),
      waiters: records({ "#": "2", b: aRecord("2000 some:inbox B"), c: aRecord("700 - with \\| bars\nand lines") }),
    });
  });

  it("keeps the place of a token that is queued already", async () => {
    await acquire("a");
    await queue("b");
    await queue("c");
    const { waiters: _, ...before } = await state();
    expect(await queue("b")).toMatchObject({ state: "queued", position: 0 });
    const { waiters, ...after } = await state();
    expect(after.queue.value).toEqual(before.queue.value);
    expect(after.lease.value).toBe("a|A");
    expect(waiters).toEqual(records({ "#": "2", b: aRecord("2000 - B"), c: aRecord("2000 - C") }));
  });

  it("refuses one more than maxWaiters", async () => {
    await acquire("a");
    await queue("b", { maxWaiters: 1 });
    const reply = await unchanged(() => queue("c", { maxWaiters: 1 }));
    expect(reply).toEqual({
      state: "full",
      now: expect.any(Number),
      msLeft: about(5_000),
      owner: { token: "a", holder: "A" },
      position: -1,
    });
  });

  it("drops the dead anywhere in a full queue before it refuses", async () => {
    await acquire("a");
    for (const token of ["b", "c", "d"]) await queue(token);
    await db.hset(keys.waiters, "c", `${String(Date.now() - 60_000)} 0 2000 - C`);
    expect(await queue("e", { maxWaiters: 3 })).toMatchObject({ state: "queued", position: 2 });
    expect(await db.zrange(keys.queue, "0", "-1")).toEqual(["b", "d", "e"]);
    expect((await db.hkeys(keys.waiters)).toSorted()).toEqual(["#", "b", "d", "e"]);
    expect(await queue("f", { maxWaiters: 3 })).toMatchObject({ state: "full" });
  });

  it("does nothing after notAfter, and all before it", async () => {
    const now = Math.floor((await serverMicros()) / 1_000);
    expect(await acquire("a", { notAfter: now - 1 })).toEqual({ state: "late", now: expect.any(Number) });
    expect(await redis.keys()).toEqual([]);
    expect(await acquire("a", { notAfter: now + 10_000 })).toMatchObject({ state: "granted" });
  });

  it("grants to the first in the queue when the holder's lease has run out, and queues the newcomer", async () => {
    const { channel, messages } = await anInbox();
    const first = await granted(acquire("a"));
    await queue("b", { inbox: channel });
    await lapse(db, keys.lease);
    expect(await queue("c")).toMatchObject({ state: "queued", position: 0, owner: { token: "b", holder: "B" } });
    const { lease, fence, queue: line } = await state();
    expect(lease).toEqual(aLease("b|B", 2_000));
    expect(line).toEqual(aQueue("c", "2"));
    const fencingToken = /^1:(\d+):$/.exec(String(fence.value))?.[1] ?? "";
    expect(BigInt(fencingToken)).toBeGreaterThan(BigInt(first));
    await expect.poll(() => messages).toEqual([expect.stringMatching(`^b\tgranted\t\\d{13}\t2000\t${fencingToken}$`)]);
  });

  it("is the first in the queue when it asks again after the holder's lease has run out", async () => {
    await acquire("a");
    await queue("b");
    await lapse(db, keys.lease);
    expect(await queue("b")).toMatchObject({ state: "granted", msLeft: about(2_000) });
    expect(await state()).toMatchObject({ lease: aLease("b|B", 2_000), queue: nothing });
  });

  it.each([
    ["a clock that went back", 3_600_000_000],
    ["the same microsecond", 0],
  ])("gives one more than the last fencing token after %s", async (_what, aheadBy) => {
    const last = (await serverMicros()) + aheadBy + 1_000_000;
    await db.set(keys.fence, `1:${String(last)}:from`, "PX", 10_000);
    expect(await granted(acquire("a"))).toBe(String(last + 1));
    expect((await state()).fence).toEqual(aFence(`1:${String(last + 1)}`));
  });

  it("refuses a newer layout of a held lock, and changes nothing", async () => {
    await db.set(keys.fence, "2:who:knows", "PX", 50_000);
    await db.set(keys.lease, "x|y", "PX", 50_000);
    expect(await unchanged(() => rejection(acquire("a")))).toMatchObject({ code: "KIT_LAYOUT", retryable: false });
    expect(await unchanged(() => rejection(queue("a")))).toMatchObject({ code: "KIT_LAYOUT" });
  });

  it("refuses a newer layout of a free lock, and changes nothing", async () => {
    await db.set(keys.fence, "2:who:knows", "PX", 50_000);
    for (const attempt of [acquire, queue])
      expect(await unchanged(() => rejection(attempt("a")))).toMatchObject({ code: "KIT_LAYOUT", retryable: false });
  });

  it("gives a holder that asks again a new token if its own is gone, and never less than the clock", async () => {
    const first = await granted(acquire("a"));
    await db.del(keys.fence);
    const again = await granted(queue("a"));
    expect(BigInt(again)).toBeGreaterThan(BigInt(first));
    expect((await state()).fence).toEqual(aFence(`1:${again}`));
    await db.del(keys.fence);
    const fencingToken = grantedBy(await heartbeat(["a"]));
    expect(BigInt(fencingToken)).toBeGreaterThan(BigInt(again));
    expect((await state()).fence).toEqual(aFence(`1:${fencingToken}`));
  });

  it("replies to a repeated acquire with the present lease, and records that it did", async () => {
    await acquire("a", { leaseMs: 1_000 });
    await queue("b");
    const watched = async (): Promise<number> => Number((await db.hget(keys.waiters, "b"))?.split(" ")[1]);
    const first = await watched();
    await db.pexpire(keys.lease, 60_000);
    expect(await queue("b")).toMatchObject({ state: "queued", position: 0, msLeft: about(60_000) });
    expect((await watched()) - first).toBeGreaterThan(58_000);
    expect(await db.zcard(keys.queue)).toBe(1);
  });
});

describe("release", () => {
  it("frees a lock without waiters", async () => {
    const fencingToken = await granted(acquire("a"));
    expect(await release("a", fencingToken)).toBe("released");
    expect(await state()).toEqual({
      lease: nothing,
      fence: aFence(`1:${fencingToken}`),
      queue: nothing,
      waiters: nothing,
    });
  });

  it("keeps the fencing token of an unused name for keepMs", async () => {
    const fencingToken = await granted(acquire("a"));
    expect(await release("a", fencingToken, 0, "op", 60_000)).toBe("released");
    expect(await state()).toEqual({
      lease: nothing,
      fence: { type: "string", value: `1:${fencingToken}`, ttl: about(60_000) },
      queue: nothing,
      waiters: nothing,
    });
    expect(await unchanged(() => release("a", fencingToken, 0, "op", 60_000))).toBe("unaccepted");
    await granted(acquire("b"));
    expect((await state()).fence.ttl).toEqual(about(weekMs));
  });

  it("keeps it for longer if the clock is behind it", async () => {
    await acquire("a");
    const ahead = String((await serverMicros()) + 3_600_000_000);
    await db.set(keys.fence, `1:${ahead}`);
    await release("a", ahead, 0, "", 60_000);
    expect((await state()).fence.ttl).toEqual(about(3_660_000));
  });

  it("keeps it for a week if the name is still used, and after force", async () => {
    const { channel } = await anInbox();
    const fencingToken = await granted(acquire("a"));
    await queue("b", { inbox: channel });
    await release("a", fencingToken, 0, "", 60_000);
    expect(await state()).toMatchObject({ lease: aLease("b|B", 2_000), fence: { ttl: about(weekMs) } });
    await force("b|B", "op", 60_000);
    expect(await state()).toMatchObject({ lease: nothing, fence: { ttl: about(weekMs) } });
  });

  it("leaves the lock taken until minHoldMs after the grant, without a token, and notifies the first waiter", async () => {
    const [first, second] = [await anInbox(), await anInbox()];
    const fencingToken = await granted(acquire("a", { leaseMs: 60_000 }));
    await queue("dead");
    await db.hset(keys.waiters, "dead", "1 1 2000 - D");
    await queue("b", { inbox: first.channel });
    await queue("c", { inbox: second.channel });
    const end = (): Promise<ReleaseReply> => release("a", fencingToken, 0, "op", "", 30_000);
    expect(await end()).toBe("released");
    expect(await state()).toMatchObject({
      lease: { type: "string", value: "|A", ttl: about(30_000) },
      fence: aFence(`1:${fencingToken}:op`),
    });
    await db.publish(second.channel, "the last");
    await expect.poll(() => second.messages).toEqual(["the last"]);
    await expect.poll(() => first.messages).toEqual([expect.stringMatching(/^b\thead\t\d{13}$/)]);
    expect(Number(first.messages[0]!.split("\t")[2]) - (await serverMicros()) / 1e3).toBeLessThanOrEqual(30_000);
    expect(await unchanged(end)).toBe("released");
    expect(await renew([keys.lease, "a|A", 60_000])).toMatchObject({ states: ["taken"] });
    expect(await force("|A")).toBe("released");
    expect(await db.get(keys.lease)).toBe("b|B");
  });

  it("frees it immediately when minHoldMs is over, and when an acquire is undone", async () => {
    await acquire("a");
    const early = String((await serverMicros()) - 30_000_000);
    await db.set(keys.fence, `1:${early}`);
    expect(await release("a", early, 0, "op", "", 30_000)).toBe("released");
    expect((await state()).lease).toEqual(nothing);
    await acquire("a");
    expect(await release("a", "", 0, "", "", 30_000)).toBe("released");
    expect((await state()).lease).toEqual(nothing);
  });

  it("leaves it taken for minHoldMs at most if the clock is behind the fencing token, and keeps that token", async () => {
    await acquire("a");
    const ahead = String((await serverMicros()) + 3_600_000_000);
    await db.set(keys.fence, `1:${ahead}`);
    await release("a", ahead, 0, "op", 60_000, 30_000);
    expect(await state()).toMatchObject({
      lease: { ttl: about(30_000) },
      fence: { value: `1:${ahead}:op`, ttl: about(3_690_000) },
    });
  });

  it("hands the lock to the first in the queue, notifies it, and notifies the next how long that lasts", async () => {
    const [first, second] = [await anInbox(), await anInbox()];
    const fencingToken = await granted(acquire("a", { leaseMs: 60_000 }));
    await queue("b", { inbox: first.channel, grantMs: 7_000 });
    await queue("c", { inbox: second.channel });
    expect(await release("a", fencingToken, 0, "op")).toBe("released");
    const { fence, ...rest } = await state();
    expect(rest).toEqual({
      lease: aLease("b|B", 7_000),
      queue: aQueue("c", "2"),
      waiters: records({ "#": "2", c: aRecord(`2000 ${second.channel} C`) }),
    });
    const newToken = /^1:(\d+):op$/.exec(String(fence.value))?.[1] ?? "";
    expect(BigInt(newToken)).toBeGreaterThan(BigInt(fencingToken));
    await expect.poll(() => second.messages).toEqual([expect.stringMatching(/^c\thead\t\d{13}$/)]);
    const leaseEnd = second.messages[0]!.split("\t")[2];
    await expect.poll(() => first.messages).toEqual([`b\tgranted\t${String(leaseEnd)}\t7000\t${newToken}`]);
  });

  it("leaves the next in the queue alone when it looks by itself before the new lease ends", async () => {
    const [first, second] = [await anInbox(), await anInbox()];
    const fencingToken = await granted(acquire("a", { leaseMs: 10_000 }));
    await queue("b", { inbox: first.channel, grantMs: 20_000 });
    await queue("c", { inbox: second.channel });
    await release("a", fencingToken);
    await db.publish(second.channel, "the last");
    await expect.poll(() => second.messages).toEqual(["the last"]);
    await expect.poll(() => first.messages).toHaveLength(1);
  });

  it("notifies the next in the queue of the new lease's end when it watched one without end", async () => {
    const { channel, messages } = await anInbox();
    const fencingToken = await granted(acquire("a"));
    await db.persist(keys.lease);
    await queue("b", { inbox: channel });
    await queue("c", { inbox: channel });
    await release("a", fencingToken);
    await expect.poll(() => messages.map((message) => message.slice(0, 6))).toEqual(["b\tgran", "c\thead"]);
  });

  it("records its replies to callers that it grants to", async () => {
    await acquire("a", { leaseMs: 1_000 });
    await queue("b", { grantMs: 60_000 });
    await queue("c");
    await db.del(keys.lease);
    const reply = await heartbeat(["b", "c"]);
    expect(reply.states).toEqual([{ msLeft: 60_000, fencingToken: expect.any(String) }, 0]);
    const [, watched] = (await db.hget(keys.waiters, "c"))!.split(" ");
    expect(Number(watched)).toBeGreaterThan(reply.now + 59_000);
  });

  it("replies released again to a copy of the call that handed the lock on, and to no other call", async () => {
    const { channel } = await anInbox();
    const fencingToken = await granted(acquire("a"));
    await queue("b", { inbox: channel });
    await release("a", fencingToken, 0, "one");
    expect(await unchanged(() => release("a", fencingToken, 0, "one"))).toBe("released");
    expect(await unchanged(() => release("a", fencingToken, 0, "two"))).toBe("not-held");
    expect(await unchanged(() => release("a", fencingToken))).toBe("not-held");
  });

  it("leaves the queue", async () => {
    const fencingToken = await granted(acquire("a"));
    await queue("b");
    await queue("c");
    expect(await release("b")).toBe("left");
    expect(await state()).toEqual({
      lease: aLease("a|A", 5_000),
      fence: aFence(`1:${fencingToken}`),
      queue: aQueue("c", "2"),
      waiters: records({ "#": "2", c: aRecord("2000 - C") }),
    });
  });

  it("notifies the next waiter of the end that the first one watched when that leaves", async () => {
    const [first, second, third] = [await anInbox(), await anInbox(), await anInbox()];
    await acquire("a", { leaseMs: 60_000 });
    await queue("b", { inbox: first.channel });
    await queue("c", { inbox: second.channel });
    await queue("d", { inbox: third.channel });
    await db.pexpire(keys.lease, 1_000);
    await release("c");
    await release("b");
    await expect.poll(() => third.messages).toEqual([expect.stringMatching(/^d\thead\t\d{13}$/)]);
    expect([first.messages, second.messages]).toEqual([[], []]);
  });

  it("replies unaccepted when the lease is gone and no caller has held the lock since", async () => {
    const fencingToken = await granted(acquire("a"));
    await lapse(db, keys.lease);
    expect(await unchanged(() => release("a", fencingToken))).toBe("unaccepted");
    expect(await unchanged(() => release("a"))).toBe("not-held");
  });

  it("changes nothing for a token that neither holds nor waits", async () => {
    const first = await granted(acquire("a"));
    await lapse(db, keys.lease);
    await acquire("b");
    await queue("c");
    expect(await unchanged(() => release("a", first))).toBe("not-held");
    expect(await unchanged(() => release("nobody"))).toBe("not-held");
  });

  it("changes nothing for a token that holds it under another label", async () => {
    const fencingToken = await granted(acquire("a"));
    const reply = unchanged(() =>
      scripts.release.run(db, keys, {
        owner: "a|other",
        terms: { shared: 0, fencingToken, op: "", keepMs: "", minHoldMs: "" },
      }),
    );
    expect(await reply).toBe("not-held");
  });

  it("takes the lock by force from the owner that is named, and marks the fence so that the holder's own release notices", async () => {
    const fencingToken = await granted(acquire("a"));
    expect(await force()).toBe("released");
    const { lease, fence } = await state();
    expect(lease).toEqual(nothing);
    expect(BigInt(String(fence.value).split(":")[1]!)).toBeGreaterThan(BigInt(fencingToken));
    expect(fence.ttl).toEqual(about(weekMs));
    expect(await release("a", fencingToken)).toBe("not-held");
  });

  it("hands on by force to the first in the queue", async () => {
    const { channel } = await anInbox();
    await acquire("a");
    await queue("b", { inbox: channel });
    expect(await force()).toBe("released");
    expect((await state()).lease).toEqual(aLease("b|B", 2_000));
  });

  it.each(["nobody waits", "another waits"])("knows its own work by force again: %s", async (who) => {
    const { channel } = await anInbox();
    await acquire("a");
    if (who === "another waits") await queue("b", { inbox: channel });
    expect(await force("a|A", "op1")).toBe("released");
    expect(await unchanged(() => force("a|A", "op1"))).toBe("released");
    expect(await unchanged(() => force("a|A", "op2"))).toBe("not-held");
  });

  it("takes nothing by force when the lock is free, or another caller holds it by now", async () => {
    expect(await force()).toBe("not-held");
    expect(await force("")).toBe("not-held");
    expect(await redis.keys()).toEqual([]);
    await acquire("b");
    await queue("c");
    expect(await unchanged(() => force())).toBe("not-held");
  });

  it("passes over waiters whose inbox has no listener, and keeps their place", async () => {
    const { channel } = await anInbox();
    const fencingToken = await granted(acquire("a"));
    await queue("unreachable", { inbox: `${redis.prefix}:inbox:nobody` });
    await queue("b", { inbox: channel });
    await release("a", fencingToken);
    expect(await state()).toMatchObject({ lease: aLease("b|B", 2_000), queue: aQueue("unreachable", "1") });
  });

  it("passes no waiter over if receivers cannot be counted", async () => {
    const { channel } = await anInbox();
    const fencingToken = await granted(acquire("a"));
    await queue("far", { inbox: `${redis.prefix}:inbox:nobody` });
    await queue("b", { inbox: channel });
    await release("a", fencingToken, 1);
    expect(await state()).toMatchObject({ lease: aLease("far|FAR", 2_000), queue: aQueue("b", "2") });
  });

  it("drops waiters whose sign of life is too old", async () => {
    const { channel } = await anInbox();
    const fencingToken = await granted(acquire("a"));
    await queue("dead", { inbox: channel });
    await queue("b", { inbox: channel });
    await db.hset(keys.waiters, "dead", `${String(Date.now() - 60_000)} 0 2000 ${channel} DEAD`);
    await release("a", fencingToken);
    expect(await state()).toMatchObject({
      lease: aLease("b|B", 2_000),
      queue: nothing,
      waiters: records({ "#": "2" }),
    });
  });

  it("drops waiters without a record", async () => {
    const { channel } = await anInbox();
    const fencingToken = await granted(acquire("a"));
    await queue("half");
    await queue("b", { inbox: channel });
    await db.hdel(keys.waiters, "half");
    await release("a", fencingToken);
    expect(await state()).toMatchObject({ lease: aLease("b|B", 2_000), queue: nothing });
  });

  it("reaches a living waiter after all unreachable waiters of one crashed process", async () => {
    const { channel } = await anInbox();
    const fencingToken = await granted(acquire("a"));
    for (let index = 0; index < 20; index++)
      await queue(`unreachable${String(index)}`, { inbox: `${redis.prefix}:inbox:nobody`, maxWaiters: 100 });
    await queue("b", { inbox: channel, maxWaiters: 100 });
    await release("a", fencingToken);
    expect((await state()).lease).toEqual(aLease("b|B", 2_000));
  });

  it.each(["its holder, behind whom others wait", "force"])("refuses a newer layout to %s", async (who) => {
    await acquire("a");
    await queue("b");
    await db.set(keys.fence, "2:who:knows", "PX", 50_000);
    const reply = unchanged(() => rejection(who === "force" ? force() : release("a")));
    expect(await reply).toMatchObject({ code: "KIT_LAYOUT" });
  });
});

describe("renew", () => {
  it("extends the caller's leases, and reports the outcome of each", async () => {
    const [mine, gone, taken, corrupt] = ["mine", "gone", "taken", "corrupt"].map(
      (name) => fixture.keysOf(name).lease,
    ) as [string, string, string, string];
    await db.set(mine, "a|A", "PX", 1_000);
    await db.set(taken, "b|B", "PX", 1_000);
    await db.rpush(corrupt, "x");
    await db.pexpire(corrupt, 1_000);
    const now = Math.floor((await serverMicros()) / 1_000);
    const reply = await renew(
      [mine, "a|A", 9_000],
      [gone, "a|A", 9_000],
      [taken, "a|A", 9_000],
      [corrupt, "a|A", 9_000],
    );
    expect(reply.states).toEqual(["extended", "gone", "taken", "corrupt"]);
    expect(reply.now).toBeGreaterThanOrEqual(now);
    const after = await Promise.all(
      [mine, gone, taken, corrupt].map(async (key) => [await db.type(key), await db.pttl(key)]),
    );
    expect(after).toEqual([
      ["string", about(9_000)],
      ["none", -2],
      ["string", about(1_000)],
      ["list", about(1_000)],
    ]);
    expect([await db.get(mine), await db.get(taken)]).toEqual(["a|A", "b|B"]);
  });

  it("lengthens a lease, and never shortens one", async () => {
    const left = async (termMs: number): Promise<number> => {
      await db.set(keys.lease, "a|A", "PX", 50_000);
      expect((await renew([keys.lease, "a|A", termMs])).states).toEqual(["extended"]);
      return await db.pttl(keys.lease);
    };
    expect(await left(3_000)).toEqual(about(50_000));
    expect(await left(90_000)).toEqual(about(90_000));
    // Only looked up.
    expect(await left(0)).toEqual(about(50_000));
  });

  it("gives a lease without an end one", async () => {
    await db.set(keys.lease, "a|A");
    expect((await renew([keys.lease, "a|A", 3_000])).states).toEqual(["extended"]);
    expect((await state()).lease).toEqual(aLease("a|A", 3_000));
  });

  it("does nothing to a lease that its token holds under another label", async () => {
    await db.set(keys.lease, "a|A", "PX", 1_000);
    expect((await renew([keys.lease, "a|other", 9_000])).states).toEqual(["taken"]);
    expect((await state()).lease).toEqual(aLease("a|A", 1_000));
  });
});

describe("heartbeat", () => {
  it("keeps waiters alive and replies with the position of each", async () => {
    const fencingToken = await granted(acquire("a"));
    for (const token of ["b", "c", "d"]) await queue(token);
    const stale = String(Date.now() + 1_000);
    await db.hset(keys.waiters, "d", `${stale} 0 2000 - D`);
    for (const key of [keys.queue, keys.waiters]) await db.pexpire(key, 3_000);
    expect(await heartbeat(["d", "b"])).toEqual({
      now: expect.any(Number),
      msLeft: about(5_000),
      owner: { token: "a", holder: "A" },
      states: [2, 0],
    });
    const after = await state();
    expect(after).toEqual({
      lease: aLease("a|A", 5_000),
      fence: aFence(`1:${fencingToken}`),
      queue: aQueue("b", "1", "c", "2", "d", "3"),
      waiters: records({ "#": "3", b: aRecord("2000 - B"), c: aRecord("2000 - C"), d: aRecord("2000 - D") }),
    });
    expect(Number((after.waiters.value as Record<string, string>)["d"]!.slice(0, 13))).toBeGreaterThan(
      Number(stale) + 5_000,
    );
  });

  it("notifies waiters on their current channel", async () => {
    const fencingToken = await granted(acquire("a"));
    const [gone, now] = [await anInbox(), await anInbox()];
    await queue("b");
    await queue("c", { inbox: gone.channel });
    await queue("d", { inbox: now.channel });
    await heartbeat(["b", "c"], now.channel);
    expect((await state()).waiters).toEqual(
      records({
        "#": "3",
        b: aRecord(`2000 ${now.channel} B`),
        c: aRecord(`2000 ${now.channel} C`),
        d: aRecord(`2000 ${now.channel} D`),
      }),
    );
    await release("a", fencingToken);
    await expect.poll(() => now.messages[0]).toMatch(/^b\tgranted\t/);
    await db.publish(gone.channel, "the last");
    await expect.poll(() => gone.messages).toEqual(["the last"]);
    await heartbeat(["c"]);
    expect((await state()).waiters).toMatchObject({ value: { c: aRecord("2000 - C") } });
  });

  it("reports an unknown token as unknown", async () => {
    await acquire("a");
    expect((await unchanged(() => heartbeat(["x", "y"]))).states).toEqual(["unknown", "unknown"]);
  });

  it("replies to the holder that it holds", async () => {
    const fencingToken = await granted(acquire("a"));
    expect(await unchanged(() => heartbeat(["a"]))).toMatchObject({
      states: [{ msLeft: about(5_000), fencingToken }],
      msLeft: about(5_000),
    });
  });

  it("grants a free lock to the first who asks, and reports it", async () => {
    await acquire("a");
    for (const token of ["b", "c"]) await queue(token);
    await lapse(db, keys.lease);
    const reply = await heartbeat(["c", "b"]);
    expect(reply).toMatchObject({
      states: [0, { msLeft: about(2_000) }],
      owner: { token: "b", holder: "B" },
      msLeft: about(2_000),
    });
    expect(await state()).toMatchObject({
      lease: aLease("b|B", 2_000),
      fence: aFence(`1:${grantedBy(reply)}:`),
      queue: aQueue("c", "2"),
    });
  });

  it("passes a free lock over waiters that cannot be notified and that did not ask", async () => {
    await acquire("a");
    for (const token of ["b", "c"]) await queue(token);
    await lapse(db, keys.lease);
    grantedBy(await heartbeat(["c"]));
    expect((await state()).queue).toEqual(aQueue("b", "1"));
  });

  it("replies that the lock is free when it could notify no waiter", async () => {
    await acquire("a");
    await queue("b");
    await lapse(db, keys.lease);
    expect(await heartbeat(["x"])).toMatchObject({ msLeft: -2, owner: null, states: ["unknown"] });
  });

  it("answers 1000 waiters in one call", async () => {
    await acquire("a");
    const tokens = Array.from({ length: 1_000 }, (_, index) => `w${String(index)}`);
    await Promise.all(tokens.map((token) => queue(token, { maxWaiters: 1_000 })));
    expect((await heartbeat(tokens)).states.toSorted((a, b) => Number(a) - Number(b))).toEqual(
      tokens.map((_, index) => index),
    );
  });

  it("refuses a newer layout, and changes nothing", async () => {
    await acquire("a");
    await queue("b");
    await db.set(keys.fence, "2:who:knows", "PX", 50_000);
    expect(await unchanged(() => rejection(heartbeat(["b"])))).toMatchObject({ code: "KIT_LAYOUT" });
  });
});

describe("inspect", () => {
  it("shows a free lock", async () => {
    expect(await scripts.inspect.run(db, keys, { first: 10 })).toEqual({
      msLeft: -2,
      owner: null,
      fencingToken: null,
      waiting: 0,
      holders: [],
    });
    expect(await redis.keys()).toEqual([]);
  });

  it("shows holder, fencing token and the first in the queue, and changes nothing", async () => {
    const fencingToken = await granted(acquire("a"));
    for (const token of ["b", "c", "d"]) await queue(token);
    expect(await unchanged(() => scripts.inspect.run(db, keys, { first: 2 }))).toEqual({
      msLeft: about(5_000),
      owner: { token: "a", holder: "A" },
      fencingToken,
      waiting: 3,
      holders: ["B", "C"],
    });
  });
});

describe("a key of another type", () => {
  /** A held lock with a waiter, so that each script has to do with all four keys; then one of them made something else. */
  const spoil = async (part: keyof LockKeys, lease: "held" | "free"): Promise<void> => {
    await acquire("a");
    await queue("b");
    if (lease === "free") await db.del(keys.lease);
    await db.del(keys[part]);
    await db.rpush(keys[part], "stranger");
    await db.pexpire(keys[part], 30_000);
  };
  const all: readonly (keyof LockKeys)[] = ["lease", "fence", "queue", "waiters"];
  const inspect = (): Promise<unknown> => scripts.inspect.run(db, keys, { first: 10 });
  const cases: readonly (readonly [
    what: string,
    run: () => Promise<unknown>,
    parts: readonly (keyof LockKeys)[],
    lease: "held" | "free",
  ])[] = [
    ["acquire of a held lock", () => queue("c"), all, "held"],
    ["acquire of a lock whose lease ran out", () => queue("c"), ["fence", "queue", "waiters"], "free"],
    ["release by the holder", () => release("a"), all, "held"],
    ["release by a waiter", () => release("b"), ["lease", "queue", "waiters"], "held"],
    ["release by force", () => force(), all, "held"],
    ["heartbeat of a held lock", () => heartbeat(["b"]), all, "held"],
    ["heartbeat of a lock whose lease ran out", () => heartbeat(["b"]), ["fence", "queue", "waiters"], "free"],
    ["inspect", inspect, all, "held"],
  ];
  const advice =
    "a script must read each of its keys by a command of the key's type; EXISTS, PTTL and DEL take any type";
  const table = cases.flatMap(([what, run, parts, lease]) => parts.map((part) => ({ what, part, run, lease })));

  it.each(table)("is named by $what when it is $part, and nothing is changed", async ({ part, run, lease }) => {
    await spoil(part, lease);
    const error = await unchanged(() => run().catch((thrown: unknown) => thrown));
    expect(error, advice).toBeInstanceOf(KitKeyTypeError);
    expect(error).toMatchObject({ code: "KIT_KEY_TYPE", key: keys[part], found: "list" });
    expect(String(error)).toContain(keys[part]);
  });

  it("is named by release when there is no waiter and the fence is spoiled, and nothing is changed", async () => {
    await acquire("a");
    await db.del(keys.fence);
    await db.rpush(keys.fence, "stranger");
    await db.pexpire(keys.fence, 30_000);
    expect(await unchanged(() => rejection(force()))).toMatchObject({ code: "KIT_KEY_TYPE", key: keys.fence });
  });
});

describe("a server at maxmemory", () => {
  beforeEach(() => {
    redis.defer(() => db.config("SET", "maxmemory", "0"));
  });
  const fill = (): Promise<unknown> => db.config("SET", "maxmemory", "1");

  it("refuses an acquire of a free lock, and of a place in the queue, with KIT_SERVER_FULL", async () => {
    await fill();
    expect(await unchanged(() => rejection(acquire("a")))).toMatchObject({ code: "KIT_SERVER_FULL", retryable: true });
    await db.config("SET", "maxmemory", "0");
    await acquire("a");
    await fill();
    expect(await unchanged(() => rejection(queue("b")))).toMatchObject({ code: "KIT_SERVER_FULL" });
  });

  it("lets a release through, which hands the lock on", async () => {
    const { channel, messages } = await anInbox();
    const fencingToken = await granted(acquire("a"));
    await queue("b", { inbox: channel });
    await fill();
    expect(await release("a", fencingToken)).toBe("released");
    expect(await state()).toMatchObject({ lease: aLease("b|B", 2_000), queue: nothing });
    await expect.poll(() => messages).toHaveLength(1);
  });

  it("lets renew, heartbeat, leave and force through", async () => {
    await acquire("a");
    await queue("b");
    await queue("c");
    await fill();
    expect((await renew([keys.lease, "a|A", 7_000])).states).toEqual(["extended"]);
    expect((await heartbeat(["b", "c"])).states).toEqual([0, 1]);
    expect(await release("c")).toBe("left");
    await lapse(db, keys.lease);
    grantedBy(await heartbeat(["b"]));
    expect(await force("b|B")).toBe("released");
  });
});

describe("a fencing token that someone wrote manually", () => {
  it.each(["1:1e300", "1:12x", "1:-5", "1: 9", "1:", "1", ""])(
    "refuses the lock where it is %j, free or held",
    async (text) => {
      await db.set(keys.fence, text, "PX", 50_000);
      for (const lease of [null, "x|y"]) {
        if (lease !== null) await db.set(keys.lease, lease, "PX", 50_000);
        for (const attempt of [
          () => acquire("a"),
          () => queue("a"),
          () => heartbeat(["a"]),
          () => scripts.inspect.run(db, keys, { first: 9 }),
        ])
          expect(await unchanged(() => rejection(attempt()))).toMatchObject({ code: "KIT_LAYOUT" });
      }
    },
  );

  it("is the last one if it is too high, and the lock is refused from then on", async () => {
    const largest = 2n ** 53n - 1n;
    await db.set(keys.fence, `1:${String(largest - 1n)}`, "PX", 50_000);
    expect(BigInt(await granted(acquire("a")))).toBe(largest);
    await db.del(keys.lease);
    for (const stored of [largest, 2n ** 53n, 10n ** 30n]) {
      await db.set(keys.fence, `1:${String(stored)}`, "PX", 50_000);
      expect(await unchanged(() => rejection(acquire("b")))).toMatchObject({ code: "KIT_LAYOUT" });
      expect(await unchanged(() => rejection(queue("b")))).toMatchObject({ code: "KIT_LAYOUT" });
    }
  });
});
