// Cases of limits, cancellation, schedules and bulk changes, measured only in kit because no peer has the same; and cases of flows.
import { setTimeout as sleep } from "node:timers/promises";
import type { Lab } from "../../lab.js";
import { percentile } from "../../statistics.js";
import { atMost, type Case } from "../../suite.js";
import { caseOf, goal } from "./cases.js";
import type { CancelTask, Drained, FlowTask, LimitTask, NamesTask, ScheduleTask } from "./features-jobs.js";
import type { QueueSetup } from "./implementations.js";
import type { ProcessTask, Rate } from "./jobs.js";

const ids = ["kit"];

const limit: LimitTask = { perSecond: 1_000, burst: 100 };
export const limited = caseOf(
  [
    [
      "limited to 1,000 jobs/s: deviation",
      "% of the limit",
      "a handler that does nothing, all jobs queued before it starts, bursts of 100; from the end of the first burst to the last job",
      atMost(1),
    ],
  ],
  { ids: ["kit"], rounds: 3 },
  async (team, _lab, scale) => {
    const jobs = Math.ceil(5_000 * scale) + limit.burst;
    await team.ask("fill", { jobs });
    await team.ask("limit", limit);
    const { elapsedMs } = await team.ask<Rate>("process", { jobs, concurrency: 100 } satisfies ProcessTask);
    const rate = ((jobs - limit.burst) * 1_000) / elapsedMs;
    return { values: [Math.abs(rate / limit.perSecond - 1) * 100], details: { rate } };
  },
);

const fullNames: NamesTask = { names: 20, jobsOfEach: 50 };
const besideNames =
  "a handler that does nothing, all jobs queued before it starts; 20 names have one active job each, which may not be more, and 49 that wait";

export const named = caseOf(
  [
    ["a free name beside 20 full ones: process c=100", "jobs/s", besideNames],
    ["a free name beside 20 full ones: redis µs per job", "µs of the server's CPU", `${besideNames}; processing alone`],
  ],
  { ids: ["kit"], rounds: 3 },
  async (team, lab, scale) => {
    const jobs = Math.ceil(60_000 * scale);
    await team.ask("fillNames", fullNames);
    await team.ask("fill", { jobs });
    const watched = await lab.watch();
    const rate = await team.ask<Rate>("process", { jobs, concurrency: 100 } satisfies ProcessTask);
    const { commands, cpuMicros } = await watched();
    return {
      values: [(rate.jobs * 1_000) / rate.elapsedMs, cpuMicros / jobs],
      details: { commands: commands / jobs, clientCpuMicros: rate.cpuMicros / rate.jobs },
    };
  },
);

const noOp = "a handler that does nothing, all jobs queued before it starts; processing alone";
const costOf = (what: string, about: string, setup: QueueSetup): Case =>
  caseOf(
    [
      [`${what}: process c=100`, "jobs/s", `${noOp}; ${about}`],
      [`${what}: redis µs per job`, "µs of the server's CPU", `${noOp}; ${about}`],
    ],
    { ids: ["kit"], rounds: 3, setup },
    async (team, lab, scale) => {
      const jobs = Math.ceil(60_000 * scale);
      await team.ask("fill", { jobs });
      const watched = await lab.watch();
      const rate = await team.ask<Rate>("process", { jobs, concurrency: 100 } satisfies ProcessTask);
      const { commands, cpuMicros } = await watched();
      return {
        values: [(rate.jobs * 1_000) / rate.elapsedMs, cpuMicros / jobs],
        details: { commands: commands / jobs },
      };
    },
  );
export const history = costOf("history", "the last 1,000 jobs are kept", { keepsHistory: true });
export const progress = costOf("progress", "each handler reports it once", { reportsProgress: true });

const beforeCancel = "from the call of cancelJob() until the signal of the handler aborts";
const cancelOf = (how: string, about: string, setup: QueueSetup, mostMs: number): Case =>
  caseOf(
    [
      [`${how} latency p50`, "ms", `${beforeCancel}; ${about}`],
      [`${how} latency p99`, "ms", `${beforeCancel}; ${about}`, atMost(mostMs)],
    ],
    { ids, rounds: 3, isFinal: true, setup },
    async (team, _lab, scale) => {
      const jobs = Math.ceil(200 * scale);
      const late = await team.ask<readonly number[]>("cancel", { jobs, withinMs: 6_000 } satisfies CancelTask);
      return { values: [percentile(late, 0.5), percentile(late, 0.99)] };
    },
  );
const byHeartbeat = "told by the next heartbeat, so up to 0.3 of the lease, 3 s by default";
export const cancel = cancelOf("cancel", byHeartbeat, {}, 3_500);
export const cancelByPush = cancelOf("cancel by push", "cancelBy: push", { cancelBy: "push" }, 50);

const stored = 10_000;
const idleAbout = "none is due; one process runs them; over 30 s, commands inside scripts too";

