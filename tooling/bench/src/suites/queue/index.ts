import { execFileSync } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { eventually, FaultProxy, type RedisNode } from "@kit/testing";
import { now } from "../../clock.js";
import type { Lab, Team, Worker } from "../../lab.js";
import { percentile } from "../../statistics.js";
import type { Case, Check, Entry, Goal, Measurement, Suite } from "../../suite.js";
import { loadOf, queueImplementation, type QueueSetup } from "./implementations.js";
import type { AddTask, ProcessTask, Rate, TrickleTask } from "./jobs.js";

const everybody = [
  "kit",
  "bullmq",
  "bullmq defaults",
  "bee-queue",
  "bee-queue defaults",
  "groupmq",
  "classic",
  "floor",
];
const withDelays = everybody.filter((id) => id !== "floor");

/** A goal as ratios against bullmq and bee-queue, and what else it asks. */
const goal = (bullmq: number, bee?: number, ...more: readonly Check[]): Goal => {
  const checks: Check[] = [
    { than: "bullmq", atLeast: bullmq },
    ...(bee === undefined ? [] : [{ than: "bee-queue", atLeast: bee }]),
    ...more,
  ];
  const text = checks.map((check) =>
    "than" in check ? `≥ ${String(check.atLeast)} × ${check.than}` : `≤ ${String(check.atMost)}`,
  );
  return { text: text.join(", "), checks };
};

const workerOf = ({ workers }: Team, index = 0): Worker => {
  const worker = workers[index];
  if (!worker) throw new Error("no process");
  return worker;
};

/** Round trips of processes on one core are eight times as fast as on two; unpinned they flip between both. */
const place = async (team: Team, lab: Lab, isOneCore: boolean): Promise<void> => {
  execFileSync("taskset", ["-acp", "0", String(serverOf(lab).pid)]);
  await team.all("pin", { core: isOneCore ? 0 : 1 });
};

const serverOf = ({ server: { nodes } }: Lab): RedisNode => {
  const [node] = nodes;
  if (!node) throw new Error("no server");
  return node;
};

const placements = { isOneCore: "server and clients on one core", apart: "server and clients on a core each" };

interface Terms {
  readonly implementations?: readonly string[];
  readonly setup?: QueueSetup;
  readonly rounds?: number;
  readonly processes?: number;
  readonly isOneCore?: boolean;
  readonly isFinal?: boolean;
}

const caseOf = (
  entries: readonly Entry[],
  terms: Terms,
  alone: (team: Team, lab: Lab, scale: number) => Promise<Measurement>,
): Case => {
  const { implementations = everybody, setup = {}, rounds = Infinity, processes = 1, isOneCore = false } = terms;
  return {
    entries: entries.map((entry) => ({
      ...entry,
      about: `${entry.about}; ${isOneCore ? placements.isOneCore : placements.apart}`,
    })),
    implementations: implementations.map(queueImplementation),
    rounds,
    processes,
    setup,
    isFinal: terms.isFinal ?? false,
    measure: {
      alone: async (team, lab, scale) => {
        await place(team, lab, isOneCore);
        return await alone(team, lab, scale);
      },
    },
  };
};

const detailsOf = ({ jobs, cpuMicros }: Rate): Record<string, number> => ({ clientCpuMicrosPerJob: cpuMicros / jobs });

const addCase = (entry: Entry, how: AddTask["how"], ms: number, terms: Terms = {}, backlog = 0): Case =>
  caseOf([entry], terms, async (team, _lab, scale) => {
    const worker = workerOf(team);
    // Some thousand calls: before them the code of all of them is interpreted, and the larger one looks slower than it is.
    await worker.ask("add", { how, ms: 600 * scale } satisfies AddTask);
    if (backlog > 0) await worker.ask("fill", { jobs: Math.ceil(backlog * scale), isRanked: true });
    const rate = await worker.ask<Rate & { sent: number }>("add", { how, ms: ms * scale } satisfies AddTask);
    return {
      values: { [entry.name]: (rate.jobs * 1_000) / rate.elapsedMs },
      // What came before is not counted apart.
      operations: 0,
      details: detailsOf(rate),
    };
  });

