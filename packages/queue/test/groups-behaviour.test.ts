import { eventually, useRedis } from "@kit/testing";
import { guardUsers, inModes, onMovingSlots } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { addFlow, readChildren, WaitForChildren } from "../src/flows/index.js";
import * as adding from "../src/flows/scripts/index.js";
import { type Job, type Queue, RateLimitError, SnoozeError, type Worker, type WorkOptions } from "../src/index.js";
import {
  cancelGroup,
  cancelJob,
  cleanQueue,
  drainQueue,
  editJob,
  inspectJob,
  inspectQueue,
  listGroups,
  listJobs,
  pauseQueue,
  promoteJob,
  removeJob,
  repairQueue,
  rescheduleJob,
  resumeQueue,
  setLimits,
  setPriority,
} from "../src/manage/index.js";
import * as looks from "../src/manage/scripts.js";
import { grouped } from "../src/store/grouped/index.js";
import * as scripts from "../src/store/scripts/index.js";
import { user } from "./acl.js";
import { fixtureOf, latch, permanentKeys } from "./harness.js";

/** What the handlers of a test see and decide. */
interface Stage {
  readonly queue: Queue;
  /** The data of the jobs that ran, in order. */
  readonly ran: unknown[];
  /** How many jobs of each group are active, and the most that were at a time. */
  readonly active: Map<string, number>;
  readonly most: Map<string, number>;
  /** Adds jobs of group `a`, unless the options name another one. */
  add(data: unknown, options?: object): Promise<string>;
  /** Starts a worker. `act` runs in each handler. */
  work(act?: (job: Job) => unknown, options?: WorkOptions): Worker;
  until(count: number): Promise<void>;
  /** Waits until nothing is left, also no group. */
  untilGone(): Promise<void>;
  /** Pauses group `a` while jobs are added, so that all of them are ready before the first one starts. */
  together<T>(adds: () => Promise<T>): Promise<T>;
}

