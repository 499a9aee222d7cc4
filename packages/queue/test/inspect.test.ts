import type { Connection } from "@kit/core";
import type { CliCommand, CliOption, Report } from "@kit/core/toolkit";
import { eventually, useRedis } from "@kit/testing";
import { commandCall, inspectCall, rejection } from "@tooling/vitest/helpers";
import { Queue as BullQueue } from "bullmq";
import * as vitest from "vitest";
import { beforeEach, describe, expect, it } from "vitest";
import { descriptor } from "../src/descriptor/index.js";
import { keepHistory } from "../src/history/index.js";
import { type Job, type Queue, RateLimitError, UnrecoverableError } from "../src/index.js";
import { inspectJob, inspectQueue, listJobs, listWorkers, repairQueue, setLimits } from "../src/manage/index.js";
import { reportProgress, saveCheckpoint, writeLog } from "../src/progress/index.js";
import { createSchedules } from "../src/schedules/index.js";
import { fixtureOf, latch, name, permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys: [...permanentKeys, "bull:*"] });
const fixture = fixtureOf(redis);
const client = (): Connection => redis.client as unknown as Connection;
type Options = Parameters<typeof commandCall>[2];

const look = async (thing: string, ...args: string[]) =>
  await descriptor.inspectors!.find((one) => one.thing === thing)!.look(inspectCall(client(), redis.prefix), ...args);
const commandOf = (path: string): CliCommand => descriptor.commands!.find((one) => one.path === path)!;
/** A call that refuses, as the command line does, to read an option that the command does not declare. */
const callOf = ({ path, options: declared = [] }: CliCommand, options: Options = {}) => {
  const call = commandCall(client(), redis.prefix, options);
  const reading =
    <T>(takes: CliOption["takes"], read: (option: string) => T) =>
    (option: string): T => {
      if (!declared.some((one) => one.name === option && one.takes === takes))
        throw new Error(`kit ${path} declares no option ${option}`);
      return read(option);
    };
  const { text, integer, isSet } = call;
  return {
    ...call,
    text: reading("text", text),
    integer: reading("integer", integer),
    isSet: reading(undefined, isSet),
  };
};
const run = async (path: string, args: readonly string[], options?: Options) => {
  const call = callOf(commandOf(path), options);
  await commandOf(path).run(call, ...args);
  return call.written.reports[0];
};
/** The whole report of a command. */
const reportOf = async (path: string, args: readonly string[], options?: Options): Promise<Report> => {
  const call = callOf(commandOf(path), options);
  const reports: Report[] = [];
  const report = (one: Report): Promise<void> => Promise.resolve(void reports.push(one));
  await commandOf(path).run({ ...call, output: { ...call.output, report } }, ...args);
  return reports[0]!;
};
/** Whether the command says that there is no such thing, and ends with code 1. */
const isUnknown = async (path: string, args: readonly string[], options?: Options): Promise<boolean> =>
  (await reportOf(path, args, options)).isUnknown ?? false;

let queue: Queue;
let ids: Record<"dead" | "odd" | "active" | "waiting" | "urgent" | "delayed", string>;
let open: () => void;
/** One job in each state, and a second dead one. */
beforeEach(async () => {
  queue = fixture.make({ maxAttempts: 2, backoff: { firstMs: 1 } });
  const held = latch();
  ({ open } = held);
  redis.defer(open);
  const handlers = {
    job: async ({ data }: Job) => {
      if (data === "active") await held.promise;
      else throw new TypeError(`no ${String(data)}`);
    },
    odd: () => {
      throw new UnrecoverableError("There is no odd job");
    },
  };
  const worker = queue.work(handlers, { strict: true, abortGraceMs: 100 });
  const untilDead = (): Promise<unknown> => new Promise((resolve) => worker.once("dead", resolve));
  const add = async (job: string): Promise<string> => {
    const died = untilDead();
    const id = await queue.add(job, job);
    await died;
    return id;
  };
  const [dead, odd] = [await add("job"), await add("odd")];
  const active = await queue.add("job", "active");
  await eventually(() => {
    if (worker.running !== 1) throw new Error("it has not begun");
  });
  const [waiting, urgent, delayed] = [
    await queue.add("job", { secret: 1 }),
    await queue.add("job", "urgent", { priority: -4 }),
    await queue.add("job", "delayed", { delayMs: 3_600_000, priority: 2, id: "own *?[" }),
  ];
  ids = { dead, odd, active, waiting, urgent, delayed };
});

/** The worker has shown itself. */
const untilListed = (): Promise<void> =>
  eventually(async () => {
    const { workers } = await listWorkers(client(), { queue: name, prefix: redis.prefix });
    expect(workers).toHaveLength(1);
  });

describe("kit inspect queue", () => {
  it("counts the jobs of each state, and says when something happens next", async () => {
    await untilListed();
    const { data, facts } = await look("queue", name);
    expect(data).toMatchObject({
      ...{ queue: name, jobs: 6, waiting: 1, prioritised: 1, delayed: 1, active: 1, dead: 2, died: 2 },
      ...{ nextDue: expect.any(Number), firstLeaseEnd: expect.any(Number), oldestDead: expect.any(Number) },
    });
    // The worker may have shown its job already.
    const shown = facts!.map(([fact]) => fact).filter((fact) => fact !== "longest");
    expect(shown).toEqual(["queue", "ready", "delayed", "active", "dead", "totals", "workers", "waits because"]);
  });

  it("reports a queue that was never used as unknown, and writes nothing", async () => {
    expect(await look("queue", "unused")).toMatchObject({ data: { queue: "unused" }, isUnknown: true });
    expect((await redis.keys()).filter((key) => key.includes("unused"))).toEqual([]);
  });
});

