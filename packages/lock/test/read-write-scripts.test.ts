import { KitKeyTypeError } from "@kit/core";
import type { AcquireReply, HeartbeatReply, ReleaseReply } from "@kit/core/leasing";
import { contract, useRedis } from "@kit/testing";
import * as helpers from "@tooling/vitest/helpers";
import { about, type KeyState, nothing, onMovingSlots, rejection, stateOf } from "@tooling/vitest/helpers";
import type { Redis } from "ioredis";
import * as vitest from "vitest";
import { beforeEach, describe, expect, it } from "vitest";
import { type ReadWriteKeys, readWriteKeys } from "../src/keys.js";
import { createReadWriteLock } from "../src/read-write/index.js";
import * as scripts from "../src/read-write/scripts/index.js";

const redis = useRedis(vitest);
onMovingSlots(redis, scripts, true);
const weekMs = 604_800_000;

let db: Redis;
let keys: ReadWriteKeys;
beforeEach(() => {
  db = redis.client;
  keys = readWriteKeys(redis.prefix)("prices");
});

interface Asked {
  readonly leaseMs?: number;
  readonly notAfter?: number;
  readonly shared?: 0 | 1 | "";
  readonly grantMs?: number;
  readonly maxWaiters?: number;
  readonly inbox?: string;
}
/** The record of a caller: `r1` reads, `w1` writes. */
const recordOf = (who: string): string => `${who.slice(0, 1)}|${who}|${who.toUpperCase()}`;
const other = (record: string): string => (record.startsWith("r") ? "w" : "r") + record.slice(1);
const acquire = (who: string, asked: Asked = {}): Promise<AcquireReply<scripts.Held>> => {
  const { leaseMs = 50_000, notAfter = 0, shared = 0, grantMs = 20_000, maxWaiters = 10, inbox = "" } = asked;
  const terms = { leaseMs, notAfter, shared, grantMs, aliveMs: 15_000, maxWaiters, inbox };
  return scripts.acquire.run(db, keys, { record: recordOf(who), terms });
};
const queue = (who: string, asked: Asked = {}): Promise<AcquireReply<scripts.Held>> =>
  acquire(who, { inbox: "-", ...asked });
const release = (who: string, shared = 0, keepMs: number | "" = ""): Promise<ReleaseReply> =>
  scripts.release.run(db, keys, { record: recordOf(who), terms: { shared, keepMs } });
const heartbeat = (whom: readonly string[], inbox = "-"): Promise<HeartbeatReply<scripts.Held>> =>
  scripts.heartbeat.run(db, keys, { shared: 0, aliveMs: 15_000, inbox, records: whom.map(recordOf) });
const downgrade = (who: string, newest = ""): Promise<boolean> =>
  scripts.downgrade.run(db, keys, { record: recordOf(who), terms: { shared: 0, newest } });
const upgrade = (who: string): Promise<scripts.UpgradeReply> =>
  scripts.upgrade.run(db, keys, { record: recordOf(who) });
const renew = (record: string, termMs: number): ReturnType<typeof scripts.renew.run> =>
  scripts.renew.run(db, { leases: [keys.leases] }, { terms: [{ termMs, record }] });
const inspect = (first = 10): Promise<scripts.InspectReply> => scripts.inspect.run(db, keys, { first });

/** The holders of the lock, by leases that have not ended. */
const held = async (): Promise<string[]> =>
  (await db.zrangebyscore(keys.leases, `(${String(Date.now())}`, "+inf"))
    .map((record) => record.split("|")[1]!)
    .toSorted();
const waiting = async (): Promise<string[]> =>
  (await db.zrange(keys.queue, "0", "-1")).map((record) => record.split("|")[1]!);
const msLeftOf = async (record: string): Promise<number> =>
  Number(await db.zscore(keys.leases, record)) - Number((await db.time())[0]) * 1_000;
/** Ends a lease, as time does. */
const end = (who: string): Promise<unknown> => db.zadd(keys.leases, "XX", "1", recordOf(who));

const state = async (): Promise<Record<keyof ReadWriteKeys, KeyState>> => await stateOf(db, keys);
const unchanged = <T>(action: () => Promise<T>): Promise<T> => helpers.unchanged(db, keys, action);
const anInbox = (): ReturnType<typeof helpers.anInbox> => helpers.anInbox(redis);
const tokenOf = (reply: AcquireReply<scripts.Held>): string => {
  if (reply.state !== "granted") throw new Error(`it was ${reply.state}`);
  return reply.fencingToken;
};