const jobsASecond = (name: string, about: string, goalOf?: Goal): Entry => ({
  name,
  unit: "jobs/s",
  better: "higher",
  about,
  ...(goalOf && { goal: goalOf }),
});

interface ProcessTerms extends Terms {
  readonly handlerMs?: number;
  /** Of the usual number of jobs. */
  readonly share?: number;
  readonly settings?: readonly (readonly [name: string, value: string, after: string])[];
  readonly roundTripMs?: number;
}

/** All jobs are there when the worker starts; from the first handler's start to the last one's end. */
const processCase = (entry: Entry, concurrency: number, terms: ProcessTerms = {}): Case =>
  caseOf([entry], terms, async (team, lab, scale) => {
    const { handlerMs = 0, share = 1, settings = [], roundTripMs = 0 } = terms;
    const worker = workerOf(team);
    for (const [name, value] of settings) await lab.server.call("CONFIG", "SET", name, value);
    await using proxy = await FaultProxy.start({ port: serverOf(lab).port });
    try {
      const jobs = Math.ceil(loadOf(team.implementation) * share * scale);
      await worker.ask("fill", { jobs });
      if (roundTripMs > 0) {
        proxy.up.latencyMs = roundTripMs;
        await worker.ask("open", { port: proxy.port });
      }
      const rate = await worker.ask<Rate>("process", { jobs, concurrency, handlerMs } satisfies ProcessTask);
      return {
        values: { [entry.name]: (rate.jobs * 1_000) / rate.elapsedMs },
        operations: 0,
        details: detailsOf(rate),
      };
    } finally {
      for (const [name, , after] of settings) await lab.server.call("CONFIG", "SET", name, after);
    }
  });

const noOp = "a handler that does nothing, all jobs there when it starts";
const each: QueueSetup = { ack: "each" };
const strict: QueueSetup = { strict: true, ack: "each" };

const commandsName = "commands per job c=100";
const microsName = "redis µs per lifecycle c=100";

/** What the server does for a job from its adding to its end. */
const lifecycle = caseOf(
  [
    {
      name: commandsName,
      unit: "commands",
      better: "lower",
      about: "processing alone, commands inside scripts too",
      goal: goal(100, 40),
    },
    {
      name: microsName,
      unit: "µs of the server's CPU",
      better: "lower",
      about: "added 1,000 at a time, and processed",
      goal: goal(7, 3),
    },
  ],
  {},
  async (team, lab, scale) => {
    const worker = workerOf(team);
    const jobs = Math.ceil(loadOf(team.implementation) * scale);
    const ofAdding = await lab.watch();
    await worker.ask("fill", { jobs });
    const added = await ofAdding();
    const ofWorking = await lab.watch();
    await worker.ask<Rate>("process", { jobs, concurrency: 100 } satisfies ProcessTask);
    const worked = await ofWorking();
    return {
      values: {
        [commandsName]: worked.commands / jobs,
        [microsName]: (added.cpuMicros + worked.cpuMicros) / jobs,
      },
      operations: 0,
      details: { addCommands: added.commands / jobs, addMicros: added.cpuMicros / jobs },
    };
  },
);

/** One process works, another adds. */
const listened = async (team: Team, task: TrickleTask): Promise<readonly number[]> => {
  const [listener, producer] = [workerOf(team), workerOf(team, 1)];
  await listener.ask("listen");
  await sleep(300);
  const warm = 20;
  for (const jobs of [warm, task.jobs]) {
    await listener.ask("heard");
    await producer.ask("trickle", { ...task, jobs });
    await sleep(task.delayMs ?? 0);
    if (jobs === warm) await sleep(500);
  }
  let late: number[] = [];
  await eventually(
    async () => {
      late = [...late, ...(await listener.ask<readonly number[]>("heard"))];
      if (late.length < task.jobs) throw new Error(`only ${String(late.length)} of ${String(task.jobs)} came`);
    },
    { timeoutMs: 20_000, intervalMs: 100 },
  );
  return late;
};