describe("kit queue pause", () => {
  it("pauses a queue, which reports and lists say, until it is resumed", async () => {
    expect(await run("queue pause", [name])).toMatchObject({ queue: name, ready: 2, active: 1 });
    const { data, facts, summary } = await look("queue", name);
    expect(data).toMatchObject({ pausedAt: expect.any(Number) });
    expect(facts).toContainEqual(["limits", expect.stringMatching(/^paused for /)]);
    expect(summary).toMatch(/^paused: 2 ready/);
    const [check] = descriptor.checks!;
    const checked = () => check!.look({ redis: client(), prefix: redis.prefix, signal: new AbortController().signal });
    expect(await checked()).toEqual([
      {
        severity: "warning",
        text: expect.stringMatching(/^queue mail has been paused for .*, with 2 ready jobs$/),
        fix: "kit queue resume mail",
      },
    ]);
    expect(await run("queue resume", [name])).toMatchObject({ queue: name, pausedAt: null });
    expect(await checked()).toEqual([{ severity: "ok", text: "no queue is paused" }]);
    expect((await look("queue", name)).summary).toMatch(/^2 ready/);
  });

  it("adopts nothing from a BullMQ queue that is not there, and makes no queue", async () => {
    expect(await isUnknown("queue adopt", ["nosuch", "maill"], { run: true })).toBe(true);
    expect((await redis.keys()).filter((key) => key.includes("maill"))).toEqual([]);
  });

  it("shows the groups of a queue, and pauses, lists and drains one", async () => {
    const address = { queue: "tenants", prefix: redis.prefix };
    const tenants = fixture.make({ name: "tenants" });
    const facts = async () => Object.fromEntries((await look("queue", "tenants")).facts ?? []);
    for (let n = 0; n < 3; n++) await tenants.add("job", n, { group: "odd one" });
    await tenants.add("job", 0, { group: "b" });
    await tenants.add("job", 0);
    expect((await look("queue", "tenants")).summary).toMatch(/^5 ready/);
    expect(await facts()).toMatchObject({
      groups: "2, 2 can start a job, 4 ready jobs",
      largest: "odd one: 3 ready jobs",
      oldest: expect.stringMatching(/^odd one: next job added .* ago$/),
    });
    const check = descriptor.checks!.find(({ id }) => id === "queue-groups")!;
    const checked = () => check.look({ redis: client(), prefix: redis.prefix, signal: new AbortController().signal });
    expect(await checked()).toEqual([{ severity: "ok", text: "no group of jobs is halted" }]);
    expect(await run("queue pause", ["tenants"], { group: "odd one" })).toMatchObject({
      group: "odd one",
      isPaused: true,
    });
    expect(await facts()).toMatchObject({
      groups: "2, 1 can start a job, 4 ready jobs",
      "group odd one": expect.stringMatching(/^paused for /),
    });
    expect(await checked()).toEqual([
      {
        severity: "warning",
        text: expect.stringMatching(/^group odd one of queue tenants has 3 ready and starts none: paused for /),
        fix: 'kit queue resume tenants --group "odd one"',
      },
    ]);
    expect((await reportOf("queue groups", ["tenants"])).table?.rows).toEqual([
      ["b", "1", "0", "1", "1", expect.any(String), ""],
      ["odd one", "3", "0", "1", "1", expect.any(String), expect.stringMatching(/^paused for /)],
    ]);
    expect(await run("queue list", ["tenants"], { group: "odd one", count: 2 })).toMatchObject({
      ...{ state: "grouped", next: 2 },
      jobs: [{ group: "odd one" }, { group: "odd one" }],
    });
    expect(await run("queue drain", ["tenants"], { group: "odd one" })).toMatchObject({ isDryRun: true, count: 3 });
    expect(await run("queue drain", ["tenants"], { group: "odd one", run: true })).toMatchObject({ count: 3 });
    expect(await run("queue resume", ["tenants"], { group: "odd one" })).toMatchObject({ isPaused: false });
    expect(await inspectQueue(redis.client, address)).toMatchObject({ jobs: 2, grouped: 1, groups: 1, lost: 0 });
    expect(await isUnknown("queue groups", ["nosuch"])).toBe(true);
  });

  it("cancels the ready and the active jobs of a group", async () => {
    const tenants = fixture.make({ name: "tenants" });
    const started = latch();
    fixture.work(tenants, async ({ signal }) => {
      started.open();
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
    });
    for (let n = 0; n < 3; n++) await tenants.add("job", n, { group: "odd one" });
    await started.promise;
    await tenants.add("job", 0, { group: "odd one's neighbor", delayMs: 60_000 });
    const cancel = (options: Options): Promise<Report> => reportOf("queue drain", ["tenants"], options);
    const whole = { group: "odd one", active: true } as const;
    const next = ["next step", expect.anything()];
    expect((await cancel(whole)).facts).toEqual([["would be deleted", "3"], next]);
    expect((await cancel({ group: "odd one" })).facts).toEqual([["would be deleted", "2"], next]);
    expect((await cancel({ ...whole, run: true })).facts).toEqual([["deleted", "3"]]);
    expect((await cancel(whole)).facts).toEqual([["would be deleted", "0"]]);
    expect(await inspectQueue(redis.client, { queue: "tenants", prefix: redis.prefix })).toMatchObject({ jobs: 1 });
    const refused: readonly Options[] = [
      { active: true },
      { ...whole, delayed: true },
      { group: "odd one", delayed: true },
    ];
    for (const options of refused) expect(await rejection(cancel(options))).toBeInstanceOf(TypeError);
  });

  it("finds a group that a handler has stopped for long", async () => {
    const tenants = fixture.make({ name: "tenants" });
    const check = descriptor.checks!.find(({ id }) => id === "queue-groups")!;
    const checked = () => check.look({ redis: client(), prefix: redis.prefix, signal: new AbortController().signal });
    let stopMs = 3_000_000;
    const worker = fixture.work(tenants, () => {
      throw new RateLimitError(stopMs, { group: true });
    });
    const stopped = () => new Promise((resolve) => worker.once("snoozed", resolve));
    await Promise.all([stopped(), tenants.add("job", 0, { group: "short" })]);
    expect(await checked()).toMatchObject([{ severity: "ok" }]);
    stopMs = 4_000_000;
    await Promise.all([stopped(), tenants.add("job", 0, { group: "long" })]);
    await eventually(async () =>
      expect(await checked()).toEqual([
        {
          severity: "warning",
          text: expect.stringMatching(/^group long of queue tenants has 1 ready and starts none: no starts for /),
          fix: "kit queue resume tenants --group long",
        },
      ]),
    );
    // To resume a group would also skip the rate of its jobs, which stops it between them.
    await setLimits(
      redis.client,
      { queue: "tenants", prefix: redis.prefix },
      { groupRate: { count: 1, perMs: 9_000_000 } },
    );
    expect(await checked()).toMatchObject([{ severity: "ok" }]);
  });

  it("says that a queue or a name is unknown, and changes nothing without --create", async () => {
    for (const path of ["queue pause", "queue resume"])
      for (const options of [{}, { name: "job" }]) expect(await isUnknown(path, ["maill"], options)).toBe(true);
    expect((await redis.keys()).filter((key) => key.includes("maill"))).toEqual([]);
    expect(await run("queue pause", ["maill"], { create: true })).toMatchObject({ pausedAt: expect.any(Number) });
    // It is there from then on, without a job.
    expect((await look("queue", "maill")).summary).toMatch(/^paused: 0 ready/);
    expect(await isUnknown("queue pause", ["maill"], { name: "job" })).toBe(false);
    expect(await isUnknown("queue resume", ["maill"], { name: "other" })).toBe(true);
    for (const options of [{}, { name: "job" }])
      expect(await isUnknown("queue resume", ["maill"], options)).toBe(false);
    const { pausedAt, names } = await inspectQueue(redis.client, { queue: "maill", prefix: redis.prefix });
    expect([pausedAt, names]).toEqual([null, []]);
    expect(await isUnknown("queue resume", [name])).toBe(false);
    expect(await isUnknown("queue resume", [name], { name: "nosuch" })).toBe(true);
  });

  it("pauses the jobs of one name, and then names it wherever the queue is shown", async () => {
    await setLimits(redis.client, { queue: name, prefix: redis.prefix }, { names: { "odd one": { concurrency: 2 } } });
    expect(await run("queue pause", [name], { name: "odd one" })).toMatchObject({
      ...{ queue: name, name: "odd one", suspended: 0, pausedAt: expect.any(Number), ready: 2, active: 1 },
    });
    const noted = ["note", expect.stringMatching(/^no job has this name now/)];
    expect((await reportOf("queue pause", [name], { name: "emial" })).facts).toContainEqual(noted);
    expect(await run("queue resume", [name], { name: "emial" })).toMatchObject({ pausedAt: null });
    const there = await reportOf("queue pause", [name], { name: "job" });
    expect(there.facts).not.toContainEqual(noted);
    expect(await run("queue resume", [name], { name: "job" })).toMatchObject({ pausedAt: null });
    const { data, facts, summary } = await look("queue", name);
    expect(data).toMatchObject({
      pausedAt: null,
      suspended: 0,
      names: [{ name: "odd one", concurrency: 2, suspended: 0 }],
    });
    expect(facts).toContainEqual([
      "name odd one",
      expect.stringMatching(/^paused for .*, 2 jobs at a time, 0 suspended$/),
    ]);
    expect(summary).toMatch(/^2 ready/);
    const [check] = descriptor.checks!;
    const checked = () => check!.look({ redis: client(), prefix: redis.prefix, signal: new AbortController().signal });
    expect(await checked()).toEqual([
      {
        severity: "warning",
        text: expect.stringMatching(/^odd one jobs of queue mail have been paused for .*, with 0 ready jobs$/),
        fix: 'kit queue resume mail --name "odd one"',
      },
    ]);
    expect(await run("queue resume", [name], { name: "odd one" })).toMatchObject({ pausedAt: null, name: "odd one" });
    expect(await checked()).toEqual([{ severity: "ok", text: "no queue is paused" }]);
    expect((await look("queue", name)).data).toMatchObject({ names: [{ name: "odd one", concurrency: 2 }] });
  });
});

