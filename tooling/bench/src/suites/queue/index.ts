import { execFileSync } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { eventually, FaultProxy, type RedisNode } from "@kit/testing";
import { now } from "@tooling/lab";
import type { Lab, Team, Worker } from "../../lab.js";
import { percentile } from "../../statistics.js";
import type { Better, Case, Check, Entry, Goal, Measurement, Suite } from "../../suite.js";
import { queueImplementation, type QueueSetup } from "./implementations.js";
import type { AddTask, ProcessTask, Rate, SpreadTask, TrickleTask } from "./jobs.js";

const withDelays = ["kit", "bullmq", "bullmq defaults", "bee-queue", "bee-queue defaults", "groupmq", "classic"];
const everybody = [...withDelays, "floor"];

/** A goal as ratios against bullmq and bee-queue, with further checks. */
const goal = (bullmq: number, bee?: number, ...more: readonly Check[]): Goal => {
  const ofBee: Check[] = bee === undefined ? [] : [{ than: "bee-queue", atLeast: bee }];
  const checks: Check[] = [{ than: "bullmq", atLeast: bullmq }, ...ofBee, ...more];
  const text = checks.map((check) =>
    "than" in check ? `≥ ${String(check.atLeast)} × ${check.than}` : `≤ ${String(check.atMost)}`,
  );
  return { text: text.join(", "), checks };
};
const atMost = (value: number): Goal => ({
  text: value === 0 ? "0" : `≤ ${String(value)}`,
  checks: [{ atMost: value, ...(value === 0 && { of: "max" as const }) }],
});

const entry = (name: string, unit: string, better: Better, about: string, goalOf?: Goal): Entry => ({
  ...{ name, unit, better, about },
  ...(goalOf && { goal: goalOf }),
});
const jobsASecond = (name: string, about: string, goalOf?: Goal): Entry =>
  entry(name, "jobs/s", "higher", about, goalOf);

const workerOf = ({ workers }: Team, index = 0): Worker => {
  const worker = workers[index];
  if (!worker) throw new Error("no process");
  return worker;
};

const serverOf = ({ server: { nodes } }: Lab): RedisNode => {
  const [node] = nodes;
  if (!node) throw new Error("no server");
  return node;
};

interface CaseSettings {
  readonly implementations?: readonly string[];
  readonly setup?: QueueSetup;
  readonly rounds?: number;
  readonly processes?: number;
  readonly isOneCore?: boolean;
  readonly isFinal?: boolean;
}

type Values = Pick<Measurement, "values" | "details">;

/**
 * Every case pins its processes. Round trips between processes on one core are eight times as fast as on two, and
 * unpinned processes move between both placements.
 */
const caseOf = (
  entries: readonly Entry[],
  settings: CaseSettings,
  alone: (team: Team, lab: Lab, scale: number) => Promise<Values>,
): Case => {
  const { implementations = everybody, isOneCore = false } = settings;
  const placement = isOneCore ? "server and clients on one core" : "server and clients on a core each";
  return {
    ...{ rounds: Infinity, processes: 1, setup: {}, ...settings },
    entries: entries.map((one) => ({ ...one, about: `${one.about}; ${placement}` })),
    implementations: implementations.map(queueImplementation),
    measure: {
      alone: async (team, lab, scale) => {
        execFileSync("taskset", ["-acp", "0", String(serverOf(lab).pid)]);
        await team.all("pin", { core: isOneCore ? 0 : 1 });
        return { operations: 0, ...(await alone(team, lab, scale)) };
      },
    },
  };
};

const valuesOf = (name: string, { jobs, elapsedMs, cpuMicros }: Rate): Values => ({
  values: { [name]: (jobs * 1_000) / elapsedMs },
  details: { clientCpuMicrosPerJob: cpuMicros / jobs },
});

const addCase = (of: Entry, how: AddTask["how"], settings: CaseSettings = {}, backlog = 0): Case =>
  caseOf([of], settings, async (team, _lab, scale) => {
    const worker = workerOf(team);
    // The first few thousand calls run interpreted code, which makes the larger implementation look slower than it is.
    await worker.ask("add", { how, ms: 600 * scale } satisfies AddTask);
    if (backlog > 0) await worker.ask("fill", { jobs: Math.ceil(backlog * scale), isRanked: true });
    return valuesOf(of.name, await worker.ask<Rate>("add", { how, ms: 700 * scale } satisfies AddTask));
  });