const idle = caseOf(
  ["p50", "p99"].map((share) => ({
    name: `idle latency ${share}`,
    unit: "ms",
    better: "lower",
    about: "from before add to the handler's start in another process, one job each 5 ms, worker idle",
    goal: share === "p50" ? goal(1.5, 1.1) : goal(1, 0.8),
  })),
  { processes: 2, isFinal: true },
  async (team, _lab, scale) => {
    const late = await listened(team, { jobs: Math.ceil(400 * scale), gapMs: 5 });
    return {
      values: { "idle latency p50": percentile(late, 0.5), "idle latency p99": percentile(late, 0.99) },
      operations: 0,
    };
  },
);

const lateness = "delayed lateness p99";
const delayed = caseOf(
  [
    {
      name: lateness,
      unit: "ms",
      better: "lower",
      about: "how long after it was due the handler starts; due 1 s after the call, one job each 10 ms",
      goal: goal(12, 0.6),
    },
    { name: "delayed lateness p50", unit: "ms", better: "lower", about: "the same" },
  ],
  // The worker of the classic code dies of a delayed job.
  { implementations: withDelays.filter((id) => id !== "classic"), processes: 2, isFinal: true },
  async (team, _lab, scale) => {
    const late = await listened(team, { jobs: Math.ceil(150 * scale), gapMs: 10, delayMs: 1_000 });
    return {
      values: { [lateness]: percentile(late, 0.99), "delayed lateness p50": percentile(late, 0.5) },
      operations: 0,
    };
  },
);

const bytesName = "bytes per waiting job";
const bytes = caseOf(
  [
    {
      name: bytesName,
      unit: "bytes of the server's memory",
      better: "lower",
      about: "20,000 jobs of about 200 bytes of JSON",
      goal: goal(2.5, 1.2),
    },
  ],
  { rounds: 3 },
  async (team, lab, scale) => {
    const worker = workerOf(team);
    await worker.ask("fill", { jobs: 100 });
    const before = await serverMemory(lab);
    const jobs = Math.ceil(20_000 * scale);
    await worker.ask("fill", { jobs });
    return { values: { [bytesName]: ((await serverMemory(lab)) - before) / jobs }, operations: 0 };
  },
);

const recoveryName = "recovery after kill -9";
const leaseMs = 10_000;
/** All at once, since the peers take a minute. */
const recovery: Case = {
  entries: [
    {
      name: recoveryName,
      unit: "ms",
      better: "lower",
      about: "from SIGKILL of a worker to the start of its job in another one, with everybody's defaults",
      goal: goal(5, 0.7, { atMost: leaseMs * 1.1, of: "max" }),
    },
  ],
  implementations: ["kit", "bullmq defaults", "bee-queue defaults"].map(queueImplementation),
  rounds: 3,
  processes: 2,
  setup: {},
  isFinal: true,
  measure: {
    together: async (teams) => {
      const recover = async (team: Team): Promise<Measurement | Error> => {
        const [victim, heir] = [workerOf(team), workerOf(team, 1)];
        try {
          await victim.ask("listen", { isHanging: true });
          await heir.ask("trickle", { jobs: 1, gapMs: 1 } satisfies TrickleTask);
          await eventually(async () => {
            if ((await victim.ask<number>("seen")) === 0) throw new Error("it has no job");
          });
          await heir.ask("listen");
          await victim.kill();
          const at = now();
          const seen = await eventually(
            async () => (await heir.ask<number>("seen")) || Promise.reject(new Error("the job never came back")),
            { timeoutMs: 120_000, intervalMs: 200 },
          );
          return { values: { [recoveryName]: seen - at }, operations: 0 };
        } catch (error) {
          return error as Error;
        }
      };
      return new Map(await Promise.all(teams.map(async (team) => [team.implementation, await recover(team)] as const)));
    },
  },
};