describe("every script", () => {
  it("keeps the contract of scripts", async () => {
    expect(await contract(scripts, redis.server)).toEqual([]);
  });
});

describe("acquire", () => {
  it("lets readers share, and a writer in when they are gone", async () => {
    expect(await acquire("r1")).toEqual({
      state: "granted",
      now: expect.any(Number),
      msLeft: undefined,
      fencingToken: "",
    });
    expect(await acquire("r2", { leaseMs: 90_000 })).toMatchObject({ state: "granted", fencingToken: "" });
    expect(await unchanged(() => acquire("w1"))).toEqual({
      state: "held",
      now: expect.any(Number),
      msLeft: about(90_000),
      leaseMsLeft: about(90_000),
      owner: { mode: "read", holder: "R2" },
      position: -1,
    });
    expect(await held()).toEqual(["r1", "r2"]);
    expect([await release("r1"), await release("r2")]).toEqual(["released", "released"]);
    const writer = await acquire("w1");
    expect(writer).toMatchObject({ state: "granted", fencingToken: expect.stringMatching(/^\d{16}$/) });
    for (const who of ["r1", "w2"])
      expect(await unchanged(() => acquire(who))).toMatchObject({
        state: "held",
        owner: { mode: "write", holder: "W1" },
      });
    expect(await state()).toMatchObject({
      fence: { value: `1:${tokenOf(writer)}`, ttl: about(weekMs) },
      queue: nothing,
      waiters: nothing,
    });
  });

  it("keeps the key of the leases longer than the longest", async () => {
    await acquire("r1", { leaseMs: 60_000 });
    await acquire("r2", { leaseMs: 1_000 });
    expect(await db.pttl(keys.leases)).toEqual(about(61_000));
    expect((await state()).fence).toMatchObject({ value: "1:0", ttl: about(weekMs) });
  });

  it("gives every writer a larger fencing token, even after readers and a clock that went back", async () => {
    const first = tokenOf(await acquire("w1"));
    await release("w1");
    await acquire("r1");
    await release("r1");
    const second = tokenOf(await acquire("w2"));
    expect(BigInt(second)).toBeGreaterThan(BigInt(first));
    await release("w2");
    await db.set(keys.fence, `1:${String(BigInt(second) + 3_600_000_000n)}`, "PX", 60_000);
    await acquire("r2");
    await release("r2");
    expect(tokenOf(await acquire("w3"))).toBe(String(BigInt(second) + 3_600_000_001n));
  });

  it("gives the same answer to the token that holds it, whatever its mode is by now", async () => {
    const fencingToken = tokenOf(await acquire("w1"));
    expect(await unchanged(() => queue("w1"))).toMatchObject({ state: "granted", fencingToken, msLeft: about(50_000) });
    await downgrade("w1");
    await queue("w2");
    expect(await queue("w1")).toMatchObject({ state: "granted", fencingToken: "", msLeft: about(50_000) });
    expect(await waiting()).toEqual(["w2"]);
  });

  it("holds a lease for a token whose former lease is over", async () => {
    await acquire("r1");
    await end("r1");
    await acquire("r1");
    expect(await held()).toEqual(["r1"]);
  });

  it("lets no reader pass a writer that waits", async () => {
    const { channel } = await anInbox();
    await acquire("r1");
    expect(await queue("w1", { inbox: channel })).toMatchObject({ state: "queued", position: 0 });
    expect(await acquire("r2")).toMatchObject({ state: "held" });
    expect(await queue("r2", { inbox: channel })).toMatchObject({ state: "queued", position: 1 });
    expect(await held()).toEqual(["r1"]);
    expect(await waiting()).toEqual(["w1", "r2"]);
  });

  it("lets readers pass an unreachable writer only when it could have the lock", async () => {
    await acquire("r1");
    await queue("w1", { inbox: `${redis.prefix}:inbox:nobody` });
    expect(await queue("r2")).toMatchObject({ state: "queued", position: 1 });
    await end("r1");
    expect(await queue("r3")).toMatchObject({ state: "granted" });
    expect([await held(), await waiting()]).toEqual([["r3"], ["w1", "r2"]]);
    await end("r3");
    // On a Cluster it is not known who can be notified.
    expect(await acquire("r4", { shared: 1 })).toMatchObject({ state: "held", owner: { mode: "write", holder: "W1" } });
  });

  it("has a writer that keeps readers waiting asked for a heartbeat, by one of them, once a second", async () => {
    const [writer, other] = [await anInbox(), await anInbox()];
    const asked = async (who: string): Promise<number> =>
      Number((await db.hget(keys.waiters, recordOf(who)))!.split(" ")[4]);
    await acquire("r1");
    await queue("w1", { inbox: writer.channel });
    // The client that it waits on does not ask itself, and a writer does not ask.
    await queue("r2", { inbox: writer.channel });
    await queue("w2", { inbox: other.channel });
    expect(await asked("w1")).toBeNaN();
    expect(await queue("r3", { inbox: other.channel })).toMatchObject({ msLeft: 1_000, leaseMsLeft: about(50_000) });
    expect(await asked("w1")).toBeGreaterThan(0);
    await expect.poll(() => writer.messages).toEqual([expect.stringMatching(/^w1\thead\t\d{13}$/)]);
    // While it has not answered, all readers look when it counts as silent.
    expect(await queue("r4", { inbox: other.channel })).toMatchObject({ msLeft: about(2_000) });
    await heartbeat(["w1"], writer.channel);
    expect(await asked("w1")).toBeLessThan(0);
    expect(await heartbeat(["r4"], other.channel)).toMatchObject({ msLeft: about(50_000), states: [4] });
    expect(await queue("r5", { inbox: other.channel })).toMatchObject({ msLeft: about(1_100), position: 5 });
    expect(await waiting()).toEqual(["w1", "r2", "w2", "r3", "r4", "r5"]);
    expect(writer.messages).toHaveLength(1);
  });

  it("lets readers pass a writer that was asked and is silent, which keeps its place until it answers", async () => {
    const { channel } = await anInbox();
    const silence = (who: string, since: number): Promise<unknown> =>
      db.hset(keys.waiters, recordOf(who), `${String(since + 13_000)} 9999999999999 20000 ${channel} ${String(since)}`);
    const now = Number((await db.time())[0]) * 1_000;
    await acquire("r1");
    for (const who of ["w1", "w2", "r2"]) await queue(who, { inbox: channel });
    await silence("w1", now - 3_000);
    // A writer of the same inbox that was heard later is not silent.
    expect(await queue("r3", { inbox: "other" })).toMatchObject({ state: "queued", position: 3 });
    await db.hset(keys.waiters, recordOf("w2"), `${String(now + 11_000)} 9999999999999 20000 ${channel}`);
    expect(await acquire("r4")).toMatchObject({ state: "granted" });
    expect(await held()).toEqual(["r1", "r2", "r4"]);
    expect(await waiting()).toEqual(["w1", "w2", "r3"]);
    await heartbeat(["w1", "w2"], channel);
    expect(await acquire("r5")).toMatchObject({ state: "held" });
    await Promise.all(["r1", "r2", "r4"].map((who) => release(who)));
    expect([await held(), await waiting()]).toEqual([["w1"], ["w2", "r3"]]);
  });

  it("grants to the first waiters when the holder's lease has run out, and queues the newcomer", async () => {
    const { channel, messages } = await anInbox();
    await acquire("w1");
    for (const who of ["r1", "r2"]) await queue(who, { inbox: channel });
    await end("w1");
    expect(await queue("w2")).toMatchObject({ state: "queued", position: 0, owner: { mode: "read" } });
    expect(await held()).toEqual(["r1", "r2"]);
    await expect
      .poll(() => messages.toSorted())
      .toEqual([
        expect.stringMatching(/^r1\tgranted\t\d{13}\t20000\t$/),
        expect.stringMatching(/^r2\tgranted\t\d{13}\t20000\t$/),
      ]);
    expect((await state()).leases.value).not.toContain(recordOf("w1"));
  });

  it("keeps the place of a token that is queued already, and refuses one more than maxWaiters", async () => {
    await acquire("w1");
    await queue("w2", { maxWaiters: 1 });
    expect(await queue("w2", { maxWaiters: 1 })).toMatchObject({ state: "queued", position: 0 });
    expect(await unchanged(() => queue("r1", { maxWaiters: 1 }))).toMatchObject({ state: "full", position: -1 });
    await db.hset(keys.waiters, recordOf("w2"), "1 0 20000 -");
    expect(await queue("r1", { maxWaiters: 1 })).toMatchObject({ state: "queued", position: 0 });
    expect(await waiting()).toEqual(["r1"]);
  });

  it("does nothing after notAfter", async () => {
    const now = Number((await db.time())[0]) * 1_000;
    for (const who of ["r1", "w1"])
      expect(await acquire(who, { notAfter: now - 1 })).toEqual({ state: "late", now: expect.any(Number) });
    expect(await redis.keys()).toEqual([]);
    expect(await acquire("r1", { notAfter: now + 60_000 })).toMatchObject({ state: "granted" });
  });

  it("gives a writer that asks again a new token if its own is gone", async () => {
    const first = tokenOf(await acquire("w1"));
    await db.del(keys.fence);
    const again = tokenOf(await queue("w1"));
    expect(BigInt(again)).toBeGreaterThan(BigInt(first));
    expect((await state()).fence.value).toBe(`1:${again}`);
  });
});