inModes({ single: user.login }, (mode, login) => {
  const where = mode === "cluster" ? "Cluster" : "single server";
  describe(`groups on a ${where}${login ? ", by an ACL user" : ""}`, () => {
    const redis = useRedis(vitest, { mode, permanentKeys, args: login ? user.serverArgs(mode) : [] });
    if (login) guardUsers(redis);
    onMovingSlots(redis, { ...looks, ...scripts, ...grouped, ...adding });
    const fixture = fixtureOf(redis, login);
    const { address } = fixture;
    const manager = () => fixture.db;
    const limit = (limits: Parameters<typeof setLimits>[2]): Promise<void> => setLimits(manager(), address, limits);

    const stage = (): Stage => {
      const queue = fixture.make({ maxAttempts: 3, backoff: { firstMs: 30, jitter: 0 } });
      const [ran, active, most] = [[] as unknown[], new Map<string, number>(), new Map<string, number>()];
      const until = async (count: number): Promise<void> =>
        eventually(() => {
          if (ran.length < count) throw new Error(`${String(ran.length)} of ${String(count)} ran`);
        });
      return {
        ...{ queue, ran, active, most, until },
        add: (data, options = {}) => queue.add("job", data, { group: "a", ...options }),
        work: (act, options) => {
          const handler = async (job: Job): Promise<unknown> => {
            const group = job.group ?? "";
            const now = (active.get(group) ?? 0) + 1;
            active.set(group, now);
            most.set(group, Math.max(most.get(group) ?? 0, now));
            ran.push(job.data);
            try {
              return await act?.(job);
            } finally {
              active.set(group, (active.get(group) ?? 0) - 1);
            }
          };
          return queue.work({ "*": handler }, { concurrency: 10, abortGraceMs: 100, ...options });
        },
        untilGone: async () => {
          await fixture.untilEmpty();
          const { grouped, turns, held, suspended } = fixture.keysOf();
          await eventually(async () => expect(await fixture.db.exists(grouped, turns, held, suspended)).toBe(0));
        },
        together: async (adds) => {
          await pauseQueue(manager(), address, { group: "a" });
          const added = await adds();
          await resumeQueue(manager(), address, { group: "a" });
          return added;
        },
      };
    };

    /** Jobs with the data `parent` add a child of this group, so many times, and wait for it. */
    const parent =
      (group: string, times = 1) =>
      async (job: Job): Promise<void> => {
        if (job.data !== "parent" || (await readChildren(job)).children.length === times) return;
        throw new WaitForChildren([{ name: "job", data: "child", group }]);
      };

    /** Fails the first run of the jobs with this data. */
    const failing =
      (...data: readonly unknown[]) =>
      (job: Job): void => {
        if (job.attempt === 1 && data.includes(job.data)) throw new Error("failed");
      };

    it("runs the jobs of each group in order and one at a time, and jobs of different groups at the same time", async () => {
      const { queue, ran, most, work, until, untilGone } = stage();
      const groups = ["a", "b!", "c @ %", "d é"];
      for (let n = 0; n < 5; n++)
        await queue.addAll(groups.map((group) => ({ name: "job", data: `${group} ${String(n)}`, group })));
      expect(await inspectQueue(manager(), address)).toMatchObject({
        ...{ jobs: 20, grouped: 20, waiting: 0, lost: 0, groups: 4, groupsInTurn: 4, groupConcurrency: 1 },
        groupRetry: "wait",
      });
      const all = latch();
      work(async () => {
        if (ran.length === 4) all.open();
        await all.promise;
      });
      await until(20);
      for (const group of groups) {
        const own = ran.filter((data) => String(data).startsWith(group));
        expect(own).toEqual(Array.from({ length: 5 }, (_, n) => `${group} ${String(n)}`));
        expect(most.get(group)).toBe(1);
      }
      expect(new Set(ran.slice(0, 4))).toEqual(new Set(groups.map((group) => `${group} 0`)));
      await untilGone();
    });

    it("changes the concurrency of all groups and of one while workers run, and then resets that one", async () => {
      const { active, add, work, untilGone } = stage();
      const held = latch();
      redis.defer(held.open);
      const are = (a: number, b: number): Promise<void> =>
        eventually(() => expect([active.get("a"), active.get("b")]).toEqual([a, b]));
      for (let n = 0; n < 5; n++) for (const group of ["a", "b"]) await add(n, { group });
      work(() => held.promise);
      await are(1, 1);
      await limit({ groupConcurrency: 2 });
      await are(2, 2);
      await limit({ groups: { a: { concurrency: 4 } } });
      await are(4, 2);
      await limit({ groupConcurrency: 3, groups: { a: { concurrency: null } } });
      await are(4, 3);
      held.open();
      await untilGone();
      await limit({ groupConcurrency: null, groups: { a: null } });
      expect(await fixture.db.hgetall(fixture.keysOf().groups)).toEqual({ "": "0 wait 0 0" });
    });

    it("starts the first job of a group after at most one turn of the others, however many jobs these have", async () => {
      const { queue, ran, add, work, until, untilGone } = stage();
      await queue.addAll(Array.from({ length: 300 }, (_, n) => ({ name: "job", data: `a ${String(n)}`, group: "a" })));
      await queue.addAll(Array.from({ length: 300 }, (_, n) => ({ name: "job", data: `b ${String(n)}`, group: "b" })));
      let late = 0;
      work(
        async () => {
          if (ran.length !== 50) return;
          await add("new", { group: "c" });
          late = ran.length;
        },
        { concurrency: 1 },
      );
      await until(60);
      expect(ran.indexOf("new") - late).toBeLessThan(5);
      await untilGone();
    });

    it("shares the turns by weight, and gives a group nothing for adding its jobs one by one", async () => {
      const { queue, ran, add, work, until, untilGone } = stage();
      await limit({ groupConcurrency: 50, groups: { heavy: { weight: 2 } } });
      const groups = ["a", "b", "heavy", "z"];
      await pauseQueue(manager(), address);
      for (const group of groups)
        await queue.addAll(Array.from({ length: 150 }, () => ({ name: "job", data: group, group })));
      work(
        async ({ data }) => {
          if (data === "alone" && ran.length < 200) await add("alone", { group: "alone" });
        },
        { concurrency: 1 },
      );
      await add("alone", { group: "alone" });
      await resumeQueue(manager(), address);
      await until(200);
      const share = (group: string): number => ran.slice(0, 200).filter((one) => one === group).length;
      for (const group of ["a", "b", "z"]) expect(Math.abs(share(group) - 200 / 6)).toBeLessThan(4);
      expect(Math.abs(share("heavy") - 400 / 6)).toBeLessThan(7);
      expect(share("alone")).toBeLessThan(200 / 6 + 4);
      await untilGone();
    });

    it("starts jobs with and without groups, whichever have the longer backlog", async () => {
      const { queue, ran, work, until, untilGone } = stage();
      const jobs = (data: string, options: object) =>
        queue.addAll(Array.from({ length: 200 }, () => ({ name: "job", data, ...options })));
      await pauseQueue(manager(), address);
      await jobs("plain", {});
      await jobs("urgent", { priority: -1 });
      await limit({ groupConcurrency: 5 });
      await jobs("a", { group: "a" });
      work(undefined, { concurrency: 1 });
      await resumeQueue(manager(), address);
      await until(100);
      const share = ran.slice(0, 100).filter((one) => one === "a").length;
      expect([share > 20, share < 80]).toEqual([true, true]);
      await untilGone();
    });

    /** What happens to jobs of group `a`, and the order in which they run. While group `a` waits, jobs of `b` must run. */
    const table: Readonly<Record<string, (stage: Stage) => Promise<readonly unknown[]>>> = {
      "a failed job runs again before the next one": async ({ add, work, together }) => {
        await together(async () => {
          for (const n of [1, 2, 3]) await add(n);
        });
        work(failing(1, 2));
        return [1, 1, 2, 2, 3];
      },
      "a failed job lets the next one pass with groupRetry: pass": async ({ add, work, together }) => {
        await limit({ groupRetry: "pass" });
        await together(async () => {
          for (const n of [1, 2, 3]) await add(n, { backoff: { firstMs: 300 } });
        });
        work(failing(1));
        return [1, 2, 3, 1];
      },
      "a failed job without back-off runs again first": async ({ add, work, together }) => {
        await together(async () => {
          for (const n of [1, 2]) await add(n, { backoff: { firstMs: 0 } });
        });
        work(failing(1));
        return [1, 1, 2];
      },
      "a snoozed job keeps its place": async ({ add, work, together }) => {
        await together(async () => {
          for (const n of [1, 2]) await add(n);
        });
        work((job) => {
          if (job.data === 1 && job.snoozes === 0) throw new SnoozeError(50);
        });
        return [1, 1, 2];
      },
      "a snoozed job lets the next one pass with groupRetry: pass": async ({ add, work, together }) => {
        await limit({ groupRetry: "pass" });
        await together(async () => {
          for (const n of [1, 2]) await add(n);
        });
        work((job) => {
          if (job.data === 1 && job.snoozes === 0) throw new SnoozeError(300);
        });
        return [1, 2, 1];
      },
      "a RateLimitError stops all groups, and its job stays first": async ({ add, work, together }) => {
        await together(async () => {
          for (const n of [1, 2]) await add(n);
        });
        work((job) => {
          if (job.data === 1 && job.snoozes === 0) throw new RateLimitError(50);
        });
        return [1, 1, 2];
      },
      "a RateLimitError of a group stops it alone, and its job stays first": async (own) => {
        const { add, work, together, until } = own;
        await limit({ groupConcurrency: 2 });
        const held = latch();
        work(
          async (job) => {
            if (job.data === "b") held.open();
            if (job.data === 1 && job.snoozes === 0) throw new RateLimitError(300, { group: true });
          },
          { concurrency: 1 },
        );
        await together(async () => {
          for (const n of [1, 2]) await add(n);
        });
        await until(1);
        await eventually(async () =>
          expect((await listGroups(manager(), address)).groups).toMatchObject([
            { group: "a", state: "halted", haltedUntil: expect.any(String) as string },
          ]),
        );
        await add("b", { group: "b" });
        await held.promise;
        expect(own.ran.splice(1)).toEqual(["b"]);
        return [1, 1, 2];
      },
      "a halted group goes on when it is resumed, also without a job meanwhile": async ({ add, work, until }) => {
        const id = await add(1);
        work((job) => {
          if (job.data === 1) throw new RateLimitError(600_000, { group: true });
        });
        await until(1);
        await eventually(async () => expect(await removeJob(manager(), address, id)).toBe("removed"));
        await add(2);
        await fixture.untilIdle(1);
        await resumeQueue(manager(), address, { group: "a" });
        return [1, 2];
      },
      "the rate of groups spreads the jobs of each": async ({ ran, add, work, together, until }) => {
        await limit({ groupRate: { count: 10, perMs: 1_000 }, groupConcurrency: 2 });
        await together(async () => {
          for (const n of [1, 2, 3]) await add(n);
        });
        await add("b", { group: "b" });
        const begun = performance.now();
        work();
        await until(4);
        expect(performance.now() - begun).toBeGreaterThan(90);
        expect(ran.indexOf("b")).toBeLessThan(3);
        ran.splice(ran.indexOf("b"), 1);
        return [1, 2, 3];
      },
      "a dead letter frees its place, and goes behind the others if it is redriven": async (own) => {
        const { queue, add, work, together, until } = own;
        const id = await add(1, { maxAttempts: 1 });
        let isDead = true;
        const goOn = latch();
        work(async ({ data }) => {
          if (data === 1 && isDead) throw new Error("failed");
          if (data === 2) await goOn.promise;
        });
        await together(async () => {
          for (const n of [2, 3]) await add(n);
        });
        await until(2);
        isDead = false;
        expect(await queue.redrive([id])).toBe(1);
        expect(await inspectJob(manager(), address, id)).toMatchObject({ state: "ready", group: "a" });
        goOn.open();
        return [1, 2, 3, 1];
      },
      "a delayed job joins the end when it is due": async ({ add, work, until }) => {
        const held = latch();
        work(async ({ data }) => {
          if (data === 2) await held.promise;
        });
        const id = await add(1, { delayMs: 60_000 });
        await add(2);
        await add(3);
        await until(1);
        expect(await promoteJob(manager(), address, id)).toBe("ready");
        held.open();
        return [2, 3, 1];
      },
      "priority orders the jobs of a group, and lifo puts one first": async ({ add, work, together }) => {
        work();
        await together(async () => {
          await add("late", { priority: 5 });
          await add(1);
          await add(2);
          await add("first", { lifo: true });
          await add("urgent", { priority: -1 });
          await add("later", { priority: 5 });
        });
        return ["urgent", "first", 1, 2, "late", "later"];
      },
      "another priority, another due time and other data": async ({ add, work, together }) => {
        work();
        await together(async () => {
          const [one, two, three] = [await add(1), await add(2), await add(3)];
          await add(4);
          expect(await setPriority(manager(), address, one, 7)).toBe(true);
          expect(await rescheduleJob(manager(), address, two, { delayMs: 60_000 })).toBe("delayed");
          expect(await editJob(manager(), address, three, { data: "three", priority: 1 })).toBe("edited");
          expect(await promoteJob(manager(), address, two)).toBe("ready");
        });
        return [4, 2, "three", 1];
      },
      "a job that its worker hands back stays first": async ({ add, work, together, until }) => {
        await together(async () => {
          for (const n of [1, 2]) await add(n);
        });
        const worker = work(
          ({ closing }) =>
            new Promise((_, reject) => closing.addEventListener("abort", () => reject(closing.reason as Error))),
        );
        await until(1);
        await worker.close();
        work();
        return [1, 1, 2];
      },
      "a job whose lease has ended runs again before the next one": async ({ add, work, together, until }) => {
        const held = latch();
        redis.defer(held.open);
        await together(async () => {
          for (const n of [1, 2]) await add(n);
        });
        work(({ crashes }) => (crashes === 0 ? held.promise : undefined));
        await until(1);
        await fixture.expireLeases();
        await fixture.db.zadd(fixture.keysOf().wake, 1, "timer");
        await until(2);
        held.open();
        return [1, 1, 2];
      },
      "a job that has expired does not run": async ({ add, work, together }) => {
        await together(async () => {
          await fixture.age(await add(1, { expiresMs: 1_000 }));
          await add(2);
        });
        work();
        return [2];
      },
      "a job is unique among those of its group, too": async ({ queue, add, work, together }) => {
        work();
        await together(async () => {
          const unique = { key: "k" };
          const id = await add(1, { unique });
          expect(await add(2, { unique })).toBe(id);
          expect(await queue.addOnce("job", 3, { group: "a", id: "own" })).toMatchObject({ isAdded: true });
          expect(await queue.addOnce("job", 4, { group: "a", id: "own" })).toMatchObject({ state: "ready" });
        });
        return [1, 3];
      },
      "the last job of a key replaces one that is ready, which keeps its group": async (own) => {
        const { queue, add, work, together } = own;
        work();
        await together(async () => {
          const unique = { key: "k", mode: "keepLast" };
          const id = await add(1, { unique });
          await add(2);
          expect(await queue.add("job", "last", { group: "b", unique } as object)).toBe(id);
          expect(await inspectJob(manager(), address, id)).toMatchObject({ state: "ready", group: "a" });
        });
        return ["last", 2];
      },
      "the last job of a key follows one that is active": async ({ add, work, until }) => {
        const unique = { key: "k", mode: "keepLast" };
        const held = latch();
        work(({ data }) => (data === 1 ? held.promise : undefined));
        await add(1, { unique });
        await until(1);
        await add(2, { unique });
        held.open();
        return [1, 2];
      },
      "a parent of a flow takes its place in its group once its children have ended": async (own) => {
        const { queue, add, work, together } = own;
        work();
        await together(async () => {
          await addFlow(queue, {
            name: "job",
            data: "parent",
            group: "a",
            children: [{ name: "job", data: "child", group: "a" }],
          });
          await add(1);
        });
        return ["child", 1, "parent"];
      },
      "a job that waits for children frees its place, and these join the end of its group": async (own) => {
        const { add, work, together } = own;
        work(parent("a", 2));
        await together(async () => {
          await add("parent");
          await add(1);
        });
        return ["parent", 1, "child", "parent", "child", "parent"];
      },
      "a job that waited for children joins the end of its group once they have ended": async (own) => {
        const { add, work, until, together } = own;
        const held = latch();
        redis.defer(held.open);
        const act = parent("b");
        work((job) => (job.data === 1 ? held.promise : act(job)));
        await pauseQueue(manager(), address, { group: "b" });
        const id = await together(async () => {
          const first = await add("parent");
          for (const n of [1, 2]) await add(n);
          return first;
        });
        await until(2);
        expect(await inspectJob(manager(), address, id)).toMatchObject({ state: "waiting-for-children", group: "a" });
        await resumeQueue(manager(), address, { group: "b" });
        await eventually(async () =>
          expect(await inspectJob(manager(), address, id)).toMatchObject({ state: "ready", group: "a" }),
        );
        held.open();
        return ["parent", 1, "child", 2, "parent"];
      },
      "the first groups of a queue are those of children that a job without a group adds": async (own) => {
        const { queue, work, until } = own;
        const { groups } = fixture.keysOf();
        expect(await fixture.db.exists(groups)).toBe(0);
        work(parent("b"));
        await queue.add("job", "parent");
        await until(3);
        // By this key other workers find that the queue has groups.
        expect(await fixture.db.hget(groups, "")).toBe("0 wait 0 0");
        return ["parent", "child", "parent"];
      },
      "a called job has a result": async ({ queue, work }) => {
        work(({ data }) => `${String(data)}!`);
        expect(await queue.call("job", 1, { group: "a" })).toBe("1!");
        return [1];
      },
      "a pause of the queue stops groups": async ({ ran, add, work }) => {
        await pauseQueue(manager(), address);
        await add(1);
        work();
        await fixture.untilIdle(1);
        expect(ran).toEqual([]);
        await resumeQueue(manager(), address);
        return [1];
      },
      "a pause of the group stops it alone, survives changed limits, and tells which": async (own) => {
        const { ran, add, work, until } = own;
        work();
        await pauseQueue(manager(), address, { group: "a" });
        await limit({ groups: { a: { concurrency: 3 } } });
        await add(1);
        await add("b", { group: "b" });
        await until(1);
        await eventually(async () => {
          const { groups } = await listGroups(manager(), address);
          expect(groups).toMatchObject([{ group: "a", ready: 1, state: "paused", concurrency: 3, weight: 1 }]);
        });
        expect(ran.splice(0)).toEqual(["b"]);
        await resumeQueue(manager(), address, { group: "a" });
        await limit({ groups: { a: null } });
        return [1];
      },
      "the concurrency of the queue bounds all groups": async ({ active, add, work, together, until }) => {
        await limit({ concurrency: 1, groupConcurrency: 2 });
        await together(async () => {
          for (const n of [1, 2, 3]) await add(n);
        });
        let most = 0;
        work(
          () =>
            void (most = Math.max(
              most,
              [...active.values()].reduce((sum, count) => sum + count, 0),
            )),
        );
        await until(3);
        expect(most).toBe(1);
        return [1, 2, 3];
      },
      "the rate of the queue bounds all groups": async ({ add, work, together, until }) => {
        await limit({ rate: { count: 10, perMs: 1_000, burst: 1 } });
        await together(async () => {
          for (const n of [1, 2, 3]) await add(n);
        });
        const begun = performance.now();
        work();
        await until(3);
        expect(performance.now() - begun).toBeGreaterThan(180);
        return [1, 2, 3];
      },
      "a paused name stops its group in order, and no other": async ({ queue, ran, add, work, together, until }) => {
        await pauseQueue(manager(), address, { name: "slow" });
        await together(async () => {
          await add(1);
          await queue.add("slow", "slow", { group: "a" });
          await add(2);
        });
        work();
        await until(1);
        await add("b", { group: "b" });
        await until(2);
        await eventually(async () =>
          expect(await inspectQueue(manager(), address)).toMatchObject({ suspended: 1, grouped: 1, lost: 0 }),
        );
        expect(ran.splice(1)).toEqual(["b"]);
        await resumeQueue(manager(), address, { name: "slow" });
        return [1, "slow", 2];
      },
      "the concurrency of a name bounds its jobs in all groups": async ({ queue, ran, add, work, together, until }) => {
        await limit({ names: { slow: { concurrency: 1 } } });
        const held = latch();
        redis.defer(held.open);
        work((job) => (job.name === "slow" ? held.promise : undefined));
        await queue.add("slow", "of b", { group: "b" });
        await until(1);
        await together(async () => {
          await queue.add("slow", "slow", { group: "a" });
          await add(1);
        });
        await eventually(async () => expect((await inspectQueue(manager(), address)).suspended).toBe(1));
        expect(ran.splice(0)).toEqual(["of b"]);
        held.open();
        return ["slow", 1];
      },
      "a cancelled job frees its place": async ({ add, work, until, together }) => {
        const held = latch();
        redis.defer(held.open);
        const id = await add(1);
        work(({ data }) => (data === 1 ? held.promise : undefined));
        await until(1);
        await together(async () => add(2));
        expect(await cancelJob(manager(), address, id)).toBe("cancelled");
        await until(2);
        held.open();
        return [1, 2];
      },
      "a job that waits for its next attempt frees its place if it is removed": async (own) => {
        const { add, work, together } = own;
        work(failing(1));
        let id = "";
        await together(async () => {
          id = await add(1, { backoff: { firstMs: 60_000 } });
          await add(2);
        });
        await eventually(async () => {
          const { groups } = await listGroups(manager(), address);
          expect(groups).toMatchObject([{ group: "a", ready: 1, active: 1, state: "retrying" }]);
        });
        expect(await removeJob(manager(), address, id)).toBe("removed");
        return [1, 2];
      },
      "a job that waits for its next attempt frees its place if delayed jobs are drained": async ({
        add,
        work,
        until,
      }) => {
        work(failing(1));
        const id = await add(1, { backoff: { firstMs: 60_000 } });
        await until(1);
        await eventually(async () => expect((await inspectJob(manager(), address, id)).state).toBe("delayed"));
        expect(await drainQueue(manager(), address, { delayed: true })).toBe(1);
        await add(2);
        return [1, 2];
      },
      "a removed, a drained and a cleaned job do not run": async ({ queue, add, work, together }) => {
        await together(async () => {
          const id = await add(1);
          for (const group of ["b", "b", "b"]) await queue.add("job", group, { group });
          await queue.add("old", "c", { group: "c" });
          await add(2);
          expect(await removeJob(manager(), address, id)).toBe("removed");
          expect(await drainQueue(manager(), address, { group: "b" })).toBe(3);
          expect(await cleanQueue(manager(), address, { state: "grouped", name: "old", run: true })).toBe(1);
          expect(await inspectQueue(manager(), address)).toMatchObject({ jobs: 1, grouped: 1, groups: 1, lost: 0 });
        });
        work();
        return [2];
      },
      "a cancelled group has no jobs left": async ({ add, work, until, untilGone }) => {
        const held = latch();
        redis.defer(held.open);
        for (const n of [1, 2, 3]) await add(n);
        work(() => held.promise);
        await until(1);
        expect(await cancelGroup(manager(), address, "a")).toBe(3);
        held.open();
        await untilGone();
        return [1];
      },
      "a drained queue has no groups left": async ({ add, work }) => {
        await pauseQueue(manager(), address, { group: "a" });
        for (const n of [1, 2]) await add(n);
        expect(await drainQueue(manager(), address)).toBe(2);
        await resumeQueue(manager(), address, { group: "a" });
        work();
        await add(3);
        return [3];
      },
      "jobs in no list of work join the end of their group when the queue is repaired": async ({ add, work }) => {
        const { grouped, turns } = fixture.keysOf();
        await add(1);
        await fixture.db.del(grouped);
        await fixture.db.del(turns);
        await add(2);
        expect(await repairQueue(manager(), address, { run: true })).toHaveLength(1);
        work();
        return [2, 1];
      },
      "a place whose job was deleted is found, and so is a lost turn": async ({ add, work }) => {
        const { held, turns } = fixture.keysOf();
        await add(1);
        await fixture.db.zadd(held, 0, "a gone");
        await fixture.db.del(turns);
        work();
        await fixture.untilIdle(1);
        await fixture.db.zadd(fixture.keysOf().wake, 1, "timer");
        return [1];
      },
    };

    it.each(Object.keys(table))("%s", async (cell) => {
      const own = stage();
      const expected = await table[cell]!(own);
      await own.until(expected.length);
      await own.untilGone();
      expect(own.ran).toEqual(expected);
      // A handler that has lost its job may still run.
      const isShared = /bounds all groups|lease has ended|cancelled|rate of groups/.test(cell);
      expect(own.most.get("a") ?? 1).toBeLessThanOrEqual(isShared ? 2 : 1);
      await limit({
        concurrency: null,
        rate: null,
        names: { slow: null },
        groupConcurrency: null,
        groupRetry: "wait",
        groupRate: null,
      });
    });

    it("lists the jobs of a group in order, page by page, and the groups themselves", async () => {
      const { queue, add } = stage();
      await pauseQueue(manager(), address, { group: "a" });
      for (let n = 0; n < 7; n++) await add(n);
      for (let n = 0; n < 130; n++) await add(n, { group: `g${String(1_000 + n)}` });
      await queue.add("job", "plain");
      const list = async (options: object) => {
        const { jobs, next } = await listJobs(manager(), address, { state: "grouped", ...options });
        return [jobs.map(({ id, group }) => [id.slice(-4), group]), next];
      };
      const a = (...ids: readonly string[]) => ids.map((id) => [id, "a"]);
      expect(await list({ group: "a", count: 3 })).toEqual([a("0000", "0001", "0002"), 3]);
      expect(await list({ group: "a", start: 6 })).toEqual([a("0006"), undefined]);
      expect(await list({ group: "a", count: 2, from: "end" })).toEqual([a("0006", "0005"), 2]);
      expect(await list({ group: "none" })).toEqual([[], undefined]);
      const first = await listGroups(manager(), address);
      expect([first.groups.length, first.next]).toEqual([100, "g1098"]);
      expect(first.groups.slice(0, 2)).toMatchObject([
        { group: "a", ready: 7, active: 0, concurrency: 1, weight: 1, state: "paused" },
        { group: "g1000", ready: 1, pausedAt: null, nextAddedAt: expect.any(String) as string, state: "ready" },
      ]);
      const rest = await listGroups(manager(), address, { after: first.next });
      expect([rest.groups.length, rest.next]).toEqual([31, undefined]);
      expect(await inspectQueue(manager(), address)).toMatchObject({ groups: 131, groupsInTurn: 130, grouped: 137 });
    });

    it("rejects what means nothing", async () => {
      const { queue } = stage();
      for (const group of ["", "x".repeat(129), "tab\t", 5])
        await expect(queue.add("job", 1, { group } as object)).rejects.toThrow(/`group`/);
      for (const limits of [
        { groupConcurrency: 0 },
        { groupRetry: "no" },
        { groups: { a: { weight: 101 } } },
        { groups: [] },
      ])
        await expect(limit(limits as object)).rejects.toThrow(/Expected/);
      await expect(pauseQueue(manager(), address, { name: "job", group: "a" })).rejects.toThrow(TypeError);
      await expect(drainQueue(manager(), address, { group: "a", delayed: true })).rejects.toThrow(TypeError);
      await expect(listJobs(manager(), address, { state: "completed", group: "a" })).rejects.toThrow(TypeError);
    });
  });
});
