import { contract, useRedis } from "@kit/testing";
import { onMovingSlots, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import * as adoption from "../src/adopt/scripts/index.js";
import * as below from "../src/below/scripts.js";
import * as deadScripts from "../src/dead/scripts.js";
import * as flows from "../src/flows/scripts/index.js";
import * as flowReaders from "../src/flows/scripts/readers.js";
import * as flowSlices from "../src/slices/scripts.js";
import * as history from "../src/history/scripts/index.js";
import * as historyReaders from "../src/history/scripts/readers.js";
import * as cleaning from "../src/manage/cleaning.js";
import * as looks from "../src/manage/scripts.js";
import { popIfScript } from "../src/pop-if/script.js";
import * as notes from "../src/notes/scripts/index.js";
import * as notesReaders from "../src/notes/scripts/readers.js";
import * as schedules from "../src/schedules/scripts/index.js";
import { grouped } from "../src/store/grouped/index.js";
import * as all from "../src/store/scripts/index.js";
import * as workers from "../src/workers/scripts/index.js";
import * as workersReaders from "../src/workers/scripts/readers.js";
import { keyHead, queueKeys, repliesKey, takenKey } from "../src/job/keys.js";
import { permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
onMovingSlots(redis, { ...all, ...deadScripts, ...looks, ...cleaning, popIfScript });
const { add, begin, handBack, heartbeat, recover, step } = all;
const { redrive } = deadScripts;
const { limit } = looks;

const noting = { ...notes, ...notesReaders };
const keeping = { ...history, ...historyReaders };
const showing = { ...workers, ...workersReaders };
const flowing = { ...flows, ...flowReaders, ...flowSlices, ...below };

describe("scripts", () => {
  it("keep the contract that the test kit checks", async () => {
    expect(
      await contract(
        {
          ...{
            ...all,
            ...deadScripts,
            ...adoption,
            ...looks,
            ...cleaning,
            ...schedules,
            ...noting,
            ...keeping,
            ...showing,
            ...flowing,
          },
          popIfScript,
        },
        redis.server,
      ),
    ).toEqual([]);
    expect(await contract(grouped, redis.server)).toEqual([]);
  });

  it("have room for ten more locals, of the 200 that Lua allows", async () => {
    const spare = `local ${Array.from({ length: 10 }, (_, index) => `spare${String(index)}`).join(", ")}\n`;
    for (const { name, source } of Object.values(grouped)) {
      const error = await redis.client.script("LOAD", spare + source).then(
        () => "",
        (reason: unknown) => String(reason),
      );
      expect(error, name).toBe("");
    }
  });
});

describe("add", () => {
  it("refuses a call forever if it arrives after a repeat by its op has added the job, and takes the next one", async () => {
    const keys = queueKeys(redis.prefix, "mail");
    const id = "AAAAAAAAA.0001";
    const call = (producer: string, sequence: number, plan: string): Promise<all.AddReply> =>
      add.run(
        redis.client,
        { ...keys, others: [] },
        { producer, sequence, isNew: "1", plan, blobs: [`k1 job\n"${plan}"`] },
      );
    const waiting = (): Promise<string[]> => redis.client.lrange(keys.waiting, 0, -1);
    await call("BBBBBBBBB", 9, `${id}\tsettles=AAAAAAAAA:5`);
    expect(await waiting()).toEqual([id]);
    await call("AAAAAAAAA", 5, id);
    expect(await waiting()).toEqual([id]);
    await call("AAAAAAAAA", 6, "AAAAAAAAA.0002");
    expect(await waiting()).toEqual([id, "AAAAAAAAA.0002"]);
  });
});

describe("step", () => {
  const [a, b, c] = ["AAAAAAAAA.0001", "AAAAAAAAA.0002", "AAAAAAAAA.0003"] as const;
  /** All in one slot of one worker. */
  const takeId = (n: number): string => `worker0${(3 * n).toString(36).padStart(5, "0")}`;
  const bounds = "2 10000 1209600000 67108864";
  const keys = (): ReturnType<typeof queueKeys> => queueKeys(redis.prefix, "mail");
  const replies = (): string => repliesKey(keyHead(redis.prefix, "mail"), "caller");
  const taking = (n: number) => ({ ...keys(), taken: takenKey(keyHead(redis.prefix, "mail"), takeId(n)) });
  const undo = (n: number): Promise<number> => recover.run(redis.client, taking(n), { takeId: takeId(n) });
  const addSome = (...ids: string[]): Promise<all.AddReply> =>
    add.run(
      redis.client,
      { ...keys(), others: [] },
      {
        producer: "AAAAAAAAA",
        sequence: 1,
        isNew: "1",
        plan: ids.join("\n"),
        blobs: ids.map((id) => `k1 job\n"${id}"`),
      },
    );
  const addMore = (...ids: string[]): Promise<unknown> => {
    const fields = ids.flatMap((id) => [id, `k1 job\n"${id}"`]);
    return Promise.all([redis.client.hset(keys().jobs, ...fields), redis.client.rpush(keys().waiting, ...ids)]);
  };
  const run = (
    n: number,
    {
      count = 0,
      sure = count,
      room = "",
      flags = "",
      maintenance = "",
      done = [],
      others = [],
    }: Partial<{
      count: number;
      sure: number;
      room: string;
      flags: string;
      maintenance: string;
      done: string[];
      others: string[][];
    }>,
  ): Promise<all.StepReply> => {
    const args = {
      takeId: takeId(n),
      count,
      sure,
      room,
      leaseMs: 60_000,
      flags,
      bounds,
      maintenance,
      done: done.join("\n"),
      others: others.map(([member = "", verdict = "", record = "", answer = ""]) => ({
        member,
        verdict,
        record,
        answer,
      })),
    };
    return step.run(redis.client, { ...taking(n), replies: [replies()] }, args);
  };
  type Change = Partial<Record<"paused" | "concurrency" | "rate" | "names" | "ofGroups" | "askedAt", string>>;
  const limitsOnce = (change: Change): Promise<string> =>
    limit.run(redis.client, keys(), {
      paused: "",
      concurrency: "",
      rate: "",
      names: "",
      ofGroups: "",
      askedAt: "",
      ...change,
    });
  const limits = async (change: Change): Promise<string> =>
    await limitsOnce({ ...change, askedAt: await limitsOnce({}) });
  const isWoken = async (): Promise<boolean> => (await redis.client.zpopmin(keys().wake)).length > 0;
  const expire = (member: string): Promise<unknown> => redis.client.zadd(keys().leases, "XX", 1, member);

  it("replies with the jobs that it took, in order, and looks for due jobs only with flag l", async () => {
    await addSome(a, b, c);
    const taken = await run(1, { count: 2 });
    expect(taken.entries).toEqual([a, b]);
    expect(taken.blobs.map(String)).toEqual([`k1 job\n"${a}"`, `k1 job\n"${b}"`]);
    expect(taken).toMatchObject({ records: [], refused: [], reclaimed: [], promoted: 0 });
    expect([taken.nextDue, taken.nextEnd]).toEqual([undefined, undefined]);
    const looked = await run(2, { flags: "look" });
    expect([looked.entries, looked.nextDue]).toEqual([[], Infinity]);
    expect(looked.nextEnd).toBeCloseTo(looked.nowMicros / 1_000 + 60_000, -4);
  });

  it("takes as many jobs as it has room for, by priority, leaves the others in their order, and replies that there are more", async () => {
    const kilobyte = `k1 job\n"${"x".repeat(1_000)}"`;
    const ranks = { late: 5, soon: -2, later: 6, urgent: -3 };
    await addSome(a, b, c);
    for (const [id, priority] of Object.entries(ranks)) {
      await redis.client.hset(keys().jobs, id, kilobyte);
      await redis.client.zadd(keys().prioritised, priority * 2 ** 33, id);
    }
    await redis.client.hset(keys().jobs, a, kilobyte, b, kilobyte, c, kilobyte);
    const left = async (): Promise<unknown> => [
      await redis.client.lrange(keys().waiting, 0, -1),
      await redis.client.zrange(keys().prioritised, "0", "-1"),
    ];
    const take = async (n: number, room: string): Promise<readonly string[]> => {
      const { entries, blobs, isMore } = await run(n, { count: 9, room });
      expect([blobs.length, isMore]).toEqual([
        entries.length,
        (await redis.client.exists(keys().waiting, keys().prioritised)) > 0,
      ]);
      return entries;
    };
    // One larger job than there is room for is taken.
    expect(await take(1, "10 1")).toEqual(["!-3!urgent"]);
    expect(await left()).toEqual([
      [a, b, c],
      ["soon", "late", "later"],
    ]);
    expect(await take(2, "2500 1")).toEqual(["!-2!soon", a]);
    expect(await left()).toEqual([
      [b, c],
      ["late", "later"],
    ]);
    // A repeat gets the same, whatever the room.
    expect((await run(2, { count: 9, room: "10 1" })).entries).toEqual(["!-2!soon", a]);
    expect(await take(3, "3500 9")).toEqual([b, c, "!5!late"]);
    expect(await left()).toEqual([[], ["later"]]);
    expect(await take(4, "3500 9")).toEqual(["!6!later"]);
    expect(await redis.client.zcard(keys().leases)).toBe(7);
  });

  it("ends jobs once, however often it arrives, and refuses those whose lease was reclaimed", async () => {
    await addSome(a, b, c);
    await run(1, { count: 3 });
    const [first, second, third] = [takeId(1) + a, takeId(1) + b, takeId(1) + c];
    expect(await run(2, { done: [first] })).toMatchObject({ refused: [] });
    await expire(second);
    await redis.client.zadd(keys().revoked, Date.now() - 700_000, "long ago");
    expect(await run(3, { flags: "look" })).toMatchObject({
      promoted: 1,
      reclaimed: [{ member: second, crashes: 1, isDead: false, isGone: false }],
    });
    // The first one is a repeat, the second came too late, the third is as it should be.
    expect(await run(4, { done: [first, second, third] })).toMatchObject({ refused: [second] });
    expect(await redis.client.zrange(keys().revoked, "0", "-1")).toEqual([second]);
    expect(await redis.client.hkeys(keys().jobs)).toEqual([b]);
    expect(await run(5, { others: [[second, "dead", "1\t1\t{}"]] })).toMatchObject({ refused: [second] });
    expect(await run(6, { count: 5 })).toMatchObject({ entries: [b], records: ["0\t1\t"] });
  });

  it("leaves a dead letter alone when its first worker ends it after its lease was forgotten", async () => {
    await addSome(a);
    await run(1, { count: 1 });
    await expire(takeId(1) + a);
    await run(2, { flags: "look" });
    await run(3, { count: 1 });
    await run(4, { others: [[takeId(3) + a, "dead", "1\t1\t{}"]] });
    await redis.client.del(keys().revoked);
    expect(await run(5, { done: [takeId(1) + a] })).toMatchObject({ refused: [takeId(1) + a] });
    expect(await redis.client.hkeys(keys().jobs)).toEqual([a]);
    const dropped = await redrive.run(redis.client, keys(), { verb: "drop", ids: a, begun: "5", spreadMs: 0 });
    expect(dropped).toEqual({ moved: 1, begun: "5" });
    expect(await redis.client.hget(keys().meta, "deadBytes")).toBe("0");
  });

  it("retries jobs, makes them dead letters, and replies with the next due time", async () => {
    await addSome(a, b, c);
    await run(1, { count: 3 });
    const others = [
      [takeId(1) + a, "retry=30000", '1\t0\t{"name":"Error"}'],
      [takeId(1) + b, "dead", "1\t0\t{}", "1 t:inbox:i caller dead\n1\t0\t{}"],
      [takeId(1) + c, "retry=0", "1\t0\t{}"],
    ];
    const { nextDue, nowMicros, promoted } = await run(2, { flags: "look", others });
    expect(nextDue).toBeCloseTo(nowMicros / 1_000 + 30_000, -1);
    expect(promoted).toBe(0);
    expect(await redis.client.zrange(keys().dead, "0", "-1")).toEqual([b]);
    expect(await redis.client.hgetall(replies())).toEqual({ [b]: "dead\n1\t0\t{}" });
    expect(await run(3, { count: 5 })).toMatchObject({ entries: [c], records: ["1\t0\t{}"] });
  });

  it("drops dead letters that are too old, and counts what was completed, even while there is nothing to do", async () => {
    await addSome(a, b);
    await run(1, { count: 2 });
    await run(2, { others: [a, b].map((id) => [takeId(1) + id, "dead", "1\t0\t{}"]) });
    await redis.client.zadd(keys().dead, 1, a);
    await run(3, { flags: "woken" });
    expect(await redis.client.zcard(keys().dead)).toBe(2);
    await run(4, { flags: "woken", maintenance: "7" });
    expect(await redis.client.zrange(keys().dead, "0", "-1")).toEqual([b]);
    expect(await redis.client.hmget(keys().meta, "completed", "deadDropped")).toEqual(["7", "1"]);
    await redis.client.zadd(keys().dead, 1, b);
    await run(5, { flags: "woken", maintenance: "0" });
    expect(await redis.client.exists(keys().dead, keys().jobs, keys().failures)).toBe(0);
  });

  it("lets a job that was deleted meanwhile end, and does not bring it back", async () => {
    await addSome(a, b);
    await run(1, { count: 2 });
    await redis.client.hdel(keys().jobs, a, b);
    const others = [
      [takeId(1) + a, "retry=5", "1\t0\t{}"],
      [takeId(1) + b, "dead", "1\t0\t{}"],
    ];
    expect(await run(2, { others, flags: "look" })).toMatchObject({ nextDue: Infinity, nextEnd: Infinity });
    expect(await redis.client.exists(keys().delayed, keys().dead, keys().failures)).toBe(0);
  });

  it("reports reclaimed jobs that are dead now, or gone", async () => {
    await addSome(a, b);
    await run(1, { count: 2 });
    const [first, second] = [takeId(1) + a, takeId(1) + b];
    await redis.client.hdel(keys().jobs, b);
    await redis.client.hset(keys().failures, a, `0\t1 ${takeId(1)}\t`);
    for (const member of [first, second]) await expire(member);
    const { reclaimed } = await run(2, { flags: "look" });
    expect(reclaimed).toEqual([
      { member: first, crashes: 2, isDead: true, isGone: false },
      { member: second, crashes: 0, isDead: false, isGone: true },
    ]);
  });

  it("answers a repeat with the jobs that the call took, and takes nothing more", async () => {
    await addSome(a, b, c);
    await redis.client.zadd(keys().prioritised, 2 ** 33, "own");
    await redis.client.hset(keys().jobs, "own", "k1 job  p1\n1");
    await redis.client.hset(keys().failures, a, "1\t0\t{}");
    const first = await run(1, { count: 1, maintenance: "3" });
    expect(first).toMatchObject({ entries: [a], records: ["1\t0\t{}"] });
    expect(await run(1, { count: 4, maintenance: "3" })).toMatchObject({
      blobs: first.blobs,
      entries: [a],
      records: first.records,
    });
    expect(await redis.client.zrange(keys().leases, "0", "-1")).toEqual([takeId(1) + a]);
    expect(await redis.client.hget(keys().meta, "completed")).toBe("3");
    const second = await run(2, { count: 9 });
    expect(second.entries).toEqual([b, c, "!1!own"]);
    await run(3, { done: [takeId(2) + b] });
    expect((await run(2, { count: 9 })).entries).toEqual([c, "!1!own"]);
    // The copy of an earlier call.
    await redis.client.rpush(keys().waiting, b);
    await redis.client.hset(keys().jobs, b, `k1 job\n"${b}"`);
    expect(await run(1, { count: 9 })).toMatchObject({ entries: [], blobs: [] });
  });

  it("renews the leases of a take that is repeated, since its worker counts them from the reply", async () => {
    await addSome(a, b);
    await run(1, { count: 2 });
    await run(2, { done: [takeId(1) + a] });
    await redis.client.zadd(keys().leases, 5, takeId(1) + b);
    const { entries, nowMicros } = await run(1, { count: 2 });
    expect(entries).toEqual([b]);
    const leases = await redis.client.zrange(keys().leases, "0", "-1", "WITHSCORES");
    expect(leases).toEqual([takeId(1) + b, String(Math.floor(nowMicros / 1_000) + 60_000)]);
  });

  it("takes ahead only while no worker is idle, and wakes one if it leaves jobs", async () => {
    await addSome(a, b, c);
    await redis.client.del(keys().wake);
    expect(await run(1, { count: 3, sure: 1 })).toMatchObject({ entries: [a], isMore: true });
    expect(await redis.client.zrange(keys().wake, "0", "-1")).toEqual(["job"]);
    // The marker is still there: nobody waits.
    expect(await run(2, { count: 2, sure: 0 })).toMatchObject({ entries: [b, c], isMore: false });
    await redis.client.del(keys().wake);
    expect(await run(3, { count: 2, sure: 0 })).toMatchObject({ entries: [], isMore: false });
    expect(await redis.client.exists(keys().wake)).toBe(0);
  });

  it("changes no limit again, when a copy comes late, that was changed by a later request", async () => {
    const facts = (): Promise<Record<string, string>> => redis.client.hgetall(keys().limits);
    const first = { paused: "0", concurrency: "5", rate: "1 1000 1", names: "job 2 0", askedAt: await limitsOnce({}) };
    expect(await limitsOnce(first)).toBe("1");
    await limits({ paused: "1", concurrency: "0", names: "job - 1\nother 3 0" });
    const after = await facts();
    expect(after).toMatchObject({
      paused: expect.any(String),
      names: expect.stringMatching(/^\njob 2 \d{13}\nother 3 0$/),
    });
    expect(await limitsOnce(first)).toBe("1");
    expect(await facts()).toEqual(after);
    const old = String(Number(first.askedAt) - 61_000_000);
    expect(await limitsOnce({ rate: "0", askedAt: old })).toBe("late");
    expect(await facts()).toEqual(after);
    await limits({ paused: "0", rate: "0", names: "job 0 0\nother 0 0" });
    expect(await redis.client.exists(keys().limits)).toBe(0);
  });

  it("takes nothing while the queue is paused, and nothing for the repeat of such a call", async () => {
    await addSome(a, b);
    await redis.client.hset(keys().failures, a, "1\t0\t{}");
    await limits({ paused: "1" });
    await redis.client.del(keys().wake);
    expect(await run(1, { count: 1, flags: "woken look" })).toMatchObject({ entries: [], isMore: false });
    // Otherwise the worker would wake itself again and again.
    expect(await redis.client.exists(keys().wake)).toBe(0);
    await limits({ paused: "0" });
    expect(await redis.client.zrange(keys().wake, "0", "-1")).toEqual(["job"]);
    expect(await redis.client.exists(keys().limits)).toBe(0);
    expect(await run(1, { count: 1, flags: "woken look" })).toMatchObject({ entries: [] });
    expect(await run(2, { count: 1 })).toMatchObject({ entries: [a], records: ["1\t0\t{}"] });
    await redis.client.set(keys().limits, "spoilt", "EX", 60);
    expect(await rejection(run(3, { count: 1 }))).toMatchObject({ code: "KIT_KEY_TYPE" });
    expect(await redis.client.zrange(keys().leases, "0", "-1")).toEqual([takeId(2) + a]);
  });

  it("keeps to the concurrency of the queue, counts what it ends itself once, and wakes a worker for a free slot", async () => {
    const change = (concurrency: string): Promise<unknown> => limits({ concurrency });
    await addSome(a, b, c);
    await change("2");
    // Nothing is taken ahead, though no worker is idle.
    expect(await run(1, { count: 3, sure: 1 })).toMatchObject({ entries: [a], isMore: false, nextStart: Infinity });
    expect(await isWoken()).toBe(true);
    expect(await run(2, { count: 3 })).toMatchObject({ entries: [b] });
    expect(await isWoken()).toBe(false);
    expect(await run(3, { count: 3, flags: "woken look" })).toMatchObject({ entries: [] });
    expect(await isWoken()).toBe(false);
    await run(4, { done: [takeId(1) + a] });
    expect(await isWoken()).toBe(true);
    await change("1");
    // The first one is a repeat.
    expect(await run(5, { count: 1, done: [takeId(1) + a] })).toMatchObject({ entries: [] });
    await expire(takeId(2) + b);
    expect(await run(6, { count: 9, flags: "look" })).toMatchObject({ entries: [b], promoted: 1 });
    expect(await run(7, { count: 1, done: [takeId(6) + b] })).toMatchObject({ entries: [c] });
    await change("0");
    expect(await run(8, {})).toMatchObject({ nextStart: undefined });
    expect(await redis.client.exists(keys().limits)).toBe(0);
  });

  it("lets no further job start when its rate is changed, and starts the first one with a full bucket", async () => {
    const fullAt = (): Promise<string | null> => redis.client.hget(keys().limits, "fullAt");
    await addSome(a, b, c);
    await limits({ rate: "1 2000000 1" });
    expect((await run(1, { count: 1 })).entries).toEqual([a]);
    const before = await fullAt();
    await limits({ rate: "1 2000000 1" });
    expect([await fullAt(), (await run(2, { count: 1 })).entries]).toEqual([before, []]);
    for (const [n, rate] of ["2 2000000 2", "1 1000000 1", "1 2000000 1000"].entries()) {
      await limits({ rate });
      expect((await run(3 + n, { count: 1 })).entries).toEqual([]);
    }
  });

  it("keeps the rest of a changed rate, if it fits", async () => {
    await addSome(a, b, c);
    await limits({ rate: "10 20000000 3" });
    expect((await run(1, { count: 1 })).entries).toEqual([a]);
    await limits({ rate: "20 20000000 9" });
    await limits({ rate: "10 20000000 1" });
    await limits({ rate: "10 20000000 9" });
    expect((await run(2, { count: 2 })).entries).toEqual([b]);
  });

  it("gives a job that ends without having started back to the rate, once", async () => {
    await addSome(a, b, c);
    await limits({ rate: "1 2000000 1" });
    await run(1, { count: 1 });
    for (let n = 0; n < 2; n++) await run(2, { others: [[takeId(1) + a, "expired unbegun", ""]] });
    expect((await run(3, { count: 2 })).entries).toEqual([b]);
    await run(4, { others: [[takeId(3) + b, "retry=60000 unbegun", "1\t0\t{}"]] });
    expect((await run(5, { count: 2 })).entries).toEqual([c]);
    await run(6, { others: [[takeId(5) + c, "retry=0", "1\t0\t{}"]] });
    expect((await run(7, { count: 2 })).entries).toEqual([]);
  });

  it("keeps to the rate of the queue, replies when the next job may start, and does not count jobs that went back", async () => {
    await addSome(a, b, c);
    // One per 1,000 s, and two at once.
    await limits({ rate: "2 2000000 2" });
    expect(await run(1, { count: 1 })).toMatchObject({ entries: [a], nextStart: Infinity });
    const second = await run(2, { count: 3 });
    expect(second.entries).toEqual([b]);
    expect(second.nextStart! - second.nowMicros / 1_000).toBeGreaterThan(900_000);
    expect(second.nextStart! - second.nowMicros / 1_000).toBeLessThanOrEqual(1_000_001);
    // A repeat counts once.
    expect(await run(2, { count: 3 })).toMatchObject({ entries: [b] });
    await isWoken();
    expect(await run(3, { count: 3, flags: "woken look" })).toMatchObject({ entries: [], nextStart: second.nextStart });
    expect(await isWoken()).toBe(false);
    const back = { members: takeId(2) + b, after: "", begun: "" };
    for (let n = 0; n < 2; n++) await handBack.run(redis.client, keys(), { ...back, limited: "1" });
    expect((await run(4, { count: 3 })).entries).toEqual([b]);
    expect(await undo(4)).toBe(1);
    expect(await undo(4)).toBe(0);
    expect((await run(5, { count: 3 })).entries).toEqual([b]);
    await handBack.run(redis.client, keys(), { members: takeId(5) + b, after: "", limited: "", begun: "" });
    expect((await run(6, { count: 3 })).entries).toEqual([]);
    await limits({ rate: "2 2000000 2" });
    expect((await run(7, { count: 3 })).entries).toEqual([]);
    await limits({ rate: "0" });
    expect(await redis.client.exists(keys().limits)).toBe(0);
    expect(await run(9, { count: 3 })).toMatchObject({ entries: [b, c], nextStart: undefined });
  });

  it("moves 100 jobs of stopped names per step, wakes a worker to continue, and takes the first job after them", async () => {
    await limits({ names: "job - 1" });
    const stopped = Array.from({ length: 250 }, (_, n) => `AAAAAAAAA.${String(1_000 + n)}`);
    await addSome(...stopped, c);
    await redis.client.hset(keys().jobs, c, "k1 other\n1");
    for (const n of [1, 2]) {
      await isWoken();
      expect(await run(n, { count: 1, flags: "woken look" })).toMatchObject({ entries: [], nextStart: Infinity });
      expect(await redis.client.zcard(keys().suspended)).toBe(100 * n);
      expect(await isWoken()).toBe(true);
    }
    expect(await run(3, { count: 1, flags: "woken look" })).toMatchObject({ entries: [c] });
    expect(await redis.client.zcard(keys().suspended)).toBe(250);
    expect(await isWoken()).toBe(false);
    expect(await run(4, { count: 1, flags: "woken look" })).toMatchObject({ entries: [] });
    // The first ones come back, and others wake the next worker, whoever ended the pause.
    await redis.client.del(keys().limits);
    expect((await run(5, { count: 3, flags: "woken look" })).entries).toEqual(stopped.slice(0, 3));
    expect(await isWoken()).toBe(true);
    // Such a job may have got another name, which is stopped, too.
    await limits({ names: "third - 1" });
    await redis.client.hset(keys().jobs, stopped[3]!, "k1 third\n1");
    expect((await run(6, { count: 1 })).entries).toEqual([stopped[4]]);
    expect(await redis.client.zrange(keys().suspended, "0", "-1")).toContain(
      `third 10485761000000000000251 ${stopped[3]!}`,
    );
    await redis.client.hdel(keys().jobs, stopped[5]!);
    expect((await run(7, { count: 2 })).entries).toEqual([stopped[6]]);
    expect(await redis.client.zcard(keys().leases)).toBe(6);
    expect(await redis.client.zcard(keys().suspended)).toBe(250 - 6);
  });

  it("counts the active jobs of a name, and leaves no trace of those that ended", async () => {
    await limits({ names: "job 1 0" });
    await addSome(a, b, c);
    expect(await run(1, { count: 3 })).toMatchObject({ entries: [a] });
    expect(await redis.client.zrange(keys().named, "0", "-1")).toEqual([`job ${takeId(1)}${a}`]);
    // The same step ends the one and begins the next.
    expect((await run(2, { count: 3, done: [takeId(1) + a] })).entries).toEqual([b]);
    expect(await redis.client.zrange(keys().named, "0", "-1")).toEqual([`job ${takeId(2)}${b}`]);
    await isWoken();
    expect((await run(3, { done: [takeId(2) + b] })).entries).toEqual([]);
    expect(await redis.client.exists(keys().named)).toBe(0);
    expect(await isWoken()).toBe(true);
    // A deleted index lets further jobs begin, and heals.
    await run(4, { count: 1 });
    await redis.client.del(keys().named);
    await addMore("AAAAAAAAA.0004", "AAAAAAAAA.0005");
    expect((await run(5, { count: 9 })).entries).toEqual(["AAAAAAAAA.0004"]);
    expect((await run(6, { count: 9, done: [takeId(5) + "AAAAAAAAA.0004"] })).entries).toEqual(["AAAAAAAAA.0005"]);
  });

  it("finds with its next looks that leases of a name were deleted manually", async () => {
    await limits({ names: "active 60 0\njob 1 0" });
    await addSome(a, b);
    await run(1, { count: 1 });
    // A look reads one of the two parts of the index. In the first one all are active.
    const others = Array.from({ length: 60 }, (_, n) => `worker000000${String(n)}`);
    await redis.client.zadd(keys().named, ...others.flatMap((member) => [0, `active ${member}`]));
    await redis.client.del(keys().leases);
    await redis.client.zadd(keys().leases, ...others.flatMap((member) => [1e15, member]));
    expect(await run(2, { count: 1 })).toMatchObject({ entries: [] });
    let n = 2;
    while ((await run(++n, { count: 1, flags: "look" })).entries.length === 0);
    const members = await redis.client.zrange(keys().named, "0", "-1");
    expect(members.filter((member) => !member.startsWith("active"))).toEqual([`job ${takeId(n)}${b}`]);
    expect(members).toHaveLength(61);
  });

  it("counts a job once that it ends and whose lease is gone", async () => {
    await limits({ names: "job 2 0" });
    await addSome(a, b, c);
    await addMore("AAAAAAAAA.0004");
    await run(1, { count: 2 });
    await redis.client.zrem(keys().leases, takeId(1) + a);
    expect(await run(2, { count: 2, done: [takeId(1) + a], flags: "look" })).toMatchObject({ entries: [c] });
  });

  it("forgets the active jobs of a name with its limits", async () => {
    await limits({ names: "job 2 0\nother 1 0" });
    await addSome(a, b);
    await redis.client.hset(keys().jobs, b, "k1 other\n1");
    await run(1, { count: 2 });
    await limits({ names: "job 0 1" });
    expect(await redis.client.zcard(keys().named)).toBe(2);
    await limits({ names: "job 0 0" });
    expect(await redis.client.zrange(keys().named, "0", "-1")).toEqual([`other ${takeId(1)}${b}`]);
    await limits({ names: "other 0 -" });
    expect(await redis.client.exists(keys().named, keys().limits)).toBe(0);
  });

  it("hands back jobs that have started so that they do not expire, and leaves no record of one whose lease is gone", async () => {
    await addSome(a, b);
    expect((await run(1, { count: 1 })).entries).toEqual([a]);
    const members = [takeId(1) + a, takeId(1) + b].join("\n");
    const back = { members, after: "", limited: "", begun: [a, b].join("\n") };
    expect(await handBack.run(redis.client, keys(), back)).toBe(1);
    expect(await redis.client.hgetall(keys().failures)).toEqual({ [a]: "0\t0\t" });
  });

  it("lets as many jobs start as a model of the rate does", async () => {
    // One per 2 ms.
    const [pieceMicros, burst] = [2_000, 7];
    await limits({ rate: `500 1000 ${String(burst)}` });
    const ids = Array.from({ length: 400 }, (_, n) => `AAAAAAAAA.${String(n).padStart(4, "0")}`);
    await addSome(...ids);
    let [fullAt, began, n] = [0, 0, 0];
    while (began < 150) {
      const wanted = Math.floor(Math.random() * 12);
      const { entries, nowMicros } = await run(++n, { count: wanted });
      const missing = Math.max(0, fullAt - nowMicros);
      const allowed = Math.floor((burst * pieceMicros - missing) / pieceMicros);
      expect(entries).toHaveLength(Math.min(wanted, allowed));
      if (entries.length > 0) fullAt = nowMicros + missing + entries.length * pieceMicros;
      began += entries.length;
    }
  });

  it("holds all jobs for as long as a handler wants, and puts its job to the front", async () => {
    await addSome(a, b);
    await run(1, { count: 2 });
    await isWoken();
    const { nextStart, nowMicros } = await run(2, { count: 2, others: [[takeId(1) + a, "hold=60000", "0\t0\t{}\t1"]] });
    expect(nextStart! - Math.floor(nowMicros / 1_000)).toBe(60_000);
    expect(await isWoken()).toBe(true);
    // The shorter wait of another job does not end it.
    await run(3, { others: [[takeId(1) + b, "hold=1", "0\t0\t{}\t1"]] });
    await isWoken();
    expect(await run(4, { count: 2, flags: "woken look" })).toMatchObject({ entries: [], nextStart });
    expect(await isWoken()).toBe(false);
    await redis.client.hset(keys().limits, "heldUntil", 1);
    expect(await run(5, { count: 2 })).toMatchObject({ entries: [b, a] });
    expect(await redis.client.exists(keys().limits)).toBe(0);
  });

  it("takes nothing for the repeat of a call that found the queue idle, once there are jobs", async () => {
    expect(await run(1, { count: 1, flags: "woken" })).toMatchObject({ entries: [], nowMicros: 0 });
    await addSome(a);
    expect(await run(1, { count: 1, flags: "woken" })).toMatchObject({ entries: [] });
    expect(await run(2, { count: 1, flags: "woken" })).toMatchObject({ entries: [a] });
    await redis.client.del(...Object.values(keys()));
    const { nowMicros } = await run(3, { count: 1, flags: "woken time" });
    expect(nowMicros / 1_000).toBeCloseTo(Date.now(), -4);
  });

  it("returns a lost take to the front in its order, without a look at other leases", async () => {
    const ids = ["own b", "own a", a];
    await redis.client.rpush(keys().waiting, ...ids, b, c);
    for (const id of [...ids, b, c]) await redis.client.hset(keys().jobs, id, `k1 job\n"${id}"`);
    await run(1, { count: 3 });
    await run(2, { done: [], others: [[`${takeId(1)}own a`, "done"]] });
    expect(await undo(1)).toBe(2);
    expect(await redis.client.lrange(keys().waiting, 0, -1)).toEqual(["own b", a, b, c]);
    expect(await undo(1)).toBe(0);
    const args = { leaseMs: 60_000, members: takeId(1) + a, record: "" };
    expect(await heartbeat.run(redis.client, keys(), args)).toMatchObject({ lost: [takeId(1) + a] });
    expect(await begin.run(redis.client, keys(), { member: takeId(1) + a })).toBe(false);
  });

  it("takes nothing for a call that arrives after its take was undone", async () => {
    await addSome(a);
    expect(await undo(1)).toBe(0);
    expect(await run(1, { count: 1 })).toMatchObject({ entries: [] });
    expect(await redis.client.exists(keys().revoked)).toBe(0);
    expect(await run(2, { count: 1 })).toMatchObject({ entries: [a] });
  });
});