const idleName = "idle worker commands per minute";
const idleCommands = caseOf(
  [
    {
      name: idleName,
      unit: "commands",
      better: "lower",
      about: "a worker without work, by the server's count over 30 s, commands inside scripts too",
      goal: goal(7),
    },
  ],
  { rounds: 2, isFinal: true, implementations: withDelays },
  async (team, lab, scale) => {
    await workerOf(team).ask("listen");
    await sleep(1_000);
    const watched = await lab.watch();
    await sleep(30_000 * scale);
    return { values: { [idleName]: ((await watched()).commands * 2) / scale }, operations: 0 };
  },
);

const lostName = "reply of a worker step lost";
const lostReplies = caseOf(
  [
    {
      name: lostName,
      unit: "jobs lost, and crashes charged",
      better: "lower",
      about: "2,000 jobs; whenever some have ended a reply is lost, and its connection cut",
      goal: { text: "0", checks: [{ atMost: 0, of: "max" }] },
    },
  ],
  { implementations: ["kit"], rounds: 3, isFinal: true },
  async (team, lab) => {
    const worker = workerOf(team);
    const jobs = 2_000;
    await worker.ask("fill", { jobs });
    await using proxy = await FaultProxy.start({ port: serverOf(lab).port });
    await worker.ask("open", { port: proxy.port });
    const left = async (): Promise<number> => Number(await lab.server.call("HLEN", "kit:queue:{bench}:jobs"));
    let isOver = false;
    const cutting = async (): Promise<void> => {
      // Not the handshakes of what was cut before.
      for (let last = Infinity; !isOver; await sleep(20)) {
        const now = await left();
        if (now < last) proxy.down.cutNext = 1;
        last = now;
      }
    };
    const cuts = cutting();
    await worker.ask("process", { jobs, concurrency: 5, handlerMs: 1 } satisfies ProcessTask);
    isOver = true;
    await cuts;
    proxy.down.cutNext = 0;
    await eventually(async () => {
      if ((await left()) > 0) throw new Error("not all ended");
    }).catch(() => undefined);
    const crashed = Number(await lab.server.call("HGET", "kit:queue:{bench}:meta", "crashed"));
    return { values: { [lostName]: (await left()) + crashed }, operations: 0, details: { cuts: proxy.stats.resets } };
  },
);

const serverMemory = async ({ server }: Lab): Promise<number> =>
  Number(/^used_memory:(\d+)/m.exec(String(await server.call("INFO", "memory")))?.[1]);

/** The median of the slopes between all pairs (Theil and Sen): single outliers do not count. */
const slopeOf = (points: readonly (readonly [at: number, value: number])[]): number => {
  const slopes = points.flatMap(([at, value], index) =>
    points.slice(index + 1).map(([laterAt, later]) => (later - value) / (laterAt - at)),
  );
  return percentile(slopes, 0.5);
};