describe("release", () => {
  it("lets the readers in that come before the next writer, in one step", async () => {
    const { channel, messages } = await anInbox();
    await acquire("w1", { leaseMs: 60_000 });
    for (const who of ["r1", "r2", "w2", "r3"]) await queue(who, { inbox: channel });
    expect(await release("w1")).toBe("released");
    expect(await held()).toEqual(["r1", "r2"]);
    expect(await waiting()).toEqual(["w2", "r3"]);
    // The next looks when the readers may be gone.
    await expect
      .poll(() => messages.map((message) => message.replace(/\d{13}/, "end")))
      .toEqual(["r1\tgranted\tend\t20000\t", "r2\tgranted\tend\t20000\t", "w2\thead\tend"]);
    expect(await release("r2")).toBe("released");
    expect(await held()).toEqual(["r1"]);
    expect(await release("r1")).toBe("released");
    expect(await held()).toEqual(["w2"]);
    await release("w2");
    expect([await held(), await waiting()]).toEqual([["r3"], []]);
  });

  it("keeps the fencing token for keepMs when the last holder is gone, and there is no waiter", async () => {
    const fenceMs = async (): Promise<unknown> => (await state()).fence.ttl;
    await acquire("w1");
    await downgrade("w1");
    await acquire("r1");
    await release("r1", 0, 60_000);
    expect(await fenceMs()).toEqual(about(weekMs));
    await queue("w2", { inbox: (await anInbox()).channel });
    await release("w1", 0, 60_000);
    expect(await held()).toEqual(["w2"]);
    expect(await fenceMs()).toEqual(about(weekMs));
    expect(await release("w2", 0, 60_000)).toBe("released");
    expect(await fenceMs()).toEqual(about(60_000));
    expect(await unchanged(() => release("w2", 0, 60_000))).toBe("not-held");
    await acquire("w3");
    expect(await fenceMs()).toEqual(about(weekMs));
  });

  it("notifies a writer that waits when the leases of the others end sooner, once", async () => {
    const { channel, messages } = await anInbox();
    await acquire("r1", { leaseMs: 90_000 });
    await acquire("r2", { leaseMs: 60_000 });
    await acquire("r3", { leaseMs: 30_000 });
    await queue("w1", { inbox: channel });
    await release("r1");
    await release("r3");
    await db.publish(channel, "the last");
    await expect.poll(() => messages.at(-1)).toBe("the last");
    expect(messages).toEqual([expect.stringMatching(/^w1\thead\t\d{13}$/), "the last"]);
    const looksAt = Number(messages[0]!.split("\t")[2]);
    expect(looksAt).toBe(Number(await db.zscore(keys.leases, recordOf("r2"))));
  });

  it("lets readers in when the writer before them leaves the queue", async () => {
    const { channel } = await anInbox();
    await acquire("r1");
    for (const who of ["w1", "r2"]) await queue(who, { inbox: channel });
    expect(await release("w1")).toBe("left");
    expect([await held(), await waiting()]).toEqual([["r1", "r2"], []]);
  });

  it("passes over waiters whose inbox has no listener, and drops the dead", async () => {
    const { channel } = await anInbox();
    await acquire("w1");
    await queue("w2", { inbox: `${redis.prefix}:inbox:nobody` });
    for (const who of ["w3", "r1", "w4"]) await queue(who, { inbox: channel });
    await db.hset(keys.waiters, recordOf("w3"), `1 0 20000 ${channel}`);
    await release("w1");
    expect([await held(), await waiting()]).toEqual([["r1"], ["w2", "w4"]]);
  });

  it("passes no waiter over if receivers cannot be counted", async () => {
    await acquire("w1");
    await queue("w2", { inbox: `${redis.prefix}:inbox:nobody` });
    await queue("r1", { inbox: `${redis.prefix}:inbox:nobody` });
    await release("w1", 1);
    expect([await held(), await waiting()]).toEqual([["w2"], ["r1"]]);
  });

  it("lets in a thousand readers in one step, and the next one looks immediately", async () => {
    const { channel, messages } = await anInbox();
    await acquire("w1", { leaseMs: 60_000 });
    const readers = Array.from({ length: 1_005 }, (_, index) => `r${String(index)}`);
    const stand = `${String(Date.now() + 600_000)} 9999999999999 20000 ${channel}`;
    await db.zadd(keys.queue, ...readers.flatMap((who, index) => [String(index), recordOf(who)]));
    await db.hset(keys.waiters, "#", "1005", ...readers.flatMap((who) => [recordOf(who), stand]));
    for (const key of [keys.queue, keys.waiters]) await db.pexpire(key, 600_000);
    await release("w1");
    expect(await held()).toHaveLength(1_000);
    await expect.poll(() => messages).toHaveLength(1_001);
    const [head] = messages.filter((message) => message.includes("\thead\t"));
    expect(Number(head?.split("\t")[2])).toBeLessThanOrEqual(Date.now());
    await heartbeat([head!.split("\t")[0]!], channel);
    expect(await held()).toHaveLength(1_005);
    expect(await waiting()).toEqual([]);
  });

  it("ends its lease whatever its mode is by now, and no lease of another", async () => {
    await acquire("w1");
    await downgrade("w1");
    await acquire("r1");
    expect(await release("w1")).toBe("released");
    expect(await unchanged(() => release("w1"))).toBe("not-held");
    expect(await unchanged(() => release("r2"))).toBe("not-held");
    expect(await held()).toEqual(["r1"]);
  });

  it("reports that an expired lease was not held", async () => {
    await acquire("r1");
    await end("r1");
    expect(await release("r1")).toBe("not-held");
    await acquire("w1");
    await queue("r1");
    await end("w1");
    expect(await release("w1")).toBe("not-held");
  });

  it("refuses a newer layout while there are waiters", async () => {
    await acquire("w1");
    await queue("w2");
    await db.set(keys.fence, "2:who:knows", "PX", 50_000);
    expect(await unchanged(() => rejection(release("w1")))).toMatchObject({ code: "KIT_LAYOUT" });
  });
});