describe("@kit/queue/manage", () => {
  it("counts ready jobs of each priority", async () => {
    await queue.addAll([5, -4, 5, 1_048_575, -1_048_575].map((priority) => ({ name: "job", data: 1, priority })));
    const { prioritised, byPriority } = await inspectQueue(redis.client, { queue: name, prefix: redis.prefix });
    expect(prioritised).toBe(6);
    expect(byPriority).toEqual([
      { priority: -1_048_575, jobs: 1 },
      { priority: -4, jobs: 2 },
      { priority: 5, jobs: 2 },
      { priority: 1_048_575, jobs: 1 },
    ]);
  });

  it("finds and lists jobs, with their data only on request", async () => {
    const address = { queue: name, prefix: redis.prefix };
    expect(await inspectJob(redis.client, address, ids.waiting)).not.toHaveProperty("data");
    const report = await inspectJob(redis.client, address, ids.waiting, { withData: true });
    expect(report).toMatchObject({ state: "ready", data: { secret: 1 } });
    expect(await listJobs(redis.client, address, { start: 1, count: 5 })).toMatchObject({
      jobs: [{ id: ids.odd, name: "odd" }],
      next: undefined,
    });
    for (const wrong of [{ count: 101 }, { start: -1 }, { state: "none" as "dead" }, { limit: 1 } as object])
      expect(String(await rejection(listJobs(redis.client, address, wrong)))).toMatch(
        /^(Type|Range)Error: (Expected|Unknown option) /,
      );
  });
});

