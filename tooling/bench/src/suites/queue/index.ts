import { setTimeout as sleep } from "node:timers/promises";
import { eventually, FaultProxy } from "@kit/testing";
import { now } from "@tooling/lab";
import type { Team, Worker } from "../../lab.js";
import { rateCase } from "../../rates.js";
import { percentile } from "../../statistics.js";
import { atLeast, atMost, type Case, type Entry, type Measurement, type Prepare, type Suite } from "../../suite.js";
import {
  type CaseSettings,
  caseOf,
  everybody,
  goal,
  jobsASecond,
  type Measure,
  pinned,
  type Row,
  withDelays,
} from "./cases.js";
import {
  cancel,
  cancelByPush,
  drain,
  flows,
  history,
  limited,
  named,
  progress,
  schedules,
  wideFlow,
} from "./features.js";
import { implementations, loadOf, type QueueSetup } from "./implementations.js";
import type { ProcessTask, QueueTask, Rate, SpreadTask, TrickleTask } from "./jobs.js";

const addCase = (row: Row, task: QueueTask, settings: CaseSettings = {}, backlog = 0): Case => {
  const { entries, prepare: pin, ...rest } = pinned([row], settings);
  const prepare: Prepare = async (team, lab, scale) => {
    await pin(team, lab, scale);
    if (backlog > 0) await team.ask("fill", { jobs: Math.ceil(backlog * scale), isRanked: true });
  };
  return rateCase(entries[0] as Entry, { ...rest, task, prepare });
};

interface ProcessSettings extends CaseSettings {
  readonly handlerMs?: number;
  /** The share of the usual number of jobs. */
  readonly share?: number;
  readonly isPersistent?: boolean;
  readonly roundTripMs?: number;
}

/**
 * All jobs are queued when the worker starts. Measures from the first handler's start to the last one's end. Two builds
 * are compared by batches that are added and handled.
 */
const processCase = (row: Row, concurrency: number, settings: ProcessSettings = {}): Case => {
  const { handlerMs = 0, share = 1, isPersistent = false, roundTripMs = 0, ...rest } = settings;
  const batch: QueueTask = { how: "batch", concurrency, jobs: concurrency === 1 ? 100 : 2_000 };
  const isPlain = handlerMs === 0 && !isPersistent && roundTripMs === 0;
  const measure: Measure = async (team, lab, scale) => {
    const keepFile = (isKept: boolean): Promise<unknown> =>
      lab.server.call("CONFIG", "SET", "appendonly", isKept ? "yes" : "no");
    await using proxy = await FaultProxy.start({ port: lab.node.port });
    if (isPersistent) await keepFile(true);
    try {
      const jobs = Math.ceil(loadOf(team.opened) * share * scale);
      await team.ask("fill", { jobs });
      if (roundTripMs > 0) {
        proxy.up.latencyMs = roundTripMs;
        await team.ask("open", { port: proxy.port });
      }
      const rate = await team.ask<Rate>("process", { jobs, concurrency, handlerMs } satisfies ProcessTask);
      return {
        values: [(rate.jobs * 1_000) / rate.elapsedMs],
        details: { clientCpuMicros: rate.cpuMicros / rate.jobs },
      };
    } finally {
      if (isPersistent) await keepFile(false);
    }
  };
  return { ...caseOf([row], rest, measure), ...(isPlain && { operation: batch }) };
};

const noOp = "a handler that does nothing, all jobs queued before it starts";
const each: QueueSetup = { ack: "each" };
const strict: QueueSetup = { strict: true, ack: "each" };

