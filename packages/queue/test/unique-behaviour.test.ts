import { eventually, useRedis } from "@kit/testing";
import { inModes, onMovingSlots, rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { type AddedOnce, type AddOptions, type Queue, type Unique, UnrecoverableError } from "../src/index.js";
import { answeredKey, keyHead, takenKey } from "../src/job/keys.js";
import {
  cancelJob,
  drainQueue,
  editJob,
  inspectJob,
  inspectQueue,
  promoteJob,
  removeJob,
} from "../src/manage/index.js";
import * as looks from "../src/manage/scripts.js";
import * as scripts from "../src/store/scripts/index.js";
import { fixtureOf, latch, name, permanentKeys, Runs } from "./harness.js";

/** Jobs of which there is at most one of a key, on one server or on a Cluster. */
inModes({}, (mode) => {
  describe(`a unique job on a ${mode === "cluster" ? "Cluster" : "single server"}`, () => {
    const redis = useRedis(vitest, { mode, permanentKeys });
    onMovingSlots(redis, { ...looks, ...scripts });
    const fixture = fixtureOf(redis);
    const { make, work } = fixture;
    const address = {
      queue: name,
      get prefix() {
        return redis.prefix;
      },
    };
    const key = "user 7";
    const later = { delayMs: 600_000 };
    const adding =
      (queue: Queue, unique: Partial<Unique> = {}) =>
      (data: unknown, options: AddOptions = {}): Promise<AddedOnce> =>
        queue.addOnce("job", data, { ...options, unique: { key, ...unique } });
    const inPlace = (counts: object): Promise<void> =>
      eventually(async () => expect(await fixture.counts()).toMatchObject(counts));

    /** Ends all leases, and lets another worker find that. Repeated, since a heartbeat may come between. */
    const crash = async (): Promise<void> => {
      const takeId = "other00" + "00000";
      const keys = { ...fixture.keysOf(), taken: takenKey(keyHead(redis.prefix, name), takeId), replies: [] };
      const taken = { takeId, count: 0, sure: 0, room: "", leaseMs: 60_000, maintenance: "", done: "", others: [] };
      await eventually(async () => {
        await fixture.expireLeases();
        await scripts.step.run(redis.client, keys, { ...taken, flags: "look", bounds: "1 10000 1209600000 67108864" });
        expect((await fixture.counts()).leases).toBe(0);
      });
    };

    /** A worker whose handler stays in each job until it is let go. */
    const holding = (queue: Queue, options = {}): { runs: Runs; free: () => void; fail: () => void } => {
      const runs = new Runs();
      const ends: ((error?: Error) => void)[] = [];
      redis.defer(() => ends.forEach((end) => end()));
      const handler = (job: Parameters<Runs["handler"]>[0]): Promise<void> =>
        new Promise((resolve, reject) => {
          runs.handler(job);
          ends.push((error) => (error ? reject(error) : resolve()));
        });
      work(queue, handler, options);
      return { runs, free: () => ends.shift()?.(), fail: () => ends.shift()?.(new UnrecoverableError("no")) };
    };

    it("is added once by a hundred adds of three processes at a time, in any mode", async () => {
      for (const unique of [{}, { ttlMs: 600_000 }, { mode: "keepLast" }] satisfies Partial<Unique>[]) {
        const own = { key: JSON.stringify(unique), ...unique };
        const queues = [make(), make(), make()];
        const all = Array.from({ length: 99 }, (_, n) => queues[n % 3]!.addOnce("job", n, { unique: own }));
        const added = await Promise.all(all);
        expect(added.filter(({ isAdded }) => isAdded)).toHaveLength(1);
        expect(new Set(added.map(({ id }) => id)).size).toBe(1);
        expect(await queues[0]!.add("job", 100, { unique: own })).toBe(added[0]!.id);
        expect(await queues[0]!.addAll([1, 2].map((data) => ({ name: "job", data, unique: own })))).toEqual([
          added[0]!.id,
          added[0]!.id,
        ]);
      }
      expect(await fixture.counts()).toMatchObject({ jobs: 3, waiting: 3 });
    });

    it("has its key while it is delayed, ready, active or waits for its next attempt, and frees it when it is done", async () => {
      const queue = make({ maxAttempts: 2, backoff: { firstMs: 600_000, jitter: 0 } });
      const add = adding(queue);
      const { id } = await add("first", later);
      expect(await add("no")).toEqual({ id, isAdded: false, state: "delayed" });
      await promoteJob(redis.client, address, id);
      expect(await add("no")).toEqual({ id, isAdded: false, state: "ready" });
      let isBroken = true;
      const [runs, held] = [new Runs(), latch()];
      redis.defer(held.open);
      work(queue, async (job) => {
        runs.handler(job);
        await held.promise;
        if (isBroken) throw new Error("broken");
      });
      await runs.until(1);
      expect(await add("no")).toEqual({ id, isAdded: false, state: "active" });
      held.open();
      await inPlace({ delayed: 1, leases: 0 });
      expect(await add("no")).toEqual({ id, isAdded: false, state: "delayed" });
      isBroken = false;
      await promoteJob(redis.client, address, id);
      await runs.until(2);
      await fixture.untilEmpty();
      const next = await add("second");
      expect([next.isAdded, next.id === id]).toEqual([true, false]);
      await runs.until(3);
      expect(runs.data).toEqual(["first", "first", "second"]);
    });

    it("frees its key when it is removed, dies, or dies by its crashes; the letter keeps its id and data", async () => {
      const queue = make();
      for (const unique of [{}, { mode: "keepLast" }, { ttlMs: 600_000 }] satisfies Partial<Unique>[]) {
        const add = adding(queue, { ...unique, key: JSON.stringify(unique) });
        const removed = await add("removed", later);
        expect(await removeJob(redis.client, address, removed.id)).toBe("removed");
        const tooEarly = { id: removed.id, isAdded: false, state: "ended" };
        expect(await add("after", later)).toMatchObject(unique.ttlMs ? tooEarly : { isAdded: true });
      }
      const { runs, fail, free } = holding(queue, { maxCrashes: 1, strict: true });
      for (const ttlMs of [undefined, 600_000]) {
        const add = adding(queue, { key: String(ttlMs), ttlMs });
        const failed = await add("fails");
        await runs.until(ttlMs ? 3 : 1);
        fail();
        await inPlace({ dead: ttlMs ? 3 : 1, leases: 0 });
        const crashed = await add("crashes");
        expect(crashed.isAdded).toBe(true);
        await runs.until(ttlMs ? 4 : 2);
        await crash();
        free();
        await inPlace({ dead: ttlMs ? 4 : 2, leases: 0 });
        expect((await queue.deadLetters()).slice(0, 2).map(({ id, data }) => [id, data])).toEqual([
          [crashed.id, "crashes"],
          [failed.id, "fails"],
        ]);
        expect(await add("after", later)).toMatchObject({ isAdded: true });
      }
    });

    it("keeps its key for a time, though it is done, which further adds start again if they are to", async () => {
      const queue = make();
      const { unique } = fixture.keysOf();
      const endOf = async (): Promise<number> => Number((await fixture.db.hget(unique, key))!.split(" ")[1]);
      const add = adding(queue, { ttlMs: 600_000 });
      const extending = adding(queue, { ttlMs: 1_200_000, extend: true });
      const runs = new Runs();
      work(queue, runs.handler);
      const { id } = await add("first");
      await fixture.untilEmpty();
      const end = await endOf();
      const ended = { id, isAdded: false, state: "ended" };
      expect([await add("no"), await endOf()]).toEqual([ended, end]);
      expect(await extending("no")).toEqual(ended);
      expect(await endOf()).toBeGreaterThan(end + 500_000);
      // The time is over.
      await fixture.db.hset(unique, key, `${id} 1 `);
      expect(await add("second")).toMatchObject({ isAdded: true });
      await runs.until(2);
      expect(runs.data).toEqual(["first", "second"]);
    });

    it("with the mode keepLast gets the data and due time of the last add until it starts", async () => {
      const queue = make();
      const add = adding(queue, { mode: "keepLast" });
      const { id } = await add("first", { ...later, priority: 3, maxAttempts: 9 });
      const replaced = { id, isAdded: false, state: "delayed", isReplaced: true };
      const { at } = await inspectJob(redis.client, address, id);
      expect(await add("second", { delayMs: 1_200_000, priority: -3 })).toEqual(replaced);
      const moved = await inspectJob(redis.client, address, id, { withData: true });
      expect(moved).toMatchObject({ state: "delayed", priority: 3, maxAttempts: 1, uniqueKey: key, data: "second" });
      expect(Date.parse(moved.at!)).toBeGreaterThan(Date.parse(at!) + 300_000);
      // Several in one call.
      const several = await Promise.all([add("third", later), add("fourth"), add("fifth", later)]);
      expect(several).toEqual([replaced, replaced, replaced]);
      const runs = new Runs();
      const { promise, open } = latch();
      redis.defer(open);
      work(queue, (job) => (runs.handler(job), promise), { strict: true });
      await queue.add("job", "other");
      await runs.until(1);
      expect(await add("sixth")).toEqual(replaced);
      await promoteJob(redis.client, address, id);
      expect(await add("seventh", later)).toEqual({ ...replaced, state: "ready" });
      open();
      await fixture.untilEmpty();
      expect(runs.data).toEqual(["other", "seventh"]);
      expect(runs.jobs[1]).toMatchObject({ id, priority: 3 });
    });

    it("with the mode keepLast keeps the due time and the attempts of a job that is retried", async () => {
      const queue = make({ maxAttempts: 2, backoff: { firstMs: 600_000, jitter: 0 } });
      const add = adding(queue, { mode: "keepLast" });
      const runs = new Runs();
      work(queue, (job) => {
        runs.handler(job);
        if (job.attempt === 1) throw new Error("broken");
      });
      const { id } = await add("first");
      await inPlace({ delayed: 1, leases: 0 });
      const { at } = await inspectJob(redis.client, address, id);
      expect(await add("second", { maxAttempts: 2 })).toEqual({
        id,
        isAdded: false,
        state: "delayed",
        isReplaced: true,
      });
      expect(await inspectJob(redis.client, address, id)).toMatchObject({ state: "delayed", at, attempts: 1 });
      await promoteJob(redis.client, address, id);
      await fixture.untilEmpty();
      expect(runs.data).toEqual(["first", "second"]);
      expect(runs.jobs[1]).toMatchObject({ id, attempt: 2 });
    });

    it.each(["done", "dead", "dead by a crash", "cancelled"])(
      "with the mode keepLast runs again, with the latest data, when the active one is %s",
      async (how) => {
        const queue = make();
        const add = adding(queue, { mode: "keepLast" });
        const { runs, free, fail } = holding(queue, { maxCrashes: 1, concurrency: 2, strict: true });
        const first = await add("first");
        await runs.until(1);
        const second = await add("second", { priority: 1 });
        expect(second.isAdded).toBe(true);
        const replaced = { id: second.id, isAdded: false, state: "delayed", isReplaced: true };
        expect(await add("third")).toEqual(replaced);
        expect(await add("fourth", { priority: -1 })).toEqual(replaced);
        // Not before: the worker has a free handler.
        await queue.add("job", "other");
        await runs.until(2);
        expect(runs.data).toEqual(["first", "other"]);
        expect(await inspectJob(redis.client, address, second.id)).toMatchObject({ state: "delayed", at: null });
        expect(await inspectQueue(redis.client, address)).toMatchObject({ delayed: 1, nextDue: null });
        if (how === "done") free();
        else if (how === "dead") fail();
        else if (how === "cancelled") {
          await cancelJob(redis.client, address, first.id);
          free();
        } else {
          await crash();
          free();
          free();
        }
        await runs.until(3);
        expect(runs.jobs[2]).toMatchObject({ id: second.id, data: "fourth", priority: 1 });
        const next = await add("fifth");
        expect(next).toMatchObject({ isAdded: true });
        expect(await add("sixth")).toMatchObject({ id: next.id, isReplaced: true });
        for (let n = 0; n < 3; n++) free();
        await runs.until(4);
        expect(runs.jobs[3]).toMatchObject({ id: next.id, data: "sixth" });
        expect(first.id).not.toBe(next.id);
        free();
        await fixture.untilEmpty();
      },
    );

    it("with the mode keepLast waits for its own due time after the active job, or starts immediately when that job is removed", async () => {
      const queue = make();
      const add = adding(queue, { mode: "keepLast" });
      const { runs, free } = holding(queue, { strict: true });
      await add("first");
      await runs.until(1);
      const second = await add("second", later);
      free();
      await inPlace({ leases: 0, delayed: 1 });
      await eventually(async () => expect((await inspectJob(redis.client, address, second.id)).at).not.toBeNull());
      await promoteJob(redis.client, address, second.id);
      await runs.until(2);
      const third = await add("third");
      // As after a crash of its worker, while it waits for the next attempt.
      await fixture.db.zrem(fixture.keysOf().leases, ...(await fixture.db.zrange(fixture.keysOf().leases, "0", "-1")));
      await fixture.db.zadd(fixture.keysOf().delayed, Date.now() + 600_000, second.id);
      expect(await removeJob(redis.client, address, second.id)).toBe("removed");
      free();
      await runs.until(3);
      expect(runs.jobs[2]).toMatchObject({ id: third.id, data: "third" });
      free();
      await fixture.untilEmpty();
    });

    it("is added after the active job again when its successor was removed; and immediately when its worker woke no successor", async () => {
      const queue = make();
      const add = adding(queue, { mode: "keepLast" });
      const { runs, free } = holding(queue, { concurrency: 2, strict: true });
      const first = await add("first");
      await runs.until(1);
      expect(await removeJob(redis.client, address, (await add("second")).id)).toBe("removed");
      const third = await add("third");
      expect(await inspectJob(redis.client, address, third.id)).toMatchObject({ state: "delayed", at: null });
      expect(await adding(queue)("no")).toEqual({ id: third.id, isAdded: false, state: "delayed" });
      // As an older worker leaves it.
      await fixture.db.hdel(fixture.keysOf().jobs, first.id);
      expect(await add("fourth")).toMatchObject({ id: third.id, isReplaced: true });
      await runs.until(2);
      expect(runs.jobs[1]).toMatchObject({ id: third.id, data: "fourth" });
      free();
      free();
      await fixture.untilEmpty();
    });

    it("keeps its key and its successor when it is edited, and its place after the active job when it is rescheduled", async () => {
      const queue = make();
      const add = adding(queue, { mode: "keepLast" });
      const { runs, free } = holding(queue, { concurrency: 3, strict: true });
      const edited = await add("first", later);
      expect(await editJob(redis.client, address, edited.id, { maxAttempts: 3 })).toBe("edited");
      expect(await inspectJob(redis.client, address, edited.id)).toMatchObject({ uniqueKey: key, maxAttempts: 3 });
      await promoteJob(redis.client, address, edited.id);
      await runs.until(1);
      const second = await add("second");
      expect(await editJob(redis.client, address, second.id, { data: "edited" })).toBe("edited");
      expect(await promoteJob(redis.client, address, second.id)).toBe("delayed");
      await queue.add("job", "other");
      await runs.until(2);
      expect(runs.data).toEqual(["first", "other"]);
      free();
      await runs.until(3);
      expect(runs.jobs[2]).toMatchObject({ id: second.id, data: "edited" });
      free();
      free();
      await fixture.untilEmpty();
    });

    it("is cancelled, and never said to be lost, while adds of its key replace it again and again", async () => {
      const queue = make();
      const add = adding(make(), { mode: "keepLast" });
      let isOver = false;
      const storm = async (): Promise<void> => {
        while (!isOver) await add("again", later);
      };
      const storms = [storm(), storm()];
      const outcomes: string[] = [];
      for (let round = 0; round < 60; round++) {
        const { id } = await adding(queue, { mode: "keepLast" })("mine", later);
        outcomes.push(await cancelJob(redis.client, address, id));
      }
      isOver = true;
      await Promise.all(storms);
      expect(outcomes.filter((outcome) => outcome !== "removed")).toEqual([]);
    });

    it("does not expire while it waits for the end of the active one", async () => {
      const queue = make();
      const add = adding(queue, { mode: "keepLast" });
      const { runs, free } = holding(queue, { strict: true });
      await add("first");
      await runs.until(1);
      const { id } = await add("second", { expiresMs: 600_000 });
      const { jobs } = fixture.keysOf();
      await fixture.age(id);
      const [seconds, micros] = (await (await fixture.nodeOf()).call("TIME")) as [string, string];
      free();
      await runs.until(2);
      expect(runs.data).toEqual(["first", "second"]);
      const from = / e600000@(\d+)/.exec((await fixture.db.hget(jobs, id))!)?.[1];
      expect(Number(from)).toBeGreaterThanOrEqual(Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000));
      free();
      await fixture.untilEmpty();
    });

    it("is replaced in its place when it has expired and no worker has it; so is a job with the caller's id", async () => {
      const queue = make({ maxAttempts: 2, backoff: { firstMs: 600_000, jitter: 0 } });
      const own = (data: unknown, options: Pick<AddOptions, "expiresMs">): Promise<AddedOnce> =>
        queue.addOnce("job", data, { id: "own", priority: 3, ...options });
      const old = { expiresMs: 600_000 };
      for (const add of [adding(queue), own]) {
        const { id } = await add("old", old);
        await fixture.age(id);
        const added = { id, isAdded: true };
        expect([await add("fresh", old), await add("no", {})]).toEqual([added, { id, isAdded: false, state: "ready" }]);
        await fixture.age(id);
        // In one call.
        const several = [add("late", {}), add("no", {})];
        expect(await Promise.all(several)).toEqual([added, { id, isAdded: false, state: "ready" }]);
      }
      const ready = await adding(queue, { key: "ready" })("not again", old);
      const delayed = await adding(queue, { key: "delayed" })("old", { ...old, ...later });
      await queue.add("job", "old", { ...old, ...later, id: "own delayed" });
      await queue.add("job", "expires", { ...old, id: "own ready" });
      for (const id of [ready.id, delayed.id, "own delayed", "own ready"]) await fixture.age(id);
      // A job that is ready cannot become delayed without a search for it.
      expect(await adding(queue, { key: "ready" })("other", later)).toMatchObject({ isAdded: true });
      const refused = { id: "own ready", isAdded: false, state: "ready" };
      expect(await queue.addOnce("job", "no", { ...later, id: "own ready" })).toEqual(refused);
      expect(await adding(queue, { key: "delayed" })("renewed", later)).toEqual({ id: delayed.id, isAdded: true });
      await queue.add("job", "own renewed", { ...later, id: "own delayed" });
      const dues = await fixture.db.zmscore(fixture.keysOf().delayed, delayed.id, "own delayed");
      expect(Math.min(...dues.map(Number))).toBeGreaterThan(Date.now() + 500_000);
      for (const id of [delayed.id, "own delayed"]) await promoteJob(redis.client, address, id);
      const [runs, expired, held] = [new Runs(), [] as unknown[], latch()];
      redis.defer(held.open);
      const worker = work(queue, async (job) => {
        runs.handler(job);
        await held.promise;
        throw new Error("again");
      });
      worker.on("expired", ({ job }) => expired.push(job.data));
      await runs.until(1);
      const active = { id: runs.jobs[0]!.id, isAdded: false, state: "active" };
      await fixture.db.hset(fixture.keysOf().jobs, active.id, "k1 job ukey e1\n1");
      expect(await adding(queue)("no")).toEqual(active);
      held.open();
      await inPlace({ leases: 0, waiting: 0, prioritised: 0 });
      expect(await adding(queue)("no")).toEqual({ ...active, state: "delayed" });
      expect(runs.data.map(String).toSorted()).toEqual(["late", "late", "own renewed", "renewed"]);
      await eventually(() => expect(expired.map(String).toSorted()).toEqual(["expires", "not again"]));
    });

    it("lets its successor continue when it is drained while it waits for its next attempt", async () => {
      const queue = make({ maxAttempts: 2, backoff: { firstMs: 600_000, jitter: 0 } });
      const add = adding(queue, { mode: "keepLast" });
      const held = latch();
      redis.defer(held.open);
      const worker = work(queue, async () => {
        await held.promise;
        throw new Error("once");
      });
      const first = await add("first");
      await eventually(() => expect(worker.running).toBe(1));
      const second = await add("second", later);
      const failed = new Promise((resolve) => worker.once("failed", resolve));
      held.open();
      await failed;
      await worker.close();
      expect(await promoteJob(redis.client, address, first.id)).toBe("ready");
      expect(await inspectJob(redis.client, address, second.id)).toMatchObject({ state: "delayed", at: null });
      expect(await drainQueue(redis.client, address)).toBe(1);
      expect((await inspectJob(redis.client, address, second.id)).at).not.toBeNull();
      expect(await drainQueue(redis.client, address, { delayed: true })).toBe(1);
      expect(await fixture.counts()).toMatchObject({ jobs: 0, delayed: 0 });
    });

    it("with the mode keepLast is not added next to an active one of the mode keepFirst", async () => {
      const queue = make();
      const { runs } = holding(queue);
      const { id } = await adding(queue)("first");
      await runs.until(1);
      expect(await adding(queue, { mode: "keepLast" })("no")).toEqual({ id, isAdded: false, state: "active" });
    });

    it("gives an add that is made again with its op the answer of the first", async () => {
      const [queue, other] = [make(), make()];
      const opOfLast = async (id: string): Promise<string> => {
        const [producer, score] = await fixture.db.zrange(fixture.keysOf().producers, "-1", "-1", "WITHSCORES");
        return `${String(producer)}:${String(score)}:${id}`;
      };
      const { id } = await adding(queue)("first");
      const first = await opOfLast(id);
      const again = adding(other);
      const runs = new Runs();
      const worker = work(other, runs.handler);
      await runs.until(1);
      await fixture.untilEmpty();
      expect(await again("first", { op: first })).toEqual({ id, isAdded: true });
      // A call that did not arrive.
      const lost = `AAAAAAAAA:${String(Date.now())}:AAAAAAAAA.0000`;
      await worker.close();
      const added = { id: "AAAAAAAAA.0000", isAdded: true };
      expect([await again("second", { op: lost }), await again("second", { op: lost })]).toEqual([added, added]);
      const lostLast = lost.replace(".0000", ".0001");
      const replaced = await adding(other, { mode: "keepLast" })("third", { op: lostLast });
      expect(replaced).toEqual({ ...added, isAdded: false, state: "ready", isReplaced: true });
      const third = await opOfLast("AAAAAAAAA.0001");
      // The answer of a call that arrived, though the job of the key is done meanwhile.
      const last = work(other, runs.handler);
      await runs.until(2);
      await fixture.untilEmpty();
      await last.close();
      expect(runs.data).toEqual(["first", "third"]);
      expect(await adding(make(), { mode: "keepLast" })("third", { op: third })).toEqual(replaced);
      // So has a repeat whose own reply was lost: it added nothing, and its data has run.
      expect(await adding(make(), { mode: "keepLast" })("third", { op: lostLast })).toEqual(replaced);
      await fixture.db.del(answeredKey(keyHead(redis.prefix, name), first.slice(0, 9)));
      expect(await rejection(again("first", { op: first }))).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME" });
      expect(await fixture.counts()).toMatchObject({ jobs: 0 });
    });

    it("leaves no record of its key for long once keys of other jobs come", async () => {
      const queue = make();
      const worker = work(queue, () => undefined, { concurrency: 50 });
      for (let round = 0; round < 10; round++) {
        await Promise.all(
          Array.from({ length: 100 }, (_, n) =>
            queue.add("job", n, { unique: { key: `${String(round)} ${String(n)}` } }),
          ),
        );
        await fixture.untilEmpty();
      }
      await worker.close();
      expect(await fixture.db.hlen(fixture.keysOf().unique)).toBeLessThan(400);
    });
  });
});