describe("kit inspect job", () => {
  it("finds a job in each state, without its data", async () => {
    const states = await Promise.all(Object.values(ids).map(async (id) => (await look("job", name, id)).data));
    expect(states).toMatchObject([
      { state: "dead", name: "job", attempts: 2, crashes: 0, error: { name: "TypeError", message: "no job" } },
      { state: "dead", name: "odd", attempts: 1 },
      { state: "active", attempts: 0, at: expect.any(String) },
      { state: "ready", priority: 0, bytes: 12 },
      { state: "ready", priority: -4, at: null },
      { state: "delayed", priority: 2, id: "own *?[", at: expect.any(String) },
    ]);
    expect(JSON.stringify(states)).not.toContain("secret");
    expect((await look("job", name, "nobody")).data).toMatchObject({ state: "none" });
    const unknownQueue = await look("job", "unused", "nobody");
    expect(unknownQueue).toMatchObject({ data: { state: "none" }, isUnknown: true });
    expect(unknownQueue.facts).toContainEqual(["state", expect.stringMatching(/no job was added/)]);
  });
});

describe("the number of completed jobs", () => {
  it("is known soon after the last one, and at once when the worker has closed", async () => {
    const other = fixture.make({ name: "other" });
    const worker = fixture.work(other, () => undefined);
    const done = async (): Promise<unknown> => {
      const completed = new Promise((resolve) => worker.once("completed", resolve));
      await other.add("job", 1);
      return await completed;
    };
    const completed = async (): Promise<number> =>
      (await inspectQueue(client(), { queue: "other", prefix: redis.prefix })).completed;
    for (let n = 0; n < 10; n++) await done();
    await eventually(async () => expect(await completed()).toBe(10));
    for (let n = 0; n < 3; n++) await done();
    await worker.close();
    expect(await completed()).toBe(13);
  });
});

describe("a job whose entry or lease was deleted", () => {
  const address = (): { queue: string; prefix: string } => ({ queue: name, prefix: redis.prefix });

  it("is lost, keeps its id, and runs once the queue is repaired", async () => {
    const keys = fixture.keysOf();
    await queue.add("job", "again", { id: "own", priority: 3 });
    await redis.client.zrem(keys.prioritised, "own");
    await redis.client.del(keys.waiting);
    const lost = ["own", ids.waiting].toSorted();
    expect(await queue.add("job", "again", { id: "own" })).toBe("own");
    expect((await look("job", name, "own")).data).toMatchObject({ state: "lost", priority: 3 });
    const { data, facts } = await look("queue", name);
    expect([data, facts]).toEqual([
      expect.objectContaining({ lost: 2 }),
      expect.arrayContaining([["lost", expect.any(String)]]),
    ]);
    expect(await run("queue repair", [name])).toMatchObject({ isDryRun: true, count: 2 });
    expect(await fixture.counts()).toMatchObject({ waiting: 0, prioritised: 1 });
    expect((await repairQueue(client(), address(), { run: true })).toSorted()).toEqual(lost);
    expect(await run("queue repair", [name], { run: true })).toMatchObject({ isDryRun: false, count: 0 });
    expect(await fixture.counts()).toMatchObject({ jobs: 7, waiting: 1, prioritised: 2, leases: 1 });
    expect(await inspectJob(client(), address(), "own")).toMatchObject({ state: "ready", priority: 3 });
    open();
    await eventually(async () => expect((await look("job", name, "own")).data).toMatchObject({ state: "dead" }));
  });

  it("is found among many, page by page", async () => {
    const many = Array.from({ length: 4_500 }, (_, n) => `many${String(n)}`);
    await queue.addAll(many.map((id) => ({ name: "job", data: 1, id })));
    const { leases } = fixture.keysOf();
    await redis.client.zadd(leases, ...many.flatMap((id) => [1e15, `AAAAAAAAAAAAx${id}`]));
    for (const id of [many[0], many[499], many[500], many[4_499]] as string[])
      expect(await inspectJob(client(), address(), id)).toMatchObject({ id, state: "ready" });
    expect(await inspectJob(client(), address(), ids.active)).toMatchObject({
      state: "active",
      at: expect.any(String),
    });
    expect(await repairQueue(client(), address())).toEqual([]);
  });
});