/** The server's work for a job, from its add to its acknowledgement. */
const lifecycle = caseOf(
  [
    ["commands per job c=100", "commands", "processing alone, commands inside scripts too", goal(100, 40)],
    ["redis µs per lifecycle c=100", "µs of the server's CPU", "added 1,000 at a time, and processed", goal(7, 3)],
  ],
  {},
  async (team, lab, scale) => {
    const jobs = Math.ceil(loadOf(team.opened) * scale);
    const ofAdding = await lab.watch();
    await team.ask("fill", { jobs });
    const added = await ofAdding();
    const ofWorking = await lab.watch();
    await team.ask("process", { jobs, concurrency: 100 } satisfies ProcessTask);
    const worked = await ofWorking();
    return {
      values: [worked.commands / jobs, (added.cpuMicros + worked.cpuMicros) / jobs],
      details: { addCommands: added.commands / jobs, addMicros: added.cpuMicros / jobs },
    };
  },
);

/** One process works, another adds: the median and the hundredth of how late jobs start. */
const latencyCase = (half: Row, hundredth: Row, task: TrickleTask, ids = everybody): Case =>
  caseOf([half, hundredth], { ids, processes: 2, isFinal: true }, async (team, _lab, scale) => {
    const [listener, producer] = [team.worker(0), team.worker(1)];
    const lateOf = async (trickle: TrickleTask): Promise<readonly number[]> => {
      const late: number[] = [];
      await producer.ask("trickle", trickle);
      await eventually(
        async () => {
          late.push(...(await listener.ask<readonly number[]>("heard")));
          if (late.length < trickle.jobs)
            throw new Error(`only ${String(late.length)} of ${String(trickle.jobs)} jobs ran`);
        },
        { timeoutMs: 30_000, intervalMs: 100 },
      );
      return late;
    };
    await listener.ask("listen", {});
    // As with adds, the first calls would measure interpreted code.
    await lateOf({ jobs: Math.ceil(2_000 * scale), gapMs: 1 });
    await lateOf({ ...task, jobs: 20 });
    const late = await lateOf({ ...task, jobs: Math.ceil(task.jobs * scale) });
    return { values: [percentile(late, 0.5), percentile(late, 0.99)] };
  });

const idleAbout = "from the call of add to the handler's start in another process; one job each 5 ms, idle worker";
const lateAbout = "from the due time to the handler's start; due 1 s after the call, one job each 10 ms";

const spread = caseOf(
  [
    [
      "20 long jobs after quick ones, 20 idle workers: start of the last",
      "ms",
      "from the call that adds them; 400 quick jobs before",
      atMost(100),
    ],
  ],
  { ids: ["kit", "bullmq", "bee-queue"], isFinal: true },
  async (team, _lab, scale) => {
    const task: SpreadTask = { workers: 20, quick: Math.ceil(400 * scale) };
    return { values: [await team.ask<number>("spread", task)] };
  },
);

const bytes = caseOf(
  [["bytes per waiting job", "bytes of the server's memory", "20,000 jobs of about 200 bytes of JSON", goal(2.5, 1.2)]],
  { rounds: 3 },
  async (team, lab, scale) => {
    await team.ask("fill", { jobs: 100 });
    const before = await lab.usedBytes();
    const jobs = Math.ceil(20_000 * scale);
    await team.ask("fill", { jobs });
    return { values: [((await lab.usedBytes()) - before) / jobs] };
  },
);

const recover = async (team: Team): Promise<Measurement | Error> => {
  const [victim, heir] = [team.worker(0), team.worker(1)];
  const seenBy = (worker: Worker, timeoutMs: number): Promise<number> =>
    eventually(async () => (await worker.ask<number>("seen")) || Promise.reject(new Error("the worker has no job")), {
      timeoutMs,
      intervalMs: 200,
    });
  try {
    await victim.ask("listen", { isHanging: true });
    await heir.ask("trickle", { jobs: 1, gapMs: 1 } satisfies TrickleTask);
    await seenBy(victim, 10_000);
    await heir.ask("listen");
    await victim.kill();
    const at = now();
    return { values: [(await seenBy(heir, 120_000)) - at] };
  } catch (error) {
    return error as Error;
  }
};
/** All implementations run at once, since the peers take a minute. */
const recovery: Case = {
  entries: [
    {
      name: "recovery after kill -9",
      unit: "ms",
      about: "from SIGKILL of a worker to the start of its job in another one, each library with its defaults",
      goal: goal(5, 0.7, ...atMost(11_000, "max")),
    },
  ],
  ...implementations.pick(["kit", "bullmq defaults", "bee-queue defaults"], {}),
  rounds: 3,
  processes: 2,
  isFinal: true,
  together: async (teams) =>
    new Map(await Promise.all(teams.map(async (team) => [team.implementation, await recover(team)] as const))),
};