describe("readers that died", () => {
  // Case 51 of the survey: the dead are dropped by the hundred.
  it("do not slow a release or a writer when there are ten thousand, and go by the hundred", async () => {
    const { channel } = await anInbox();
    const dead = Array.from({ length: 10_000 }, (_, index) => ["1", `r|dead${String(index)}|D`]).flat();
    await acquire("r1");
    await db.zadd(keys.leases, ...dead);
    await queue("w1", { inbox: channel });
    const count = async (): Promise<number> => Number(await db.zcount(keys.leases, "1", "1"));
    const before = await count();
    expect(await release("r1")).toBe("released");
    expect(await held()).toEqual(["w1"]);
    expect(before - (await count())).toBe(100);
    await release("w1");
    await acquire("r2");
    await acquire("r3");
    expect(await count()).toBe(9_600);
    // The server's own count: each of these calls runs a few commands and no more.
    await db.call("CONFIG", "RESETSTAT");
    await release("r2");
    await release("r3");
    expect((await db.info("commandstats")).match(/cmdstat_z\w+:calls=\d+/g)?.join(" ")).toMatch(
      /^(?:cmdstat_z\w+:calls=[1-8] ?)+$/,
    );
  });

  // Case 50.
  it("count no longer, while a reader that renews stays", async () => {
    await acquire("r1", { leaseMs: 60_000 });
    await acquire("r2");
    await end("r1");
    await renew(recordOf("r2"), 30_000);
    expect(await acquire("w1")).toMatchObject({ state: "held", owner: { mode: "read", holder: "R2" } });
    expect((await renew(recordOf("r1"), 30_000)).states).toEqual(["gone"]);
    await end("r2");
    expect(await acquire("w1")).toMatchObject({ state: "granted" });
  });

  // Case 53.
  it("end alone: a short lease shortens no other", async () => {
    await acquire("r1", { leaseMs: 60_000 });
    await acquire("r2", { leaseMs: 10 });
    await renew(recordOf("r2"), 10);
    await expect.poll(() => held()).toEqual(["r1"]);
    expect(await db.pttl(keys.leases)).toEqual(about(61_000));
    expect(await acquire("w1")).toMatchObject({ state: "held", msLeft: about(60_000) });
  });
});