interface ProcessSettings extends CaseSettings {
  readonly handlerMs?: number;
  /** The share of the usual number of jobs. */
  readonly share?: number;
  readonly isPersistent?: boolean;
  readonly roundTripMs?: number;
}

/** All jobs are queued when the worker starts. Measures from the first handler's start to the last one's end. */
const processCase = (of: Entry, concurrency: number, settings: ProcessSettings = {}): Case =>
  caseOf([of], settings, async (team, lab, scale) => {
    const { handlerMs = 0, share = 1, isPersistent = false, roundTripMs = 0 } = settings;
    const worker = workerOf(team);
    const keepFile = (isKept: boolean): Promise<unknown> =>
      lab.server.call("CONFIG", "SET", "appendonly", isKept ? "yes" : "no");
    await using proxy = await FaultProxy.start({ port: serverOf(lab).port });
    if (isPersistent) await keepFile(true);
    try {
      const jobs = Math.ceil(queueImplementation(team.opened).load * share * scale);
      await worker.ask("fill", { jobs });
      if (roundTripMs > 0) {
        proxy.up.latencyMs = roundTripMs;
        await worker.ask("open", { port: proxy.port });
      }
      return valuesOf(of.name, await worker.ask("process", { jobs, concurrency, handlerMs } satisfies ProcessTask));
    } finally {
      if (isPersistent) await keepFile(false);
    }
  });

const noOp = "a handler that does nothing, all jobs queued before it starts";
const each: QueueSetup = { ack: "each" };
const strict: QueueSetup = { strict: true, ack: "each" };

const [commandsName, microsName] = ["commands per job c=100", "redis µs per lifecycle c=100"];
/** The server's work for a job, from its add to its acknowledgement. */
const lifecycle = caseOf(
  [
    entry(commandsName, "commands", "lower", "processing alone, commands inside scripts too", goal(100, 40)),
    entry(microsName, "µs of the server's CPU", "lower", "added 1,000 at a time, and processed", goal(7, 3)),
  ],
  {},
  async (team, lab, scale) => {
    const worker = workerOf(team);
    const jobs = Math.ceil(queueImplementation(team.opened).load * scale);
    const ofAdding = await lab.watch();
    await worker.ask("fill", { jobs });
    const added = await ofAdding();
    const ofWorking = await lab.watch();
    await worker.ask("process", { jobs, concurrency: 100 } satisfies ProcessTask);
    const worked = await ofWorking();
    return {
      values: { [commandsName]: worked.commands / jobs, [microsName]: (added.cpuMicros + worked.cpuMicros) / jobs },
      details: { addCommands: added.commands / jobs, addMicros: added.cpuMicros / jobs },
    };
  },
);

/** One process works, another adds: two values, by the names of `half` and `hundredth`. */
const latencyCase = (half: Entry, hundredth: Entry, task: TrickleTask, settings: CaseSettings): Case =>
  caseOf([half, hundredth], { ...settings, processes: 2, isFinal: true }, async (team, _lab, scale) => {
    const [listener, producer] = [workerOf(team), workerOf(team, 1)];
    const lateOf = async (trickle: TrickleTask): Promise<readonly number[]> => {
      let late: number[] = [];
      await producer.ask("trickle", trickle);
      await eventually(
        async () => {
          late = [...late, ...(await listener.ask<readonly number[]>("heard"))];
          if (late.length < trickle.jobs)
            throw new Error(`only ${String(late.length)} of ${String(trickle.jobs)} jobs ran`);
        },
        { timeoutMs: 30_000, intervalMs: 100 },
      );
      return late;
    };
    await listener.ask("listen");
    // As with adds, the first calls would measure interpreted code.
    await lateOf({ jobs: Math.ceil(2_000 * scale), gapMs: 1 });
    await lateOf({ ...task, jobs: 20 });
    const late = await lateOf({ ...task, jobs: Math.ceil(task.jobs * scale) });
    return { values: { [half.name]: percentile(late, 0.5), [hundredth.name]: percentile(late, 0.99) } };
  });