const idleCommands = caseOf(
  [
    [
      "idle worker commands per minute",
      "commands",
      "a worker without work, by the server's count over 30 s, commands inside scripts too",
      goal(7),
    ],
  ],
  { rounds: 2, isFinal: true, ids: withDelays },
  async (team, lab, scale) => {
    await team.ask("listen", {});
    await sleep(1_000);
    const watched = await lab.watch();
    await sleep(30_000 * scale);
    return { values: [((await watched()).commands * 2) / scale] };
  },
);

const lostReplies = caseOf(
  [
    [
      "reply of a worker step lost",
      "jobs lost, and crashes charged",
      "2,000 jobs; each time some have ended, a reply is lost and its connection cut",
      atMost(0, "max"),
    ],
  ],
  { ids: ["kit"], rounds: 3, isFinal: true },
  async (team, lab) => {
    const jobs = 2_000;
    await team.ask("fill", { jobs });
    await using proxy = await FaultProxy.start({ port: lab.node.port });
    await team.ask("open", { port: proxy.port });
    const left = async (): Promise<number> => Number(await lab.server.call("HLEN", "kit:queue:{bench}:jobs"));
    let isOver = false;
    const cutting = async (): Promise<void> => {
      // Handshakes of connections that were cut before are not counted.
      for (let last = Infinity; !isOver; await sleep(20)) {
        const count = await left();
        if (count < last) proxy.down.cutNext = 1;
        last = count;
      }
    };
    const cuts = cutting();
    await team.ask("process", { jobs, concurrency: 5, handlerMs: 1 } satisfies ProcessTask);
    isOver = true;
    await cuts;
    proxy.down.cutNext = 0;
    await eventually(async () => {
      if ((await left()) > 0) throw new Error("not all ended");
    }).catch(() => undefined);
    const crashed = Number(await lab.server.call("HGET", "kit:queue:{bench}:meta", "crashed"));
    return { values: [(await left()) + crashed], details: { cuts: proxy.stats.resets } };
  },
);

/** The median of the slopes between all pairs (Theil–Sen), which single outliers do not move. */
const hourlyMegabytes = (points: readonly (readonly [atMs: number, bytes: number])[]): number => {
  const slopes = points.flatMap(([at, value], index) =>
    points.slice(index + 1).map(([laterAt, later]) => (later - value) / (laterAt - at)),
  );
  return (percentile(slopes, 0.5) * 3_600_000) / 1e6;
};

const soaked = ["server memory", "heap"] as const;
const soak = caseOf(
  soaked.map((part): Row => [
    `soak of 1M jobs: ${part}`,
    "MB/h",
    "a million jobs of 16 bytes to 16 KiB; growth between empty queues, without the first tenth and compiled code",
    atMost(1),
  ]),
  { ids: ["kit"], rounds: 1, isFinal: true },
  async (team, lab, scale) => {
    const points: { readonly at: number; readonly bytes: readonly number[] }[] = [];
    for (let part = 0; part < 40; part++) {
      const heap = await team.ask<number>("soak", { jobs: Math.ceil(25_000 * scale) });
      points.push({ at: now(), bytes: [await lab.usedBytes(), heap] });
    }
    const settled = points.slice(4);
    const [first, last] = [settled[0], settled.at(-1)];
    const slopes = soaked.map((_, of) => hourlyMegabytes(settled.map(({ at, bytes: all }) => [at, all[of] ?? NaN])));
    const details = soaked.flatMap((part, of) => [
      [`${part}: slope`, slopes[of]],
      [`${part}: first`, first?.bytes[of]],
      [`${part}: last`, last?.bytes[of]],
    ]);
    return {
      values: slopes.map((slope) => Math.max(0, slope)),
      details: { seconds: ((last?.at ?? 0) - (first?.at ?? 0)) / 1_000, ...Object.fromEntries(details) },
    };
  },
);