describe("downgrade", () => {
  it("leaves alone a writer of a later upgrade, when it arrives late", async () => {
    const first = tokenOf(await acquire("w1"));
    await downgrade("w1", first);
    const { fencingToken: second } = (await upgrade("w1")) as { fencingToken: string };
    expect(BigInt(second)).toBeGreaterThan(BigInt(first));
    expect(await unchanged(() => downgrade("w1", first))).toBe(true);
    expect(await acquire("r1")).toMatchObject({ state: "held" });
    // One that was sent since then counts, and so does one of a caller that does not know the token.
    await downgrade("w1", second);
    expect(await acquire("r2")).toMatchObject({ state: "granted" });
  });

  it("that had no reply, and arrives after an upgrade of its lease, leaves that writer alone", async () => {
    const client = redis.connect();
    redis.defer(() => client.disconnect());
    const lock = createReadWriteLock(client, { prefix: redis.prefix, deadlineMs: 10_000 });
    redis.defer(() => lock.close({ timeoutMs: 0 }));
    const lease = await lock.write.acquire("prices", { leaseMs: 60_000, renew: false, holder: "me" });
    const { fencingToken: first } = lease;
    const send = client.call.bind(client) as (...command: unknown[]) => Promise<unknown>;
    client.call = () => {
      client.call = send;
      return Promise.reject(Object.assign(new Error("ERR no reply"), { name: "ReplyError" }));
    };
    await rejection(lease.downgrade());
    expect([await lease.tryUpgrade(), lease.mode]).toEqual([true, "write"]);
    const copy = { record: `w|${lease.token}|me`, terms: { shared: 0, newest: first } };
    await scripts.downgrade.run(db, keys, copy);
    expect(await lock.inspect("prices")).toMatchObject({ state: "write", fencingToken: lease.fencingToken });
  });

  it("keeps the lease, lets readers in, and keeps writers out", async () => {
    const { channel } = await anInbox();
    await acquire("w1");
    for (const who of ["r1", "w2", "r2"]) await queue(who, { inbox: channel });
    const ending = await db.zscore(keys.leases, recordOf("w1"));
    expect(await downgrade("w1")).toBe(true);
    expect(await db.zscore(keys.leases, other(recordOf("w1")))).toBe(ending);
    expect((await db.zrange(keys.leases, "0", "-1")).toSorted()).toEqual(["r|r1|R1", "r|w1|W1"]);
    expect(await waiting()).toEqual(["w2", "r2"]);
    // Sent again.
    expect(await unchanged(() => downgrade("w1"))).toBe(true);
    await release("w1");
    await release("r1");
    expect(await held()).toEqual(["w2"]);
  });

  it("changes nothing for a lease that is gone", async () => {
    expect(await downgrade("w1")).toBe(false);
    expect(await redis.keys()).toEqual([]);
    await acquire("w1");
    await end("w1");
    expect(await unchanged(() => downgrade("w1"))).toBe(false);
  });
});