describe("a job whose name looks like a priority", () => {
  it("is found where it is, and keeps its priority when it is moved back", async () => {
    const other = fixture.make({ name: "other" });
    const later = await other.add("p5", 1, { delayMs: 3_600_000 });
    expect((await look("job", "other", later)).data).toMatchObject({ state: "delayed", at: expect.any(String) });
    await other.add("p5", 1);
    const worker = other.work({
      p5: () => {
        throw new Error("broken");
      },
    });
    await new Promise((resolve) => worker.once("dead", resolve));
    await worker.close();
    expect(await other.redrive()).toBe(1);
    expect(await fixture.counts("other")).toMatchObject({ waiting: 1, prioritised: 0 });
  });
});

describe("kit queue", () => {
  it.each([
    ["dead", ["dead", "odd"], "died"],
    ["waiting", ["waiting"], "added"],
    ["prioritised", ["urgent"], "added"],
    ["delayed", ["delayed"], "due"],
    ["active", ["active"], "lease expires"],
  ] as const)("lists %s jobs, without their data, and says of which instant", async (state, expected, instant) => {
    const { table } = await reportOf("queue list", [name], { state });
    expect(table!.columns[4]).toBe(instant);
    for (const row of table!.rows) expect(row[4]).toMatch(/^\d{4}-.*Z$/);
    const report = await run("queue list", [name], { state });
    expect(report).toMatchObject({ state, jobs: expected.map((one) => ({ id: ids[one] })) });
    expect(JSON.stringify(report)).not.toContain("secret");
    expect(await run("queue list", [name], { state, start: 1, count: 5 })).toMatchObject({
      jobs: expected.slice(1).map((one) => ({ id: ids[one] })),
    });
  });

  it("lists jobs from the end, and of one name, and says where the next page begins", async () => {
    const list = async (options: Options): Promise<string[]> => {
      const { jobs } = (await run("queue list", [name], options)) as unknown as { jobs: readonly { id: string }[] };
      return jobs.map(({ id }) => id);
    };
    expect(await list({ end: true })).toEqual([ids.odd, ids.dead]);
    expect(await list({ name: "odd" })).toEqual([ids.odd]);
    expect(await run("queue list", [name], { count: 1 })).toMatchObject({ next: 1 });
    expect(await run("queue list", [name])).toMatchObject({ next: null });
  });

  it("shows what a handler noted, and jobs that have ended", async () => {
    const other = fixture.make({ name: "other", history: keepHistory() });
    const worker = fixture.work(other, async (job) => {
      void writeLog(job, "first");
      void writeLog(job, "second");
      await reportProgress(job, { percent: 50 });
      await saveCheckpoint(job, "half");
      if (job.data === "dead") throw new Error("broken");
      return { rows: 7 };
    });
    const ended = async (data: string, event: "completed" | "dead"): Promise<string> => {
      const end = new Promise((resolve) => worker.once(event, resolve));
      const id = await other.add("job", data);
      await end;
      return id;
    };
    const [done, dead] = [await ended("done", "completed"), await ended("dead", "dead")];
    const { data, facts } = await look("job", "other", done);
    expect(data).toMatchObject({ state: "completed", outcome: "completed", progress: { percent: 50 }, logLines: 2 });
    const shown = Object.fromEntries(facts!) as Record<string, string>;
    expect(shown).toMatchObject({
      state: "completed",
      completed: expect.any(String),
      taken: expect.any(String),
      "result size": "10 bytes",
      log: `2 lines: kit queue log other ${done}`,
      progress: expect.stringMatching(/^\{"percent":50\}, reported at /),
    });
    expect(Object.fromEntries((await look("queue", "other")).facts!)).toMatchObject({
      kept: "1 completed job: kit queue list other --state completed",
    });
    expect(await run("queue show", ["other", done])).toMatchObject({ result: { rows: 7 } });
    expect(await run("queue show", ["other", dead])).toMatchObject({ state: "dead", checkpoint: "half" });
    expect(await run("queue log", ["other", dead])).toMatchObject({
      kept: 2,
      lines: [{ number: 1, text: "first" }, { text: "second" }],
    });
    expect(await isUnknown("queue log", ["other", dead])).toBe(false);
    expect(await isUnknown("queue log", [name, ids.waiting])).toBe(false);
    expect(await isUnknown("queue log", [name, "nobody"])).toBe(true);
    expect(await run("queue log", ["other", dead], { after: 1, count: 5 })).toMatchObject({ lines: [{ number: 2 }] });
    expect(await run("queue list", ["other"], { state: "completed" })).toMatchObject({ jobs: [{ id: done }] });
  });

  it("refuses an unknown state, and pages that are too long", async () => {
    for (const options of [{ state: "toString" }, { count: 0 }, { count: 101 }])
      expect(await rejection(run("queue list", [name], options as Options))).toBeInstanceOf(RangeError);
  });

  it("shows one job with its data", async () => {
    expect(await run("queue show", [name, ids.waiting])).toMatchObject({ state: "ready", data: { secret: 1 } });
    expect(await run("queue show", [name, "nobody"])).toMatchObject({ state: "none" });
  });

  it("promotes a delayed job, and no other", async () => {
    for (const [id, state] of [
      [ids.delayed, "ready"],
      [ids.active, "active"],
      [ids.dead, "dead"],
      ["nobody", "none"],
    ] as const)
      expect(await run("queue promote", [name, id])).toMatchObject({ id, state });
    expect(await fixture.counts()).toMatchObject({ jobs: 6, prioritised: 2, delayed: 0, dead: 2 });
    open();
  });

  it("removes a ready or delayed job only with --run, and no other", async () => {
    for (const [one, outcome] of [
      ["waiting", "ready"],
      ["delayed", "delayed"],
    ] as const) {
      expect(await run("queue remove", [name, ids[one]])).toMatchObject({ isDryRun: true, count: 1, outcome });
      expect((await look("job", name, ids[one])).data).toMatchObject({ state: outcome });
      expect(await run("queue remove", [name, ids[one]], { run: true })).toMatchObject({ isDryRun: false, count: 1 });
      expect((await look("job", name, ids[one])).data).toMatchObject({ state: "none" });
    }
    for (const options of [{}, { run: true }] as Options[])
      for (const [id, outcome] of [
        [ids.active, "active"],
        [ids.dead, "dead"],
        ["nobody", "none"],
      ] as const)
        expect(await reportOf("queue remove", [name, id], options)).toMatchObject({
          data: { count: 0, outcome },
          isUnknown: outcome === "none",
          hasProblem: outcome !== "none",
        });
    expect(await fixture.counts()).toMatchObject({ jobs: 4, leases: 1, dead: 2 });
    open();
  });

  it("cancels a job that is ready, delayed or active only with --run, and no other", async () => {
    for (const [one, outcome] of [
      ["waiting", "ready"],
      ["delayed", "delayed"],
      ["active", "active"],
    ] as const) {
      expect(await run("queue cancel", [name, ids[one]])).toMatchObject({ isDryRun: true, count: 1, outcome });
      expect((await look("job", name, ids[one])).data).toMatchObject({ state: outcome });
      const { facts } = await reportOf("queue cancel", [name, ids[one]]);
      expect(facts!.some(([fact]) => fact === "handler")).toBe(one === "active");
      const done = { isDryRun: false, count: 1, outcome: one === "active" ? "cancelled" : "removed" };
      expect(await run("queue cancel", [name, ids[one]], { run: true })).toMatchObject(done);
      expect((await look("job", name, ids[one])).data).toMatchObject({ state: "none" });
    }
    for (const [id, outcome] of [
      [ids.dead, "dead"],
      ["nobody", "none"],
    ] as const)
      expect(await run("queue cancel", [name, id], { run: true })).toMatchObject({ count: 0, outcome });
    expect(await fixture.counts()).toMatchObject({ jobs: 3, leases: 0, dead: 2 });
    open();
  });

  it("drains ready jobs, and delayed ones if that is wanted, only with --run", async () => {
    const before = await fixture.counts();
    const ready = before.waiting + before.prioritised;
    expect(ready).toBeGreaterThan(0);
    expect(await run("queue drain", [name])).toMatchObject({ isDryRun: true, count: ready });
    expect(await run("queue drain", [name], { delayed: true })).toMatchObject({ count: ready + before.delayed });
    expect(await fixture.counts()).toEqual(before);
    expect(await run("queue drain", [name], { run: true })).toMatchObject({ isDryRun: false, count: ready });
    expect(await fixture.counts()).toMatchObject({ waiting: 0, prioritised: 0, delayed: before.delayed });
    expect(await run("queue drain", [name], { run: true, delayed: true })).toMatchObject({ count: before.delayed });
    expect(await fixture.counts()).toMatchObject({ jobs: before.leases + before.dead, delayed: 0 });
    open();
  });

  it("cleans jobs of one state by age and name, and purges the queue, only with --run", async () => {
    const before = await fixture.counts();
    expect(String(await rejection(run("queue clean", [name])))).toMatch(/^TypeError: Pass --state/);
    const dead = { state: "dead", name: "odd" };
    expect(await run("queue clean", [name], dead)).toMatchObject({ isDryRun: true, count: 1 });
    expect(await run("queue clean", [name], { state: "dead", "older-than-ms": 600_000 })).toMatchObject({ count: 0 });
    expect(await fixture.counts()).toEqual(before);
    expect(await run("queue clean", [name], { ...dead, run: true })).toMatchObject({ isDryRun: false, count: 1 });
    expect(await fixture.counts()).toMatchObject({ jobs: before.jobs - 1, dead: before.dead - 1 });
    const found = { jobs: before.jobs - 1, active: 1, schedules: 0 };
    expect(await run("queue purge", [name])).toMatchObject({ isDryRun: true, ...found });
    const { facts } = await reportOf("queue purge", [name]);
    expect(facts!.map(([fact]) => fact)).toEqual(["would be deleted", "running", "next step"]);
    expect(await run("queue purge", [name], { run: true })).toMatchObject({ isDryRun: false, ...found });
    expect(await fixture.counts()).toMatchObject({ jobs: 0, leases: 0, dead: 0 });
    for (const path of ["queue purge", "queue clean"])
      expect(await isUnknown(path, ["none"], path === "queue clean" ? dead : {})).toBe(true);
    open();
  });

  it("adopts a BullMQ queue, only with --run", async () => {
    const connection = redis.connect({ maxRetriesPerRequest: null });
    const from = new BullQueue("old", { connection: connection as never, prefix: `${redis.prefix}:bull` });
    redis.defer(() => from.close());
    await from.addBulk([1, 2].map((data) => ({ name: "job", data, opts: { jobId: `own ${String(data)}` } })));
    await from.add("x".repeat(129), 3, { jobId: "long" });
    const options = { "bull-prefix": `${redis.prefix}:bull` };
    const before = await fixture.counts();
    const refused = [expect.objectContaining({ kind: "job", id: "long" })];
    const moved = expect.objectContaining({ waiting: 2 });
    expect(await run("queue adopt", ["old", name], options)).toMatchObject({ isDryRun: true, moved, refused });
    expect(await fixture.counts()).toEqual(before);
    const ran = await run("queue adopt", ["old", name], { ...options, run: true });
    expect(ran).toMatchObject({ from: "old", queue: name, isDryRun: false, moved, refused });
    expect(await fixture.counts()).toMatchObject({ jobs: before.jobs + 2 });
    open();
  });

  it("shows what it would move or delete, and does so only with --run", async () => {
    for (const path of ["queue retry", "queue drop"]) {
      expect(await run(path, [name])).toMatchObject({ isDryRun: true, count: 2, ids: [ids.dead, ids.odd] });
      expect(await run(path, [name], { name: "odd" })).toMatchObject({ count: 1, ids: [ids.odd] });
      expect(await run(path, [name, ids.dead])).toMatchObject({ count: 1, ids: [ids.dead] });
      for (const id of [ids.waiting, "nobody"])
        expect(await run(path, [name, id], { run: true })).toMatchObject({ count: 0 });
      for (const options of [{}, { run: true as const }] as const) {
        for (const id of ["nobody", ids.waiting]) expect(await isUnknown(path, [name, id], options)).toBe(true);
        expect(await isUnknown(path, [name], { ...options, name: "emial" })).toBe(true);
      }
    }
    expect(await fixture.counts()).toMatchObject({ jobs: 6, dead: 2 });
    expect(await run("queue drop", [name, ids.odd], { run: true })).toEqual({ queue: name, isDryRun: false, count: 1 });
    expect(await fixture.counts()).toMatchObject({ jobs: 5, dead: 1 });
    await expect(run("queue drop", [name], { run: true })).rejects.toThrow(/Confirm with --all/);
    const last = ["next step", "run the same command with --run --all"];
    expect((await reportOf("queue drop", [name])).facts).toContainEqual(last);
    expect(await run("queue retry", [name], { run: true })).toEqual({ queue: name, isDryRun: false, count: 1 });
    for (const path of ["queue retry", "queue drop"]) {
      expect((await reportOf(path, [name])).facts).toEqual([[expect.stringMatching(/^would be/), "0"]]);
      expect(await isUnknown(path, [name])).toBe(false);
    }
    expect(await run("queue drop", [name], { run: true, all: true })).toMatchObject({ count: 0 });
    expect(await fixture.counts()).toMatchObject({ jobs: 5, dead: 0, waiting: 2 });
    open();
  });
});