const serial = "one add after the other";
const onceAcknowledged = "a slot starts its next job once the server has acknowledged the last";

export const suite: Suite = {
  package: "queue",
  cases: [
    addCase(["add serial", jobsASecond, serial, goal(1.15, 0.9, ...atLeast({ floor: 0.95 }))], { how: "serial" }),
    addCase(["add serial, one core", jobsASecond, serial], { how: "serial" }, { isOneCore: true }),
    addCase(["add 1000 concurrent", jobsASecond, "1,000 adds in one turn, then the next", goal(6, 2.2)], {
      how: "concurrent",
    }),
    addCase(["add bulk 1000", jobsASecond, "1,000 in one call", goal(9, 2.8)], { how: "bulk" }),
    processCase(["process c=1 strict", jobsASecond, `${noOp}; one job, one call, nothing ahead`, goal(1.4, 1.6)], 1, {
      setup: strict,
      share: 0.05,
    }),
    processCase(["process c=1 batched", jobsASecond, noOp, goal(12, 8)], 1),
    processCase(["process c=10", jobsASecond, noOp, goal(8, 6)], 10),
    processCase(["process c=100", jobsASecond, noOp, goal(8, 6)], 100),
    processCase(
      [
        "process c=100 strict but coalesced",
        jobsASecond,
        `${noOp}; nothing ahead, and ${onceAcknowledged}`,
        goal(4.5, 3),
      ],
      100,
      { setup: strict },
    ),
    processCase(["process c=100 ack each", jobsASecond, `${noOp}; ${onceAcknowledged}`, goal(2.2, 1.5)], 100, {
      setup: each,
    }),
    processCase(["process c=100 handler 20 ms", jobsASecond, "every handler takes 20 ms"], 100, {
      ...{ ids: withDelays, handlerMs: 20, share: 0.04, rounds: 3 },
    }),
    processCase(["AOF everysec: process c=100", jobsASecond, `${noOp}; with an append-only file`, goal(5, 3)], 100, {
      isPersistent: true,
    }),
    processCase(
      ["1 ms round trip: process c=100", jobsASecond, `${noOp}; each request a millisecond on its way`],
      100,
      { roundTripMs: 1, isFinal: true, share: 0.3, rounds: 3 },
    ),
    latencyCase(
      ["idle latency p50", "ms", idleAbout, goal(1.5, 1.1)],
      ["idle latency p99", "ms", idleAbout, goal(1, 0.8)],
      { jobs: 400, gapMs: 5 },
    ),
    latencyCase(
      ["delayed lateness p50", "ms", lateAbout],
      ["delayed lateness p99", "ms", lateAbout, goal(12, 0.6)],
      { jobs: 150, gapMs: 10, delayMs: 1_000 },
      // A delayed job ends the worker of the classic code.
      withDelays.filter((id) => id !== "classic"),
    ),
    spread,
    bytes,
    lifecycle,
    addCase(
      [
        "add 1000 concurrent at 400k prioritised backlog",
        jobsASecond,
        "1,000 adds of 50 priorities in one turn, 400,000 waiting",
        goal(4),
      ],
      { how: "ranked" },
      { ids: ["kit", "bullmq"], rounds: 2 },
      400_000,
    ),
    lostReplies,
    limited,
    named,
    history,
    progress,
    cancel,
    cancelByPush,
    schedules,
    drain,
    flows,
    wideFlow,
    recovery,
    idleCommands,
    soak,
  ],
};