describe("upgrade", () => {
  it("makes the only reader a writer, with a new fencing token and the same end", async () => {
    const before = tokenOf(await acquire("w1"));
    await downgrade("w1");
    const ending = await db.zscore(keys.leases, other(recordOf("w1")));
    const upgraded = await upgrade("w1");
    expect(upgraded).toEqual({ fencingToken: expect.stringMatching(/^\d{16}$/) });
    const { fencingToken } = upgraded as { readonly fencingToken: string };
    expect(BigInt(fencingToken)).toBeGreaterThan(BigInt(before));
    expect(await db.zrange(keys.leases, "0", "-1", "WITHSCORES")).toEqual([recordOf("w1"), ending]);
    expect((await state()).fence.value).toBe(`1:${fencingToken}`);
    // Sent again.
    expect(await unchanged(() => upgrade("w1"))).toEqual({ fencingToken });
    expect(await acquire("r1")).toMatchObject({ state: "held" });
  });

  // Case 52.
  it("is refused while another reads, and granted next to one that died", async () => {
    await acquire("r1");
    await acquire("r2", { leaseMs: 90_000 });
    for (const who of ["r1", "r2"]) expect(await unchanged(() => upgrade(who))).toBe("shared");
    await end("r2");
    expect(await upgrade("r1")).toMatchObject({ fencingToken: expect.any(String) });
  });

  it("changes nothing for a lease that is gone", async () => {
    expect(await upgrade("r1")).toBe("gone");
    await acquire("r1");
    await end("r1");
    expect(await unchanged(() => upgrade("r1"))).toBe("gone");
  });
});