const soakNames = { server: "soak of 1M jobs: server memory", heap: "soak of 1M jobs: heap" };
const soak = caseOf(
  [soakNames.server, soakNames.heap].map((name) => ({
    name,
    unit: "MB/h",
    better: "lower",
    about:
      "a million jobs of 16 bytes to 16 KiB; by how much it grows between empty queues, the first tenth and compiled code left out",
    goal: { text: "≤ 1", checks: [{ atMost: 1 }] },
  })),
  { implementations: ["kit"], rounds: 1, isFinal: true },
  async (team, lab, scale) => {
    const points: { readonly at: number; readonly server: number; readonly heap: number }[] = [];
    for (let part = 0; part < 40; part++) {
      const heap = await workerOf(team).ask<number>("soak", { jobs: Math.ceil(25_000 * scale) });
      points.push({ at: now(), server: await serverMemory(lab), heap });
    }
    const settled = points.slice(4);
    const hourly = (of: "server" | "heap"): number =>
      (slopeOf(settled.map((point) => [point.at, point[of]])) * 3_600_000) / 1e6;
    const [first, last] = [settled[0], settled.at(-1)];
    return {
      values: { [soakNames.server]: Math.max(0, hourly("server")), [soakNames.heap]: Math.max(0, hourly("heap")) },
      operations: 0,
      details: {
        seconds: ((last?.at ?? 0) - (first?.at ?? 0)) / 1_000,
        ...{ serverSlope: hourly("server"), heapSlope: hourly("heap") },
        ...{ serverFirst: first?.server ?? 0, serverLast: last?.server ?? 0 },
        ...{ heapFirst: first?.heap ?? 0, heapLast: last?.heap ?? 0 },
      },
    };
  },
);

const everysec = [
  ["appendfsync", "everysec", "everysec"],
  ["appendonly", "yes", "no"],
] as const;

export const suite: Suite = {
  package: "queue",
  cases: [
    addCase(
      jobsASecond("add serial", "one add after the other", goal(1.15, 0.9, { than: "floor", atLeast: 0.95 })),
      "serial",
      700,
    ),
    addCase(jobsASecond("add serial, one core", "one add after the other"), "serial", 700, { isOneCore: true }),
    addCase(
      jobsASecond("add 1000 concurrent", "1,000 adds in one turn, then the next", goal(6, 2.2)),
      "concurrent",
      700,
    ),
    addCase(jobsASecond("add bulk 1000", "1,000 in one call", goal(9, 2.8)), "bulk", 700),
    processCase(jobsASecond("process c=1 strict", `${noOp}; one job, one call, nothing ahead`, goal(1.4, 1.6)), 1, {
      setup: strict,
      share: 0.05,
    }),
    processCase(jobsASecond("process c=1 batched", noOp, goal(12, 8)), 1),
    processCase(jobsASecond("process c=10", noOp, goal(8, 6)), 10),
    processCase(jobsASecond("process c=100", noOp, goal(8, 6)), 100),
    processCase(
      jobsASecond(
        "process c=100 strict but coalesced",
        `${noOp}; nothing ahead, and a slot goes on when the server has the end of its last job`,
        goal(4.5, 3),
      ),
      100,
      { setup: strict },
    ),
    processCase(
      jobsASecond(
        "process c=100 ack each",
        `${noOp}; a slot goes on when the server has the end of its last job`,
        goal(2.2, 1.5),
      ),
      100,
      { setup: each },
    ),
    processCase(jobsASecond("process c=100 handler 20 ms", "every handler takes 20 ms"), 100, {
      implementations: withDelays,
      handlerMs: 20,
      share: 0.04,
      rounds: 3,
    }),
    processCase(jobsASecond("AOF everysec: process c=100", `${noOp}; with an append-only file`, goal(5, 3)), 100, {
      settings: everysec,
    }),
    processCase(jobsASecond("1 ms round trip: process c=100", `${noOp}; each request a millisecond on its way`), 100, {
      roundTripMs: 1,
      isFinal: true,
      share: 0.3,
      rounds: 3,
    }),
    idle,
    delayed,
    bytes,
    lifecycle,
    addCase(
      jobsASecond(
        "add 1000 concurrent at 400k prioritised backlog",
        "1,000 adds of 50 priorities in one turn, 400,000 waiting",
        goal(4),
      ),
      "ranked",
      700,
      { implementations: ["kit", "bullmq"], rounds: 2 },
      400_000,
    ),
    lostReplies,
    recovery,
    idleCommands,
    soak,
  ],
};