describe("schedules", () => {
  it("are listed with their next runs, and a run that nobody adds is found by kit inspect and kit doctor", async () => {
    const doctor = async () =>
      await descriptor
        .checks!.find(({ id }) => id === "queue-schedules")!
        .look({
          redis: client(),
          prefix: redis.prefix,
          signal: new AbortController().signal,
        });
    expect(await run("queue schedules", [name])).toEqual({ queue: name, schedules: [] });
    expect(await run("queue schedules", ["unknown"])).toEqual({ queue: "unknown" });
    expect(await doctor()).toEqual([{ severity: "ok", text: "no schedule is overdue" }]);
    const schedules = createSchedules(redis.client, name, { prefix: redis.prefix });
    redis.defer(() => schedules.close());
    await schedules.upsert("nightly", { cron: "0 3 * * *", timezone: "Asia/Tokyo", name: "job", count: 2 });
    const { nextAt } = await schedules.upsert("hourly", { everyMs: 7_200_000, startAt: 1, name: "odd" });
    const rows: (readonly string[])[] = [];
    const call = commandCall(client(), redis.prefix);
    const report = ({ table }: Report): Promise<void> => Promise.resolve(void rows.push(...table!.rows));
    const command = descriptor.commands!.find(({ path }) => path === "queue schedules")!;
    await command.run({ ...call, output: { ...call.output, report } }, name);
    expect(rows.find(([id]) => id === "hourly")).toEqual([
      "hourly",
      "odd",
      "every 2 h",
      new Date(nextAt!).toISOString(),
      "",
    ]);
    expect(rows.find(([id]) => id === "nightly")).toEqual([
      ...["nightly", "job", "0 3 * * * (Asia/Tokyo)", expect.stringMatching(/T18:00:00/), "2"],
    ]);
    expect(await run("queue schedules", [name], { start: 1, count: 5 })).toMatchObject({ schedules: [{ version: 0 }] });
    expect(await doctor()).toMatchObject([{ severity: "ok" }]);
    const seen = await look("queue", name);
    expect(seen.data).toMatchObject({ schedules: 2 });
    expect(seen.facts!.at(-1)).toEqual(["schedules", expect.stringMatching(/^2, next run in /)]);
    await fixture.db.zadd(fixture.keysOf().upcoming, "XX", (seen.data as { now: number }).now - 600_000, "hourly");
    expect(await doctor()).toMatchObject([
      { severity: "warning", text: `queue ${name}: a scheduled run is overdue by 10 min` },
    ]);
    expect((await look("queue", name)).facts!.at(-1)).toEqual(["schedules", "2, overdue by 10 min"]);
    const { table } = await reportOf("queue schedules", [name]);
    expect(table!.rows.find(([id]) => id === "hourly")![3]).toMatch(/Z, overdue by 10 min$/);
    expect(table!.rows.find(([id]) => id === "nightly")![3]).toMatch(/Z$/);
  });
});

