import { eventually, useRedis } from "@kit/testing";
import { inModes } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { QueueCommands } from "../src/store/commands.js";
import { createQueue, type WorkOptions } from "../src/index.js";
import { cancelJob } from "../src/manage/index.js";
import { queueSettings } from "../src/store/options.js";
import { heartbeat } from "../src/store/scripts/index.js";
import { mirrorTo } from "../src/thread/index.js";
import { JobLeases } from "../src/work/leases.js";
import type { LeaseMirror, MirroredLeases } from "../src/thread/mirror.js";
import { jobsOf, type TakenJob } from "../src/work/taken.js";
import { type ThreadOptions, threadOptions } from "../src/thread/options.js";
import { fixtureOf, latch, permanentKeys, Runs } from "./harness.js";

/** Long enough that a busy machine does not keep the thread silent for a lease. */
const longMs = 5_000;
/** Where the lease has to end. */
const shortMs = 600;

/** Leases that a thread renews, on one server or on a Cluster. */
inModes({}, (mode) => {
  describe(`a heartbeat thread on a ${mode === "cluster" ? "Cluster" : "single server"}`, () => {
    const redis = useRedis(vitest, { mode, permanentKeys });
    const fixture = fixtureOf(redis);
    const { make, work, spawn } = fixture;
    const logs = (count: number): Promise<void> =>
      eventually(async () => expect(await fixture.logged()).toHaveLength(count), { timeoutMs: 30_000 });
    /** A process freezes its main loop in a job, while another worker waits for its lease to end. */
    const freeze = async (
      heartbeat: WorkOptions["heartbeat"],
      leaseMs: number,
      more: Omit<WorkOptions, "name"> = {},
    ): Promise<{ runs: Runs; events: unknown }> => {
      const [queue, runs] = [make(), new Runs()];
      const peer = await spawn({ leaseMs, heartbeat, ...more });
      const id = await queue.add("job", { log: "frozen", act: "freeze", ms: 2.2 * leaseMs });
      await logs(1);
      work(queue, runs.handler, { leaseMs });
      await eventually(async () => expect(await peer.ask("running")).toBe(0), { timeoutMs: 40_000 });
      await fixture.untilEmpty();
      // Once it has closed, it has read the reply to the end of its job.
      await peer.ask("close");
      const events = JSON.stringify(await peer.ask("events")).replaceAll(id, "ID");
      return { runs, events: JSON.parse(events) as unknown };
    };

    it("keeps the job of a main loop that is blocked for twice the lease", async () => {
      const { runs, events } = await freeze("thread", longMs);
      expect([runs.jobs, events]).toEqual([[], []]);
      expect(await fixture.logged()).toEqual(["frozen 1 0"]);
    });

    it("keeps jobs that had not started when the main loop was blocked; they start after that", async () => {
      const [queue, runs] = [make(), new Runs()];
      const peer = await spawn({ leaseMs: longMs, concurrency: 2, heartbeat: "auto" });
      await fixture.untilIdle(1);
      const datas = [{ log: "stands still", act: "stand", ms: 1.5 * longMs }, { log: "waits" }];
      await queue.addAll(datas.map((data) => ({ name: "job", data })));
      await eventually(async () => expect(await fixture.counts()).toMatchObject({ waiting: 0 }));
      work(queue, runs.handler, { leaseMs: longMs });
      await eventually(async () => expect(await peer.ask("running")).toBe(0), { timeoutMs: 40_000 });
      await fixture.untilEmpty();
      await peer.ask("close");
      expect(await peer.ask("events")).toEqual([]);
      expect(runs.jobs).toEqual([]);
      expect((await fixture.logged()).toSorted()).toEqual(["stands still 1 0", "waits 1 0"]);
    });

    it("counts one connection for ten workers of a process, and leaves nothing when the last one closes", async () => {
      const lists = async (): Promise<number> => {
        const all = await Promise.all(redis.server.nodes.map((node) => node.call("CLIENT", "LIST")));
        return all
          .join("")
          .split("\n")
          .filter((line) => / name=many-/.test(line)).length;
      };
      const threads = new Set<object>();
      const onThread = (thread: object & { on(event: "exit", listener: () => void): void }): void => {
        threads.add(thread);
        thread.on("exit", () => threads.delete(thread));
      };
      process.on("worker", onThread);
      redis.defer(() => void process.off("worker", onThread));
      const client = redis.connect({ connectionName: "many-" });
      const workersOf = async (heartbeat: "loop" | "thread"): Promise<() => Promise<void>> => {
        const queue = createQueue(client, "many", { prefix: redis.prefix, deadlineMs: 10_000 });
        for (let n = 0; n < 10; n++) queue.work({ job: () => undefined }, { heartbeat });
        await fixture.untilIdle(10);
        return () => queue.close();
      };
      const closeLoops = await workersOf("loop");
      let before = Infinity;
      for (const until = performance.now() + 2_000; performance.now() < until;)
        before = Math.min(before, await lists());
      expect(threads.size).toBe(0);
      await closeLoops();
      const closeThreads = await workersOf("thread");
      // A Cluster client also opens connections to read the map of slots, so on a Cluster only the threads are counted.
      const added = async (): Promise<number> => (mode === "single" ? (await lists()) - before : 1);
      await eventually(async () => expect(await added()).toBe(1));
      await eventually(() => expect(threads.size).toBe(1));
      await closeThreads();
      await eventually(async () => expect([threads.size, (await lists()) < before]).toEqual([0, true]));
    });

    if (mode === "cluster") return;

    it("learns that jobs were cancelled while the main loop was blocked: they are not lost, and one that waits does not start", async () => {
      const queue = make();
      const leaseMs = 2_000;
      const peer = await spawn({ leaseMs, concurrency: 2, heartbeat: "thread" });
      await fixture.untilIdle(1);
      const datas = [{ log: "stands still", act: "stand", ms: 2.5 * leaseMs }, { log: "cancelled" }];
      const ids = await queue.addAll(datas.map((data) => ({ name: "job", data })));
      await eventually(async () => expect(await fixture.counts()).toMatchObject({ waiting: 0 }));
      for (const id of ids)
        expect(await cancelJob(redis.client, { queue: queue.name, prefix: redis.prefix }, id)).toBe("cancelled");
      await eventually(async () => expect(await peer.ask("running")).toBe(0), { timeoutMs: 40_000 });
      await fixture.untilEmpty();
      await peer.ask("close");
      expect(await fixture.logged()).toEqual(["stands still 1 0"]);
      expect(await peer.ask("events")).toEqual([["cancelled", ids[0]]]);
    });

    it("without it, such a job runs again elsewhere", async () => {
      const { runs, events } = await freeze("loop", shortMs);
      expect(runs.jobs).toMatchObject([{ attempt: 1, crashes: 1 }]);
      expect(events).toEqual([["lost", "ID"]]);
    });

    it("gives up a main loop that is blocked for longer than maxBlockedMs", async () => {
      const { runs, events } = await freeze("thread", shortMs, { maxBlockedMs: shortMs / 2 });
      expect(runs.jobs).toMatchObject([{ attempt: 1, crashes: 1 }]);
      expect(events).toEqual([["lost", "ID"]]);
    });

    it("revives no lease of a process that was stopped as a whole", async () => {
      const [queue, runs] = [make(), new Runs()];
      const peer = await spawn({ leaseMs: 500, heartbeat: "thread" });
      const id = await queue.add("job", { log: "first", act: "hang" });
      await logs(1);
      peer.pause();
      work(queue, runs.handler, { leaseMs: 500 });
      await runs.until(1);
      await fixture.untilEmpty();
      peer.resume();
      await eventually(async () => expect(await peer.ask("events")).toEqual([["lost", id]]), { timeoutMs: 15_000 });
      expect(await fixture.counts()).toMatchObject({ jobs: 0, leases: 0 });
      expect(runs.jobs).toMatchObject([{ crashes: 1 }]);
    });

    it("prolongs the leases that it renewed, none of a reply that came in while the loop was blocked, and soon none given up", async () => {
      const leaseMs = 2_000;
      const client = redis.connect({ connectionName: "mirrored" });
      const settings = queueSettings({ prefix: redis.prefix, deadlineMs: 10_000 });
      const events = { error: () => undefined, evictable: () => undefined };
      const commands = new QueueCommands(client, "mirrored", settings, events, "The queue");
      const leases = new JobLeases(commands, leaseMs, { lost: () => undefined, cutOff: () => undefined });
      redis.defer(() => (leases.close(), commands.life.close({}, () => Promise.resolve())));
      // As a worker has them, but that the thread gets no members while a reply is not read.
      let isRead = true;
      let current: LeaseMirror | undefined;
      const { keys, outage } = commands;
      const thread = threadOptions(client, "thread") as ThreadOptions;
      const mirrored: MirroredLeases = {
        get members() {
          return leases.members;
        },
        settle: (renewed, cancelled, until) => leases.settle(renewed, cancelled, until),
        mirrorTo: (mirror: LeaseMirror | undefined) => {
          current = mirror;
          leases.mirrorTo(mirror && { ...mirror, held: (members) => void (isRead && mirror.held(members)) });
        },
      };
      mirrorTo(mirrored, {
        redis: client,
        thread,
        keys,
        leaseMs,
        maxBlockedMs: 60_000,
        source: heartbeat.source,
        outage,
      });
      await eventually(async () => {
        const list = String(await redis.server.call("CLIENT", "LIST"));
        expect(list.match(/ name=mirrored /g)).toHaveLength(2);
      });
      const take = { takeId: "workerX00001", takenAt: 0, leaseUntil: 0, receivedAt: 0, isLimited: false, commands };
      const blobs = [Buffer.from("k1 job\n1"), Buffer.from("k1 job\n2")];
      const [known, unread] = jobsOf({ blobs, entries: ["known", "unread"], records: [] }, take, 0) as [
        TakenJob,
        TakenJob,
      ];
      await fixture.db.zadd(keys.leases, 9e15, known.member);

      // From here on the loop does not turn.
      leases.hold([known]);
      isRead = false;
      leases.hold([unread]);
      const cell = new Int32Array(new SharedArrayBuffer(4));
      for (let looks = 0; looks < 1_000 && known.leaseUntil === 0; looks++) {
        Atomics.wait(cell, 0, 0, 50);
        current?.fetch();
      }
      expect([known, unread].map((job) => leases.isOver(job))).toEqual([false, true]);
      expect(await fixture.db.zrange(keys.leases, "0", "-1")).toEqual([known.member]);
      // The worker gives the other one up, too, as where it could not be handed back. The thread may renew it in one more block.
      leases.release(known);
      for (let block = 0; block < 2; block++) {
        const turnedAt = performance.now();
        await eventually(() => expect(performance.now() - turnedAt).toBeGreaterThan(leaseMs / 2));
        await fixture.db.zadd(keys.leases, 9e15, known.member);
        Atomics.wait(cell, 0, 0, leaseMs);
      }
      expect(Number(await fixture.db.zscore(keys.leases, known.member))).toBe(9e15);
      await fixture.db.del(keys.leases);
    });

    it("that ends by itself is reported once; the main loop keeps renewing", async () => {
      const [queue, runs] = [make(), new Runs()];
      const peer = await spawn({ leaseMs: longMs, heartbeat: "thread" });
      await queue.add("job", { log: "long", act: "wait", ms: 1.5 * longMs });
      await logs(1);
      work(queue, runs.handler, { leaseMs: longMs });
      await peer.ask("killThread");
      await eventually(async () => expect(await peer.ask("errors")).toEqual(["KIT_QUEUE_HEARTBEAT"]));
      await eventually(async () => expect(await peer.ask("running")).toBe(0), { timeoutMs: 30_000 });
      await fixture.untilEmpty();
      expect([runs.jobs, await peer.ask("events"), await peer.ask("threads")]).toEqual([[], [], 0]);
      await peer.ask("close");
    });

    it("is refused if it cannot connect as the client does; auto then uses the main loop", async () => {
      const { promise, open } = latch();
      const client = redis.connect({ tls: undefined, natMap: () => null } as object);
      const queue = fixture.on(client);
      const expected = 'A thread cannot use the client\'s `natMap`. Set `heartbeat` to "loop"';
      expect(() => work(queue, open, { heartbeat: "thread" })).toThrow(new TypeError(expected));
      expect(() => work(queue, open, { heartbeat: "cpu" as "auto" })).toThrow(/^Expected `heartbeat`/);
      expect(() => work(queue, open, { maxBlockedMs: 10 })).toThrow(/^Expected `maxBlockedMs`/);
      const errors: unknown[] = [];
      work(queue, open, { heartbeat: "auto" }).on("error", ({ code, message }) => errors.push([code, message]));
      await queue.add("job");
      await promise;
      expect(errors).toEqual([["KIT_QUEUE_HEARTBEAT", `The heartbeat thread cannot start: ${expected}`]]);
    });
  });
});