describe("renew", () => {
  it("extends a lease in either mode, and reports the outcome of each", async () => {
    await acquire("w1");
    await downgrade("w1");
    await acquire("r1", { leaseMs: 1_000 });
    const corrupt = `${keys.leases}:corrupt`;
    await db.rpush(corrupt, "x");
    await db.pexpire(corrupt, 1_000);
    const records = ["w1", "r1", "r2"].map(recordOf);
    const reply = await scripts.renew.run(
      db,
      { leases: [keys.leases, keys.leases, keys.leases, corrupt] },
      { terms: [...records, "r|x|X"].map((record) => ({ termMs: 70_000, record })) },
    );
    expect(reply).toEqual({ now: expect.any(Number), states: ["extended", "extended", "gone", "corrupt"] });
    expect(await msLeftOf(other(recordOf("w1")))).toBeGreaterThan(50_000);
    expect(await db.pttl(keys.leases)).toBeGreaterThan(70_000);
  });

  it("lengthens a lease, and never shortens one", async () => {
    await acquire("r1", { leaseMs: 50_000 });
    const left = async (termMs: number): Promise<number> => {
      expect((await renew(recordOf("r1"), termMs)).states).toEqual(["extended"]);
      return await msLeftOf(recordOf("r1"));
    };
    expect(await left(9_000)).toBeGreaterThan(40_000);
    // Only looked up.
    expect(await left(0)).toBeGreaterThan(40_000);
    expect(await left(90_000)).toBeGreaterThan(80_000);
  });
});

describe("heartbeat", () => {
  it("keeps waiters alive and replies with the position of each", async () => {
    await acquire("w1");
    for (const who of ["r1", "w2", "r2"]) await queue(who);
    for (const key of [keys.queue, keys.waiters]) await db.pexpire(key, 3_000);
    expect(await heartbeat(["r2", "r1", "x1"], "some:inbox")).toEqual({
      now: expect.any(Number),
      msLeft: about(50_000),
      leaseMsLeft: about(50_000),
      owner: { mode: "write", holder: "W1" },
      states: [2, 0, "unknown"],
    });
    const { queue: places, waiters } = await state();
    expect([places.ttl, waiters.ttl]).toEqual([about(16_000), about(16_000)]);
    expect(waiters.value).toEqual({
      "#": "3",
      [recordOf("r1")]: expect.stringMatching(/^\d{13} \d{13} 20000 some:inbox$/),
      [recordOf("w2")]: expect.stringMatching(/^\d{13} \d{13} 20000 -$/),
      [recordOf("r2")]: expect.stringMatching(/^\d{13} \d{13} 20000 some:inbox$/),
    });
  });

  // Case 48.
  it("lets both readers in when the writer's lease has run out: W R R", async () => {
    await acquire("w1");
    for (const who of ["r1", "r2"]) await queue(who);
    await end("w1");
    expect(await heartbeat(["r1", "r2"])).toMatchObject({
      states: [
        { msLeft: about(20_000), fencingToken: "" },
        { msLeft: about(20_000), fencingToken: "" },
      ],
    });
    expect([await held(), await waiting()]).toEqual([["r1", "r2"], []]);
  });

  it("grants to a writer with a fencing token, and repeats its reply", async () => {
    await acquire("r1");
    await queue("w1");
    await end("r1");
    const { states } = await heartbeat(["w1"]);
    expect(states).toEqual([{ msLeft: about(20_000), fencingToken: expect.stringMatching(/^\d{16}$/) }]);
    expect((await unchanged(() => heartbeat(["w1"]))).states).toEqual([
      { msLeft: about(20_000), fencingToken: (states[0] as { fencingToken: string }).fencingToken },
    ]);
  });

  it("grants to the caller if no waiter can be notified", async () => {
    await acquire("w1");
    for (const who of ["w2", "r1", "r2"]) await queue(who);
    await end("w1");
    expect((await heartbeat(["r2"])).states).toEqual([{ msLeft: about(20_000), fencingToken: "" }]);
    expect(await waiting()).toEqual(["w2", "r1"]);
    // It polls, so it keeps its turn while it cannot have the lock.
    expect((await heartbeat(["r1"])).states).toEqual([1]);
  });

  it("replies that the lock is free when it could notify no waiter", async () => {
    await acquire("w1");
    await queue("w2");
    await end("w1");
    expect(await heartbeat(["x1"])).toMatchObject({ msLeft: -2, owner: null, states: ["unknown"] });
  });

  it("creates nothing for a waiter that is in no queue", async () => {
    expect((await heartbeat(["r1"])).states).toEqual(["unknown"]);
    expect(await redis.keys()).toEqual([]);
  });
});

