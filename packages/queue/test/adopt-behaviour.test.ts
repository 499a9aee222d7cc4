import { readFileSync } from "node:fs";
import { eventually, useRedis } from "@kit/testing";
import { inModes, onMovingSlots, Peer, rejection, runProgram, usedCommands } from "@tooling/vitest/helpers";
import { type Job as BullJob, FlowProducer, Queue as BullQueue, Worker as BullWorker } from "bullmq";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { type AdoptOptions, AdoptionError, type AdoptReport, adoptBullQueue } from "../src/adopt/index.js";
import * as scripts from "../src/adopt/scripts/index.js";
import { keyHead } from "../src/job/keys.js";
import { pauseQueue } from "../src/manage/index.js";
import { createSchedules } from "../src/schedules/index.js";
import { user } from "./acl.js";
import { fixtureOf, name, permanentKeys, Runs } from "./harness.js";

const patient = { timeoutMs: 60_000 };

/** The adoption of BullMQ queues, on one server or on a Cluster. */
inModes({}, (mode) => {
  describe(`a BullMQ queue that is adopted on a ${mode === "cluster" ? "Cluster" : "single server"}`, () => {
    const redis = useRedis(vitest, {
      mode,
      permanentKeys: [...permanentKeys, "bull:*", "{bull}:*"],
    });
    onMovingSlots(redis, scripts);
    const fixture = fixtureOf(redis);
    const { make, work } = fixture;
    // On a Cluster BullMQ needs all its keys in one slot.
    const bullPrefix = (): string => (mode === "cluster" ? `${redis.prefix}:{bull}` : `${redis.prefix}:bull`);
    const connection = () => redis.connect({ maxRetriesPerRequest: null });
    const bull = (): BullQueue => {
      const queue = new BullQueue(name, { connection: connection() as never, prefix: bullPrefix() });
      redis.defer(() => queue.close());
      return queue;
    };
    const bullWorker = (run: (job: BullJob) => unknown, options = {}): BullWorker => {
      const given = { connection: connection() as never, prefix: bullPrefix(), drainDelay: 1, ...options };
      const worker = new BullWorker(name, async (job) => await run(job), given);
      redis.defer(() => worker.close(true));
      return worker;
    };
    const adopt = (options: AdoptOptions = { run: true }): Promise<AdoptReport> =>
      adoptBullQueue(
        redis.client,
        { from: name, bullPrefix: bullPrefix() },
        { queue: name, prefix: redis.prefix },
        options,
      );
    /** The keys that BullMQ and an adoption keep besides the jobs. */
    const leftKeys = async (): Promise<string[]> => {
      const all = await Promise.all(redis.server.nodes.map((node) => node.call("KEYS", `${bullPrefix()}:${name}:*`)));
      const rest = /:(?:meta|id|events|marker|pc|stalled-check|meta:kit-adopting)$/;
      return [...new Set((all as string[][]).flat())].filter((key) => !rest.test(key)).toSorted();
    };
    const nothing = { refused: [], unsure: [], ownStrategies: 0, isPaused: false };

    it("moves each job with its id, data, order, priority, due time and attempts, and leaves nothing", async () => {
      const from = bull();
      for (const data of [{ n: 1, text: "ä\u2028" }, { n: 2 }]) await from.add("job", data);
      await from.add("job", { n: 0 }, { lifo: true });
      await from.add("job", { n: 5 }, { priority: 2 });
      await from.add("job", { n: 4 }, { priority: 1, jobId: "own" });
      await from.add("job", { n: 3 }, { attempts: 3, backoff: { type: "exponential", delay: 50, jitter: 0.5 } });
      await from.add("job", { n: 6 }, { priority: 2_000_000 });
      const later = await from.add("job", { n: 7 }, { delay: 600_000, priority: 9, deduplication: { id: "once" } });
      const logged = await from.add("job", { n: 8 }, { delay: 700_000 });
      await logged.log("a line");
      const report = await adopt({});
      expect(report).toMatchObject({ isDryRun: true, moved: { waiting: 4, prioritised: 3, delayed: 2, schedules: 0 } });
      expect(await from.getJobCounts("wait", "prioritized", "delayed")).toEqual({
        wait: 4,
        prioritized: 3,
        delayed: 2,
      });
      expect(await fixture.counts()).toMatchObject({ jobs: 0 });

      expect(await adopt()).toEqual({
        ...{ isDryRun: false, moved: report.moved, left: { active: 0, failed: 0, waitingChildren: 0, children: 0 } },
        ...nothing,
      });
      expect(await leftKeys()).toEqual([]);
      expect(await fixture.counts()).toMatchObject({ jobs: 9, waiting: 4, prioritised: 3, delayed: 2 });
      const due = later.timestamp + 600_000;
      expect(await fixture.db.zscore(fixture.keysOf().delayed, `!9!${later.id}`)).toBe(String(due));
      const [queue, runs] = [make(), new Runs()];
      // The key is taken.
      expect(await queue.addOnce("job", 1, { unique: { key: "once" } })).toMatchObject({
        isAdded: false,
        id: later.id,
      });
      const worker = work(queue, runs.handler);
      await runs.until(7);
      expect(runs.data).toEqual([0, 1, 2, 3, 4, 5, 6].map((n) => (n === 1 ? { n, text: "ä\u2028" } : { n })));
      expect(runs.jobs.map(({ id }) => id)).toEqual(["3", "1", "2", "6", "own", "4", "7"]);
      expect(runs.jobs[3]).toMatchObject({ maxAttempts: 3, attempt: 1 });
      expect(runs.jobs[6]).toMatchObject({ priority: 1_048_575 });
      expect(Math.abs(runs.jobs[0]!.addedAt - later.timestamp)).toBeLessThan(60_000);
      await worker.close();
      expect((await adopt()).moved).toEqual({ waiting: 0, prioritised: 0, delayed: 0, schedules: 0 });
    });

    it("keeps the attempts that are left, and the wait before the next one", async () => {
      const from = bull();
      const failing = bullWorker(() => {
        throw new Error("the partner is away");
      });
      const failed = new Promise((resolve) => failing.once("failed", resolve));
      const { id } = await from.add("job", 1, { attempts: 3, backoff: { type: "exponential", delay: 600_000 } });
      await failed;
      await failing.close();
      await from.add("job", 2, { attempts: 3, backoff: { type: "mine" } });
      expect(await adopt()).toMatchObject({ moved: { waiting: 1, delayed: 1 }, ownStrategies: 1 });
      const stored = await fixture.db.hget(fixture.keysOf().jobs, id!);
      expect(stored).toMatch(/^\S+ job a2 b1200000,2,\d+,0\n1$/);
      expect(await fixture.db.hget(fixture.keysOf().jobs, "2")).toMatch(/^\S+ job a3\n2$/);
    });

    it("leaves jobs that it cannot move, reports why, and moves the others", async () => {
      const from = bull();
      const flows = new FlowProducer({ connection: connection() as never, prefix: bullPrefix() });
      redis.defer(() => flows.close());
      const child = { name: "job", queueName: name };
      await flows.add({ ...child, opts: { jobId: "parent" }, children: [{ ...child, opts: { jobId: "child" } }] });
      await from.add("job", 1, { jobId: "x".repeat(129) });
      await from.add("job", 1, { jobId: "AAAAAAAAA.0001" });
      await from.add("job", 1, { jobId: "!room" });
      await from.add("x".repeat(129), 1, { jobId: "long name" });
      await from.add("job", 1, { jobId: "taken", delay: 600_000 });
      await from.add("job", 1, { jobId: "keyed", deduplication: { id: "key" } });
      await make().addAll([
        { name: "job", data: 2, id: "taken", delayMs: 900_000 },
        { name: "job", data: 3, unique: { key: "key" }, delayMs: 900_000 },
      ]);
      for (let n = 0; n < 150; n++) await from.add("job", n);
      const would = await adopt({});
      const report = await adopt();
      // What the server alone can say is in no dry run.
      expect(report.refused.filter(({ reason }) => !reason.startsWith("the queue already has"))).toEqual(would.refused);
      const reasons = Object.fromEntries(report.refused.map(({ id, reason }) => [id.slice(0, 14), reason]));
      expect(reasons).toEqual({
        child: "it is a child job: adoption does not move flows",
        [`${"x".repeat(14)}`]: expect.stringContaining("128"),
        "AAAAAAAAA.0001": "Expected `id` not to start with `!` or look like a generated id",
        "!room": "Expected `id` not to start with `!` or look like a generated id",
        "long name": expect.stringContaining("name of a job"),
        taken: "the queue already has a job with its id: taken",
        keyed: expect.stringMatching(/^the queue already has a job with its key: .{14}$/),
      });
      expect(report.moved.waiting).toBe(150);
      for (const { left } of [would, report]) expect(left).toMatchObject({ waitingChildren: 1, children: 1 });
      const ran: string[] = [];
      bullWorker(({ id = "" }) => ran.push(id));
      // These run at BullMQ, and the parent after its child.
      await eventually(() => expect(ran).toHaveLength(7), patient);
      expect(ran.toSorted()).toEqual([
        "!room",
        "AAAAAAAAA.0001",
        "child",
        "keyed",
        "long name",
        "parent",
        "x".repeat(129),
      ]);
    });

    it("keeps the key of a job whose id has a blank, until the job ends, even if the id is used again", async () => {
      await bull().add("job", 1, { jobId: "user 7%", deduplication: { id: "user 7%" } });
      expect((await adopt()).moved.waiting).toBe(1);
      const queue = make();
      const unique = { key: "user 7%" };
      expect(await queue.addOnce("job", 2, { unique })).toMatchObject({ id: "user 7%", isAdded: false });
      const runs = new Runs();
      const worker = work(queue, runs.handler);
      await runs.until(1);
      await worker.close();
      await queue.add("job", 3, { id: "user 7%", delayMs: 600_000 });
      expect(await queue.addOnce("job", 4, { unique })).toMatchObject({ isAdded: true });
    });

    it("makes schedules of job schedulers, which continue after the next job, and refuses those that differ", async () => {
      const from = bull();
      const hour = 3_600_000;
      const options = { attempts: 4, backoff: 100, priority: 3 };
      await from.upsertJobScheduler("every", { every: hour, limit: 5 }, { name: "job", data: { a: 1 }, opts: options });
      await from.upsertJobScheduler("cron", { pattern: "0 3 * * *", tz: "Asia/Tokyo" }, { name: "job" });
      await from.upsertJobScheduler("zoneless", { pattern: "30 4 * * *" }, { name: "job" });
      // Its next job is its last one.
      const daily = { pattern: "0 3 * * *", tz: "Asia/Tokyo", endDate: Date.now() + 24 * hour + 60_000 };
      await from.upsertJobScheduler("ending", daily, { name: "job" });
      await from.upsertJobScheduler("there", { every: hour }, { name: "job" });
      const schedules = createSchedules(redis.client, name, { prefix: redis.prefix });
      redis.defer(() => schedules.close());
      await schedules.upsert("there", { name: "job", everyMs: 5 * hour });
      const nexts = Object.fromEntries((await from.getJobSchedulers()).map(({ key, next }) => [key, next]));
      const would = await adopt({});
      const report = await adopt();
      expect(report).toEqual({ ...would, isDryRun: false });
      expect(report.refused.map(({ kind, id, reason }) => `${kind} ${id} ${reason}`).toSorted()).toEqual([
        expect.stringMatching(/^job repeat:there:\d+ its job scheduler cannot move$/),
        expect.stringMatching(/^job repeat:zoneless:\d+ its job scheduler cannot move$/),
        "scheduler there the queue already has a schedule with this id: remove one of them",
        "scheduler zoneless its pattern has no time zone: set `timezone`",
      ]);
      // Their next jobs: `every` begins with one that is due at once.
      expect(report.moved).toEqual({
        waiting: expect.any(Number),
        prioritised: expect.any(Number),
        delayed: expect.any(Number),
        schedules: 3,
      });
      expect(report.moved.waiting + report.moved.prioritised + report.moved.delayed).toBe(3);
      expect(await schedules.get("ending")).toBeUndefined();
      expect(await schedules.get("every")).toMatchObject({ nextAt: nexts["every"]! + hour, left: 4, data: { a: 1 } });
      expect(await schedules.get("cron")).toMatchObject({ nextAt: nexts["cron"]! + 24 * hour, timezone: "Asia/Tokyo" });
      expect((await from.getJobSchedulers()).map(({ key }) => key).toSorted()).toEqual(["there", "zoneless"]);
      expect(
        (await adopt({ run: true, timezone: "Pacific/Chatham" })).refused.map(({ reason }) => reason),
      ).toContainEqual(expect.stringMatching(/^its next job in BullMQ is at .*, but croner computes /));
      expect(await adopt({ run: true, timezone: Intl.DateTimeFormat().resolvedOptions().timeZone })).toMatchObject({
        moved: { schedules: 1 },
      });
    });

    /** Writes a job scheduler and its next job as an older BullMQ did. */
    const write = async (
      id: string,
      at: number,
      definition: Record<string, string>,
      { place = id, data = {}, opts = {}, due = at }: { place?: string; data?: unknown; opts?: object; due?: number },
    ): Promise<string> => {
      const base = `${bullPrefix()}:${name}:`;
      const job = `repeat:${place}:${at}`;
      const { timestamp, delay } = { timestamp: due - 5_000, delay: 5_000 };
      const stored = { ...opts, jobId: job, prevMillis: at, timestamp, delay };
      const text = { data: JSON.stringify(data), opts: JSON.stringify(stored), timestamp: String(timestamp) };
      await fixture.db.zadd(`${base}repeat`, String(at), id);
      if (definition["name"] !== undefined) await fixture.db.hset(`${base}repeat:${id}`, definition);
      await fixture.db.hset(`${base}${job}`, { name: "job", ...text, delay: String(delay), priority: "0", rjk: id });
      await fixture.db.zadd(`${base}delayed`, String(due * 4_096), job);
      return job;
    };
    // All of these times have passed neither in Berlin nor for their `endDate`.
    const [hour, at, endDate] = [3_600_000, Date.UTC(2033, 4, 10, 1), 2_000_000_000_000];

    it("reads what BullMQ 5 stored only in the next job: data, options, limit, and the definition itself", async () => {
      const opts = { attempts: 5, priority: 3 };
      const repeat = { every: hour, count: 2, limit: 5 };
      // 5.0.0, `add` with `repeat`: no hash, and the ids of jobs have an md5 of name, jobId and key.
      const cron = { pattern: "0 3 * * *", tz: "Europe/Berlin", endDate, jobId: "x", count: 1 };
      const nightly = "nightly:x:2000000000000:Europe/Berlin:0 3 * * *";
      await write(
        nightly,
        at,
        {},
        { place: "1a9173309224f053c6502f576126ef37", data: { n: 1 }, opts: { ...opts, repeat: cron } },
      );
      // 5.0.0, `immediately`: each run is so much later than its id says.
      const immediate = { place: "b0e9bffba1a730a1ed0f48a8781a4433", due: at + 1_234 };
      await write(
        "digest::::3600000",
        at,
        {},
        { ...immediate, data: { n: 2 }, opts: { ...opts, repeat: { ...repeat, offset: 1_234 } } },
      );
      // The same that a worker of 5.81.5 went on with: the md5 is without the jobId.
      const continued = { place: "8803a5b1406f3b13ddb65d5c1a128304", data: { n: 3 } };
      await write("digest:x:::1000", at, {}, { ...continued, opts: { ...opts, repeat: { ...repeat, every: 1_000 } } });
      // 5.10.0 until 5.81.5, `add` with `repeat`; and 5.16.0 until 5.30.0, `upsertJobScheduler`.
      await write("billing", at, { name: "job", every: "3600000" }, { data: { n: 4 }, opts: { ...opts, repeat } });
      // 5.36.0, `upsertJobScheduler`: its limit is only in the job, and each run is later by the offset.
      const template = { data: '{"n":5}', opts: JSON.stringify(opts) };
      await write(
        "offset",
        at,
        { name: "job", every: "3600000", ic: "1", ...template },
        { due: at + 77, opts: { ...opts, repeat: { ...repeat, offset: 77 } } },
      );
      // 5.20.0, and then a worker of 5.81.5, which counts from 1 in the hash.
      const counted = { name: "job", every: "3600000", ic: "1" };
      await write("counted", at, counted, { data: { n: 6 }, opts: { ...opts, repeat } });

      const would = await adopt({});
      const report = await adopt();
      expect(report).toEqual({ ...would, isDryRun: false });
      expect(report).toMatchObject({ ...nothing, moved: { delayed: 6, schedules: 6 } });
      expect(await leftKeys()).toEqual([]);
      const schedules = createSchedules(redis.client, name, { prefix: redis.prefix });
      redis.defer(() => schedules.close());
      const { templates } = fixture.keysOf();
      const facts = await Promise.all(
        [nightly, "digest::::3600000", "digest:x:::1000", "billing", "offset", "counted"].map(async (id) => {
          const { data, nextAt, left, endAt } = (await schedules.get(id))!;
          expect(await fixture.db.hget(templates, id)).toMatch(/^job a5 b0,1,\d+,0 p3\n/);
          return [(data as { n: number }).n, nextAt! - at, left ?? endAt];
        }),
      );
      expect(facts).toEqual([
        [1, 24 * hour, endDate],
        [2, hour + 1_234, 3],
        [3, 1_000, 3],
        [4, hour, 3],
        [5, hour + 77, 3],
        [6, hour, 3],
      ]);
    });

    it("leaves a job scheduler and its next job together at BullMQ, and continues with the others", async () => {
      const from = bull();
      await from.upsertJobScheduler("big", { every: hour }, { name: "job", data: "y".repeat(300_000) });
      await from.upsertJobScheduler("fine", { every: hour }, { name: "job" });
      // 5.0.0, a name with colons: BullMQ itself reads them as parts of the key, so where the next job is cannot be known.
      const repeat = { every: hour, count: 1 };
      const kept = await write(
        "a:b::::3600000",
        at,
        {},
        { place: "e80f09226f8fc8ec823a583cc2225ffc", opts: { repeat } },
      );
      // 5.20.0: a worker has its next job, and has not yet added the one after it.
      const active = await write("active", at, { name: "job", every: "3600000" }, { data: { n: 1 }, opts: { repeat } });
      const base = `${bullPrefix()}:${name}:`;
      const due = await fixture.db.zscore(`${base}delayed`, active);
      await fixture.db.zrem(`${base}delayed`, active);
      await fixture.db.lpush(`${base}active`, active);
      const reasons = ({ refused }: AdoptReport): string[] =>
        refused.map(({ kind, id, reason }) => `${kind} ${id.replace(/big:\d+/, "big")} ${reason}`).toSorted();
      const always = [
        `job ${kept} its job scheduler cannot move`,
        "job repeat:big its job scheduler cannot move",
        "scheduler a:b::::3600000 BullMQ has no next job for it",
        'scheduler big The data of a "job" job has 300002 bytes, more than the maximum of 262144',
      ].toSorted();
      expect(reasons(await adopt({}))).toEqual(always);
      const report = await adopt();
      const begun = "scheduler active its next job has started or was removed: repeat the adoption";
      expect(reasons(report)).toEqual([...always, begun].toSorted());
      expect(report.moved).toMatchObject({ delayed: 0, schedules: 1 });
      expect((await fixture.db.zrange(`${base}repeat`, "0", "-1")).toSorted()).toEqual([
        "a:b::::3600000",
        "active",
        "big",
      ]);

      await fixture.db.lrem(`${base}active`, 1, active);
      await fixture.db.zadd(`${base}delayed`, String(due), active);
      const again = await adopt();
      expect(reasons(again)).toEqual(always);
      expect(again.moved).toMatchObject({ delayed: 1, schedules: 1 });
    });

    it("is moved by a user with the guide's rights in addition to a queue's rights", async () => {
      const guide = readFileSync(new URL("../../../apps/docs/migration/bullmq.md", import.meta.url), "utf8");
      const [, shown = ""] = /^  ~bull:mail:\* (.*)$/m.exec(guide) ?? [];
      const rules = [...user.rulesOf(mode, redis.prefix), `~${bullPrefix()}:${name}:*`, ...shown.split(" ")];
      const [, , password, ...grants] = rules;
      const login = { username: "mover", password: password!.slice(1) };
      for (const node of redis.server.nodes)
        await node.call("ACL", "SETUSER", login.username, "reset", "on", password!, ...grants);
      const from = bull();
      await from.addBulk([1, 2].map((n) => ({ name: "job", data: n, opts: { delay: (n - 1) * 600_000 } })));
      await from.add("job", 3, { priority: 1, deduplication: { id: "key" } });
      await from.upsertJobScheduler("every", { every: 3_600_000 }, { name: "job" });
      const client = redis.connect(login) as never;
      const address = { from: name, bullPrefix: bullPrefix() };
      const report = await adoptBullQueue(client, address, { queue: name, prefix: redis.prefix }, { run: true });
      expect(report).toMatchObject({ moved: { prioritised: 1, schedules: 1 }, refused: [] });
      expect(await leftKeys()).toEqual([]);
      // Nothing more is granted than it needs.
      for (const grant of shown.split(" ")) {
        const used = await usedCommands(redis.server.nodes);
        expect(used).toContain(grant.slice(1));
      }
      for (const node of redis.server.nodes) await node.call("ACL", "DELUSER", login.username);
    });

    it("refuses to wake a paused queue, and a second queue while the first has jobs on their way", async () => {
      const from = bull();
      await from.add("job", 1);
      await from.pause();
      expect(await adopt({})).toMatchObject({ isPaused: true, moved: { waiting: 1 } });
      expect(await rejection(adopt())).toBeInstanceOf(AdoptionError);
      await pauseQueue(redis.client, { queue: name, prefix: redis.prefix });
      expect(await adopt()).toMatchObject({ isPaused: true, moved: { waiting: 1 } });
      await from.resume();
      await from.add("job", 2);
      const base = `${bullPrefix()}:${name}:`;
      const keys = { state: `${base}meta:kit-adopting`, listed: `${base}wait`, lists: [] };
      const state = await fixture.db.hgetall(keys.state);
      const slice = {
        token: state["token"]!,
        target: keyHead(redis.prefix, "other"),
        number: Number(state["number"]) + 1,
      };
      const [id] = await fixture.db.lrange(keys.listed, 0, 0);
      await scripts.hold.run(redis.client, keys, {
        ...slice,
        kind: "wait",
        start: 0,
        next: "",
        wanted: [{ id: id!, score: "0" }],
      });
      expect(await rejection(adopt())).toMatchObject({ code: "KIT_QUEUE_ADOPTION" });
      await adoptBullQueue(
        redis.client,
        { from: name, bullPrefix: bullPrefix() },
        { queue: "other", prefix: redis.prefix },
        { run: true },
      );
      expect(await fixture.counts("other")).toMatchObject({ jobs: 1 });
    });

    it("gives a slice that the server refuses back to BullMQ, as it was", async () => {
      const from = bull();
      for (const n of [1, 2, 3]) await from.add("job", n, { deduplication: { id: `key ${n}` } });
      for (const n of [4, 5]) await from.add("job", n, { priority: n });
      await from.add("job", 6, { delay: 600_000 });
      await from.upsertJobScheduler("every", { every: 3_600_000, offset: 1 }, { name: "job" });
      const stored = async (): Promise<unknown> => ({
        jobs: (await from.getJobs(["wait", "prioritized", "delayed"], 0, -1, true)).map(({ id, data }) => [id, data]),
        schedulers: await from.getJobSchedulers(),
        keys: await leftKeys(),
      });
      const { adopted, schedules, jobs } = fixture.keysOf();
      const refuse = async (key: string): Promise<void> => {
        const before = await stored();
        await fixture.db.set(key, "foreign", "PX", 60_000);
        expect(await rejection(adopt())).toMatchObject({ code: "KIT_KEY_TYPE", key });
        await fixture.db.del(key);
        expect(await stored()).toEqual(before);
      };
      await refuse(schedules);
      await refuse(adopted);
      // Otherwise it would be the first that is refused.
      await from.removeJobScheduler("every");
      await refuse(adopted);
      await refuse(jobs);
      expect(await adopt()).toMatchObject({ moved: { waiting: 3, prioritised: 2, delayed: 1 }, unsure: [] });
      expect(await leftKeys()).toEqual([]);
    });

    it("adds a slice once, however late its calls are repeated, and reports jobs that it cannot be sure of", async () => {
      const from = bull();
      const [queue, runs] = [make(), new Runs()];
      for (const n of [1, 2]) await from.add("job", n);
      await adopt();
      work(queue, runs.handler);
      await runs.until(2);
      await fixture.untilEmpty();
      for (const n of [3, 4]) await from.add("job", n);
      const base = `${bullPrefix()}:${name}:`;
      const keys = { state: `${base}meta:kit-adopting`, listed: `${base}wait`, lists: [] };
      const { token = "", number = "" } = await fixture.db.hgetall(keys.state);
      const hold = (slice: number): ReturnType<typeof scripts.hold.run> =>
        scripts.hold.run(redis.client, keys, {
          ...{ token, target: keyHead(redis.prefix, name), number: slice, kind: "wait", start: 0, next: "" },
          wanted: ["3", "4"].map((id) => ({ id, score: "0" })),
        });
      const next = Number(number) + 1;
      // A late copy of the slice before takes nothing.
      expect(await hold(Number(number))).toEqual([]);
      const items = await hold(next);
      expect(items.map(({ id }) => id)).toEqual(["3", "4"]);
      expect(await hold(next)).toEqual(items);
      expect(await hold(next + 1)).toEqual([]);
      // The jobs of the slice are added, and the process dies; they run; its answers expire.
      const before = await fixture.db.hgetall(keys.state);
      const blobs: string[] = await Promise.all(
        [`${base}3`, `${base}4`].map((key) => fixture.db.hget(key, "data").then(String)),
      );
      expect(blobs).toEqual(["3", "4"]);
      await fixture.db.zadd(fixture.keysOf().adopted, String(next), token);
      expect(await adopt()).toMatchObject({ moved: { waiting: 0 }, unsure: ["3", "4"] });
      expect(before["count"]).toBe("2");
      expect(runs.data).toEqual([1, 2]);
      expect(await leftKeys()).toEqual([]);
      // And so does a late copy of the call that ended it.
      const { release } = scripts;
      const bullKeys = Object.fromEntries(
        ["wait", "paused", "prioritized", "delayed", "repeat"].map((part) => [part, base + part]),
      ) as Record<"wait" | "paused" | "prioritized" | "delayed" | "repeat", string>;
      const ending = { ...bullKeys, repeats: bullKeys.repeat, state: keys.state, gone: [] };
      expect(await release.run(redis.client, ending, { token, number: next, back: "1 2", holders: [] })).toBe(false);
      expect(await hold(next)).toEqual([]);
    });

    if (mode === "single")
      it("loses nothing and adds nothing twice when the process is killed after any of its calls", async () => {
        const from = bull();
        const [queue, runs] = [make(), new Runs()];
        work(queue, runs.handler);
        await from.upsertJobScheduler("later", { every: 900_000_000, offset: 1 }, { name: "job", data: "scheduled" });
        const program = new URL("programs/adopt.mjs", import.meta.url);
        const args = ["single", String(redis.server.nodes[0]!.port), redis.prefix, name, bullPrefix()];
        let [added, kills] = [0, 0];
        for (let isKilled = true; isKilled; kills++) {
          const data = Array.from({ length: 3 }, () => ({ name: "job", data: added++ }));
          await from.addBulk(data.map((job, index) => ({ ...job, opts: { priority: index } })));
          const { code } = await runProgram(redis, program, [...args, String(kills + 1)]);
          isKilled = code === null;
        }
        const { unsure, refused } = await adopt();
        expect([unsure, refused]).toEqual([[], []]);
        await runs.until(added);
        await eventually(async () => expect(await fixture.counts()).toMatchObject({ jobs: 1, delayed: 1 }), patient);
        const schedules = createSchedules(redis.client, name, { prefix: redis.prefix });
        redis.defer(() => schedules.close());
        expect((await schedules.list()).map(({ id, left }) => [id, left])).toEqual([["later", undefined]]);
        expect(runs.data.toSorted((a, b) => Number(a) - Number(b))).toEqual(Array.from({ length: added }, (_, n) => n));
        expect(kills).toBeGreaterThan(15);
        expect(await leftKeys()).toEqual([]);
      });

    it("runs each of 3,000 jobs once, here or there, while workers and producers continue and processes are killed", async () => {
      const from = bull();
      const [queue, runs] = [make(), new Runs()];
      const there: number[] = [];
      const count = 3_000;
      const jobOf = (n: number) => ({
        name: "job",
        data: n,
        opts: n % 5 === 0 ? { priority: 1 + (n % 7) } : n % 3 === 0 ? { delay: 1 + (n % 2_000) } : {},
      });
      for (let n = 0; n < count - 500; n += 500)
        await from.addBulk(Array.from({ length: 500 }, (_, index) => jobOf(n + index)));
      bullWorker(({ data }) => there.push(data as number), { concurrency: 3, limiter: { max: 60, duration: 1_000 } });
      work(queue, runs.handler, { concurrency: 10 });
      const ports = redis.server.nodes.map(({ port }) => port).join(",");
      const args = [redis.server.mode, ports, redis.prefix, name, bullPrefix()];
      const producing = (async () => {
        for (let n = count - 500; n < count; n++)
          await from.add(...(Object.values(jobOf(n)) as ["job", number, object]));
      })();
      for (let kills = 0; kills < 6; kills++) {
        const peer = new Peer(new URL("programs/adopt.mjs", import.meta.url), args);
        redis.defer(() => peer.kill());
        await peer.ready;
        const goal = runs.jobs.length + 150;
        await eventually(
          () =>
            expect(Math.min(count - 1, runs.jobs.length + there.length)).toBeGreaterThanOrEqual(
              Math.min(goal, count - 300),
            ),
          patient,
        );
        await peer.kill();
      }
      await producing;
      const report = await eventually(async () => {
        const last = await adopt();
        expect(last.refused).toEqual([]);
        expect(runs.jobs.length + there.length).toBeGreaterThanOrEqual(count);
        return last;
      }, patient);
      expect(report.unsure).toEqual([]);
      const all = [...there, ...(runs.data as number[])].toSorted((a, b) => a - b);
      expect(all).toEqual(Array.from({ length: count }, (_, n) => n));
      expect(there.length).toBeGreaterThan(0);
      expect(runs.jobs.length).toBeGreaterThan(300);
      await fixture.untilEmpty();
    });

    if (mode === "single")
      it("takes a queue of another database", async () => {
        const other = redis.connect({ db: 1 });
        const from = new BullQueue(name, {
          connection: redis.connect({ db: 1, maxRetriesPerRequest: null }) as never,
        });
        await from.add("job", 1);
        const report = await adoptBullQueue(
          redis.client,
          { from: name, redis: other as never },
          { queue: name, prefix: redis.prefix },
          { run: true },
        );
        expect(report.moved.waiting).toBe(1);
        await from.obliterate({ force: true });
        await from.close();
      });
  });
});