export const schedules = caseOf(
  [
    ["10,000 idle schedules: commands per minute", "commands", idleAbout],
    [
      "10,000 idle schedules: server CPU per minute",
      "ms",
      `${idleAbout}; \`details\` has that of the idle server before`,
    ],
  ],
  { ids, rounds: 2, isFinal: true },
  async (team, lab, scale) => {
    await team.ask("storeSchedules", { count: Math.ceil(stored * scale) } satisfies ScheduleTask);
    const windowMs = 30_000 * scale;
    const perMinute = 60_000 / windowMs;
    const idle = await lab.watch();
    await sleep(windowMs);
    const idleCpu = (await idle()).cpuMicros;
    await team.ask("runSchedules");
    await sleep(1_000);
    const watched = await lab.watch();
    await sleep(windowMs);
    const { commands, cpuMicros } = await watched();
    return {
      values: [commands * perMinute, (cpuMicros / 1_000) * perMinute],
      details: { idleCpuMs: (idleCpu / 1_000) * perMinute },
    };
  },
);

const slowLog = (lab: Lab, [fromMicros, length]: readonly [string, string]): Promise<unknown> =>
  lab.server.call("CONFIG", "SET", "slowlog-log-slower-than", fromMicros, "slowlog-max-len", length);

/**
 * The milliseconds of each call during `work` that took at least half of one: on the clock, not of its CPU. The log is the usual one after
 * that: a long one would grow in the memory that later cases measure.
 */
const slowCalls = async (lab: Lab, work: () => Promise<unknown>): Promise<readonly number[]> => {
  await slowLog(lab, ["500", "10000"]);
  await lab.server.call("SLOWLOG", "RESET");
  await work();
  const slow = (await lab.server.call("SLOWLOG", "GET", "-1")) as [id: number, at: number, micros: number][];
  await slowLog(lab, ["10000", "128"]);
  await lab.server.call("SLOWLOG", "RESET");
  return slow.map(([, , micros]) => micros / 1_000);
};

const drained = "a million ready jobs; a worker of ten handlers of 20 ms goes on";

export const drain = caseOf(
  [
    ["drain of a million jobs: duration", "ms", drained],
    ["drain of a million jobs: longest script", "ms", `${drained}; by the server's slow log`, atMost(5, "max")],
    ["drain of a million jobs: add beside it p99", "ms", `${drained}; another process adds one job after the other`],
  ],
  { ids, rounds: 2, processes: 2, isFinal: true },
  async (team, lab, scale) => {
    for (let part = 0; part < 20; part++) await team.ask("fill", { jobs: Math.ceil(50_000 * scale) });
    const [drainer, other] = [team.worker(0), team.worker(1)];
    await drainer.ask("workSlowly");
    const before = await other.ask<readonly number[]>("addFor", { ms: 1_000 * scale });
    let [jobs, elapsedMs, during]: [number, number, readonly number[]] = [0, 0, []];
    const slow = await slowCalls(lab, async () => {
      const adding = other.ask<readonly number[]>("addUntilStopped");
      ({ jobs, elapsedMs } = await drainer.ask<Drained>("drain"));
      await other.ask("stopAdding");
      during = await adding;
    });
    const over5Ms = slow.filter((ms) => ms > 5).length;
    return {
      values: [elapsedMs, Math.max(0, ...slow), percentile(during, 0.99)],
      details: { jobs, over5Ms, p99BeforeMs: percentile(before, 0.99), p50Ms: percentile(during, 0.5) },
    };
  },
);

const flowAbout = "from the first call that adds them, 50 at a time, until all have run in a worker with c=100";

export const flows = caseOf(
  [
    ["flows of 10 children", "flows/s", flowAbout, goal(5)],
    ["flows of 10 children: redis µs per child", "µs of the server's CPU", `${flowAbout}; with the parent's share`],
  ],
  { ids: ["kit", "bullmq"], rounds: 3 },
  async (team, lab, scale) => {
    const task: FlowTask = { flows: Math.ceil((team.opened === "kit" ? 4_000 : 600) * scale), children: 10 };
    const watched = await lab.watch();
    const elapsedMs = await team.ask<number>("flows", task);
    const { commands, cpuMicros } = await watched();
    const children = task.flows * task.children;
    return {
      values: [(task.flows * 1_000) / elapsedMs, cpuMicros / children],
      details: { commands: commands / children },
    };
  },
);

export const wideFlow = caseOf(
  [
    [
      "a parent of 10,000 children: longest script",
      "ms",
      "added, run, and another one removed with its children; by the server's slow log",
      atMost(5, "max"),
    ],
  ],
  { ids, rounds: 2, isFinal: true },
  async (team, lab, scale) => {
    const task: FlowTask = { flows: 1, children: Math.ceil(10_000 * scale) };
    // So that no call compiles its script.
    await team.ask("flows", { ...task, children: 2_000 } satisfies FlowTask);
    let elapsedMs = 0;
    const slow = await slowCalls(lab, async () => {
      elapsedMs = await team.ask<number>("flows", task);
      await team.ask("removeFlow", { children: task.children });
    });
    return { values: [Math.max(0, ...slow)], details: { elapsedMs, over1Ms: slow.filter((ms) => ms > 1).length } };
  },
);