describe("inspect", () => {
  it("shows a free lock", async () => {
    const free = { fencingToken: null, holding: 0, waiting: 0, leases: [], queue: [] };
    expect(await inspect()).toEqual(free);
    expect(await redis.keys()).toEqual([]);
    await acquire("r1");
    await end("r1");
    expect(await inspect()).toEqual(free);
  });

  it("shows readers, writer and queue, and changes nothing", async () => {
    await acquire("r1");
    await acquire("r2", { leaseMs: 90_000 });
    for (const who of ["w1", "r3", "w2"]) await queue(who);
    expect(await unchanged(() => inspect(2))).toEqual({
      fencingToken: null,
      holding: 2,
      waiting: 3,
      leases: [
        { mode: "read", holder: "R2", msLeft: about(90_000) },
        { mode: "read", holder: "R1", msLeft: about(50_000) },
      ],
      queue: [
        { mode: "write", holder: "W1" },
        { mode: "read", holder: "R3" },
      ],
    });
  });
});

describe("a key of another type", () => {
  const parts: readonly (keyof ReadWriteKeys)[] = ["leases", "fence", "queue", "waiters"];
  const calls: Readonly<Record<string, () => Promise<unknown>>> = {
    acquire: () => queue("r9"),
    release: () => release("w1"),
    "release of a waiter": () => release("w2"),
    heartbeat: () => heartbeat(["w2"]),
    downgrade: () => downgrade("w1"),
    upgrade: () => upgrade("w1"),
    inspect: () => inspect(),
  };
  const table = Object.keys(calls).flatMap((call) => parts.map((part) => ({ call, part })));

  it.each(table)("is named by $call when it is $part, and nothing is changed", async ({ call, part }) => {
    await acquire("w1");
    await queue("w2");
    await db.del(keys[part]);
    await db.rpush(keys[part], "stranger");
    await db.pexpire(keys[part], 30_000);
    const error = await unchanged(() => rejection(calls[call]!()));
    expect(error).toBeInstanceOf(KitKeyTypeError);
    expect(error).toMatchObject({ code: "KIT_KEY_TYPE", key: keys[part], found: "list" });
  });
});

describe("a server at maxmemory", () => {
  beforeEach(() => {
    redis.defer(() => db.config("SET", "maxmemory", "0"));
  });
  const fill = (): Promise<unknown> => db.config("SET", "maxmemory", "1");

  it("refuses an acquire of a free lock, and of a place in the queue, with KIT_SERVER_FULL", async () => {
    await fill();
    for (const who of ["r1", "w1"])
      expect(await unchanged(() => rejection(acquire(who)))).toMatchObject({ code: "KIT_SERVER_FULL" });
    await db.config("SET", "maxmemory", "0");
    await acquire("w1");
    await fill();
    expect(await unchanged(() => rejection(queue("r1")))).toMatchObject({ code: "KIT_SERVER_FULL" });
  });

  it("lets release, renew, heartbeat, downgrade and upgrade through", async () => {
    const { channel, messages } = await anInbox();
    await acquire("w1");
    for (const who of ["w2", "r1"]) await queue(who, { inbox: channel });
    await queue("w3");
    await fill();
    expect((await renew(recordOf("w1"), 70_000)).states).toEqual(["extended"]);
    expect(await downgrade("w1")).toBe(true);
    expect(await upgrade("w1")).toMatchObject({ fencingToken: expect.any(String) });
    expect(await release("w1")).toBe("released");
    expect(await held()).toEqual(["w2"]);
    expect((await heartbeat(["r1"], channel)).states).toEqual([0]);
    await release("w2");
    expect(await held()).toEqual(["r1"]);
    expect(await release("w3")).toBe("left");
    await expect.poll(() => messages.filter((message) => message.includes("granted"))).toHaveLength(2);
  });
});

describe("a fencing token that someone wrote manually", () => {
  it.each(["2:who:knows", "1:1e300", "1:12x", "1:-5", "1:", ""])("refuses the lock where it is %j", async (text) => {
    const reads = [
      () => acquire("r1"),
      () => acquire("w1"),
      () => queue("w1"),
      () => heartbeat(["w1"]),
      () => downgrade("w1"),
      () => upgrade("w1"),
      () => inspect(),
    ];
    await db.set(keys.fence, text, "PX", 50_000);
    for (const read of reads)
      expect(await unchanged(() => rejection(read()))).toMatchObject({ code: "KIT_LAYOUT", retryable: false });
  });
});