const idleAbout = "from the call of add to the handler's start in another process; one job each 5 ms, idle worker";
const lateAbout = "from the due time to the handler's start; due 1 s after the call, one job each 10 ms";

const spreadName = "20 long jobs after quick ones, 20 idle workers: start of the last";
const spread = caseOf(
  [entry(spreadName, "ms", "lower", "from the call that adds them; 400 quick jobs before", atMost(100))],
  { implementations: ["kit", "bullmq", "bee-queue"], isFinal: true },
  async (team, _lab, scale) => {
    const task: SpreadTask = { workers: 20, quick: Math.ceil(400 * scale) };
    return { values: { [spreadName]: await workerOf(team).ask<number>("spread", task) } };
  },
);

const serverMemory = async ({ server }: Lab): Promise<number> =>
  Number(/^used_memory:(\d+)/m.exec(String(await server.call("INFO", "memory")))?.[1]);

const bytesName = "bytes per waiting job";
const bytesAbout = "20,000 jobs of about 200 bytes of JSON";
const bytes = caseOf(
  [entry(bytesName, "bytes of the server's memory", "lower", bytesAbout, goal(2.5, 1.2))],
  { rounds: 3 },
  async (team, lab, scale) => {
    await workerOf(team).ask("fill", { jobs: 100 });
    const before = await serverMemory(lab);
    const jobs = Math.ceil(20_000 * scale);
    await workerOf(team).ask("fill", { jobs });
    return { values: { [bytesName]: ((await serverMemory(lab)) - before) / jobs } };
  },
);

const recoveryName = "recovery after kill -9";
const recover = async (team: Team): Promise<Measurement | Error> => {
  const [victim, heir] = [workerOf(team), workerOf(team, 1)];
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
    return { values: { [recoveryName]: (await seenBy(heir, 120_000)) - at }, operations: 0 };
  } catch (error) {
    return error as Error;
  }
};
/** All implementations run at once, since the peers take a minute. */
const recovery: Case = {
  entries: [
    entry(
      recoveryName,
      "ms",
      "lower",
      "from SIGKILL of a worker to the start of its job in another one, each library with its defaults",
      goal(5, 0.7, { atMost: 11_000, of: "max" }),
    ),
  ],
  implementations: ["kit", "bullmq defaults", "bee-queue defaults"].map(queueImplementation),
  ...{ rounds: 3, processes: 2, setup: {}, isFinal: true },
  measure: {
    together: async (teams) =>
      new Map(await Promise.all(teams.map(async (team) => [team.implementation, await recover(team)] as const))),
  },
};

const idleName = "idle worker commands per minute";
const idleCommandsAbout = "a worker without work, by the server's count over 30 s, commands inside scripts too";
const idleCommands = caseOf(
  [entry(idleName, "commands", "lower", idleCommandsAbout, goal(7))],
  { rounds: 2, isFinal: true, implementations: withDelays },
  async (team, lab, scale) => {
    await workerOf(team).ask("listen");
    await sleep(1_000);
    const watched = await lab.watch();
    await sleep(30_000 * scale);
    return { values: { [idleName]: ((await watched()).commands * 2) / scale } };
  },
);

const lostName = "reply of a worker step lost";
const lostAbout = "2,000 jobs; each time some have ended, a reply is lost and its connection cut";
const lostReplies = caseOf(
  [entry(lostName, "jobs lost, and crashes charged", "lower", lostAbout, atMost(0))],
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
      // Handshakes of connections that were cut before are not counted.
      for (let last = Infinity; !isOver; await sleep(20)) {
        const count = await left();
        if (count < last) proxy.down.cutNext = 1;
        last = count;
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
    return { values: { [lostName]: (await left()) + crashed }, details: { cuts: proxy.stats.resets } };
  },
);

/** The median of the slopes between all pairs (Theil–Sen), which single outliers do not move. */
const hourlyMegabytes = (points: readonly (readonly [atMs: number, bytes: number])[]): number => {
  const slopes = points.flatMap(([at, value], index) =>
    points.slice(index + 1).map(([laterAt, later]) => (later - value) / (laterAt - at)),
  );
  return (percentile(slopes, 0.5) * 3_600_000) / 1e6;
};