describe("workers and the jobs that they run", () => {
  const address = (): { queue: string; prefix: string } => ({ queue: name, prefix: redis.prefix });
  const check = async (id: string) =>
    await descriptor
      .checks!.find((one) => one.id === id)!
      .look({ redis: client(), prefix: redis.prefix, signal: new AbortController().signal });
  /** A worker that exists only as its record, and has run a job for this long. */
  const stale = async (handles: readonly string[], ranMs: number, id = ids.active): Promise<void> => {
    const { now } = await inspectQueue(client(), address());
    const facts = {
      host: "web-9",
      pid: 4711,
      name: "mailer",
      concurrency: 3,
      since: now - 2 * ranMs,
      state: "running",
    };
    const { workers, leases } = fixture.keysOf();
    const [member = ""] = (await redis.client.zrange(leases, "0", "-1")).filter((one) => one.endsWith(id));
    await redis.client
      .multi()
      .zrem(leases, member)
      .zadd(leases, now + 60_000, `webNine00001${id}`)
      .exec();
    const lines = [now, JSON.stringify(facts), JSON.stringify(handles), `00001${id}\t${String(now - ranMs)}`];
    await redis.client.hset(workers, "webNine", lines.join("\n"));
  };

  it("are listed by kit queue workers, and by the reports of a queue and of an active job", async () => {
    await untilListed();
    await stale(["email", "b", "c", "d", "e", "f"], 3 * 3_600_000);
    const { facts, table } = await reportOf("queue workers", [name]);
    expect(facts).toEqual([["workers", "2"]]);
    expect(table!.columns).toEqual([
      "worker",
      "host",
      "pid",
      "name",
      "state",
      "handlers",
      "handles",
      "up",
      "seen",
      "longest job",
      "for",
    ]);
    expect(table!.rows[0]).toEqual([
      ...["webNine", "web-9", "4711", "mailer", "running", "1/3", "email, b, c, d, e, …", "6 h"],
      ...[expect.stringMatching(/ s ago$/), ids.active, "3 h"],
    ]);
    const inspected = await look("queue", name);
    expect(inspected.facts).toContainEqual(["workers", "2 on 2 hosts, 4 handlers: kit queue workers mail"]);
    const longest = `${ids.active} has run for 3 h on web-9:4711 (mailer), worker webNine`;
    expect(inspected.facts).toContainEqual(["longest", longest]);
    expect(inspected.data).toMatchObject({ workers: [{ id: "webNine" }, { pid: process.pid }] });
    const job = await look("job", name, ids.active);
    expect(job.facts).toContainEqual(["runs on", "web-9:4711 (mailer), worker webNine"]);
    expect(job.facts).toContainEqual(["started", expect.stringMatching(/^\d{4}-/)]);
    const list = await reportOf("queue list", [name], { state: "active" });
    expect(list.table!.columns.slice(-2)).toEqual(["started", "runs on"]);
    expect(list.table!.rows[0]!.at(-1)).toBe("web-9:4711 (mailer), worker webNine");
    expect(await isUnknown("queue workers", ["maill"])).toBe(true);
  });

  it("are warned of when a job without a time limit has run for more than an hour", async () => {
    const ok = { severity: "ok", text: "no job has run for more than an hour" };
    await stale(["job"], 3_500_000);
    expect(await check("queue-long-jobs")).toEqual([ok]);
    await stale(["job"], 7_200_000);
    expect(await check("queue-long-jobs")).toEqual([
      {
        severity: "warning",
        text: `queue mail: job ${ids.active} has run for 2 h, on web-9:4711 (mailer), worker webNine`,
        fix: `kit queue cancel mail ${ids.active} --run`,
      },
    ]);
    const blob = (await redis.client.hget(fixture.keysOf().jobs, ids.active))!;
    await redis.client.hset(fixture.keysOf().jobs, ids.active, blob.replace(/\n/, " t99999999\n"));
    expect(await check("queue-long-jobs")).toEqual([ok]);
  });

  it("are warned of when none of them handles the name of waiting jobs, or there is none", async () => {
    const ok = { severity: "ok", text: "every waiting job has a worker with its handler" };
    const fix = "Start a worker with a handler of this name, or the handler *";
    const finding = async (): Promise<unknown> => (await check("queue-handlers"))[0]!;
    await eventually(async () => expect(await finding()).toEqual(ok));
    await queue.addAll(Array.from({ length: 120 }, () => ({ name: "export", data: 1 })));
    expect(await finding()).toEqual({
      severity: "warning",
      text: "queue mail: no worker handles the name of 120 waiting jobs: export",
      fix,
    });
    await queue.add("import", 1);
    expect(await finding()).toMatchObject({
      text: "queue mail: no worker handles the names of 121 waiting jobs: export and 1 more",
    });
    await queue.add("image", 1, { group: "shop 7" });
    expect(await finding()).toMatchObject({
      text: "queue mail: no worker handles the names of 122 waiting jobs: export and 2 more",
    });
    await stale(["*"], 5_000);
    expect(await finding()).toEqual(ok);
    await fixture.make({ name: "other" }).add("job", 1);
    expect(await finding()).toMatchObject({ text: "queue other has 1 waiting job, and no worker" });
  });
});