const soakNames = ["soak of 1M jobs: server memory", "soak of 1M jobs: heap"] as const;
const soakAbout =
  "a million jobs of 16 bytes to 16 KiB; growth between empty queues, without the first tenth and compiled code";
const soak = caseOf(
  soakNames.map((name) => entry(name, "MB/h", "lower", soakAbout, atMost(1))),
  { implementations: ["kit"], rounds: 1, isFinal: true },
  async (team, lab, scale) => {
    const points: { readonly at: number; readonly bytes: readonly [server: number, heap: number] }[] = [];
    for (let part = 0; part < 40; part++) {
      const heap = await workerOf(team).ask<number>("soak", { jobs: Math.ceil(25_000 * scale) });
      points.push({ at: now(), bytes: [await serverMemory(lab), heap] });
    }
    const settled = points.slice(4);
    const [first, last] = [settled[0], settled.at(-1)];
    const details: Record<string, number> = { seconds: ((last?.at ?? 0) - (first?.at ?? 0)) / 1_000 };
    const values = soakNames.map((name, of) => {
      const slope = hourlyMegabytes(settled.map(({ at, bytes: all }) => [at, all[of] ?? NaN]));
      const part = name.slice(name.indexOf(": ") + 2);
      details[`${part}: slope`] = slope;
      details[`${part}: first`] = first?.bytes[of] ?? NaN;
      details[`${part}: last`] = last?.bytes[of] ?? NaN;
      return [name, Math.max(0, slope)] as const;
    });
    return { values: Object.fromEntries(values), details };
  },
);

const serial = "one add after the other";
const onceAcknowledged = "a slot starts its next job once the server has acknowledged the last";

export const suite: Suite = {
  package: "queue",
  cases: [
    addCase(jobsASecond("add serial", serial, goal(1.15, 0.9, { than: "floor", atLeast: 0.95 })), "serial"),
    addCase(jobsASecond("add serial, one core", serial), "serial", { isOneCore: true }),
    addCase(jobsASecond("add 1000 concurrent", "1,000 adds in one turn, then the next", goal(6, 2.2)), "concurrent"),
    addCase(jobsASecond("add bulk 1000", "1,000 in one call", goal(9, 2.8)), "bulk"),
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
        `${noOp}; nothing ahead, and ${onceAcknowledged}`,
        goal(4.5, 3),
      ),
      100,
      { setup: strict },
    ),
    processCase(jobsASecond("process c=100 ack each", `${noOp}; ${onceAcknowledged}`, goal(2.2, 1.5)), 100, {
      setup: each,
    }),
    processCase(jobsASecond("process c=100 handler 20 ms", "every handler takes 20 ms"), 100, {
      ...{ implementations: withDelays, handlerMs: 20, share: 0.04, rounds: 3 },
    }),
    processCase(jobsASecond("AOF everysec: process c=100", `${noOp}; with an append-only file`, goal(5, 3)), 100, {
      isPersistent: true,
    }),
    processCase(jobsASecond("1 ms round trip: process c=100", `${noOp}; each request a millisecond on its way`), 100, {
      ...{ roundTripMs: 1, isFinal: true, share: 0.3, rounds: 3 },
    }),
    latencyCase(
      entry("idle latency p50", "ms", "lower", idleAbout, goal(1.5, 1.1)),
      entry("idle latency p99", "ms", "lower", idleAbout, goal(1, 0.8)),
      { jobs: 400, gapMs: 5 },
      {},
    ),
    latencyCase(
      entry("delayed lateness p50", "ms", "lower", lateAbout),
      entry("delayed lateness p99", "ms", "lower", lateAbout, goal(12, 0.6)),
      { jobs: 150, gapMs: 10, delayMs: 1_000 },
      // A delayed job ends the worker of the classic code.
      { implementations: withDelays.filter((id) => id !== "classic") },
    ),
    spread,
    bytes,
    lifecycle,
    addCase(
      jobsASecond(
        "add 1000 concurrent at 400k prioritised backlog",
        "1,000 adds of 50 priorities in one turn, 400,000 waiting",
        goal(4),
      ),
      "ranked",
      { implementations: ["kit", "bullmq"], rounds: 2 },
      400_000,
    ),
    lostReplies,
    recovery,
    idleCommands,
    soak,
  ],
};
