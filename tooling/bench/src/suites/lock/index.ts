import { setTimeout as sleep } from "node:timers/promises";
import { now } from "@tooling/lab";
import { lockImplementation, type LockSetup } from "./implementations.js";
import type { Lab, Team } from "../../lab.js";
import { median, percentile } from "../../statistics.js";
import type { Case, Entry, Goal, Measurement, Suite } from "../../suite.js";
import { unfairness } from "../../loops/loops-run.js";
import type { BurstTask, HoldTask } from "./jobs.js";
import type { PairsTask } from "../../loops/loops-jobs.js";
import { type Field, headStartMs, loopsCase, pairsCase, runLoops } from "../../loops/loops.js";

const usual: LockSetup = { leaseMs: 10_000, renew: true };

const field = (ids: readonly string[], setup: LockSetup): Field => ({
  implementations: ids.map((id) => lockImplementation(id, setup)),
  setup,
});

const uncontended = (name: string, task: Omit<PairsTask, "ms">, about: string, goal: Goal): Case =>
  pairsCase(
    { name, unit: "pairs/s", better: "higher", about, goal },
    // No caller waits, so the retry settings do not matter. The default path of redlock-universal does more per pair.
    field(
      [
        "kit",
        "redlock4",
        "redlock5",
        "redis-semaphore",
        "redlock-universal",
        "redlock-universal defaults",
        "classic",
        "raw pair",
      ],
      usual,
    ),
    task,
  );

const contended = [
  "kit",
  "redlock4",
  "redlock4 defaults",
  "redlock5",
  "redlock5 defaults",
  "redis-semaphore",
  "redis-semaphore defaults",
  "redlock-universal",
  "redlock-universal defaults",
  "classic",
  "raw push",
];
/** The implementations that poll least, which is a peer's best setting where commands are counted. */
const sparing = contended.filter((id) => id === "kit" || id === "classic" || id.endsWith(" defaults"));

const sixteen = "16 closed loops in 4 processes on one name, each holds it for 5 ms";

const contended16x4 = loopsCase(
  [
    {
      name: "contended 16x4 hold=5ms gap p50",
      unit: "ms",
      better: "lower",
      about: `${sixteen}; from the end of a hold to the next holder running, often the same one where there is no order of arrival`,
    },
    {
      name: "contended 16x4 hold=5ms gap p99",
      unit: "ms",
      better: "lower",
      about: `${sixteen}; from the end of a hold to the next holder running`,
      goal: {
        text: "≥ 30 × redlock, ≥ 10 × redis-semaphore",
        checks: [
          { than: "redlock", atLeast: 30 },
          { than: "redis-semaphore", atLeast: 10 },
        ],
      },
    },
    {
      name: "contended 16x4 hold=5ms gap to another p99",
      unit: "ms",
      better: "lower",
      about: `${sixteen}; the same, counted only when the next holder is another one`,
    },
    {
      name: "contended 16x4 hold=5ms wait p50",
      unit: "ms",
      better: "lower",
      about: `${sixteen}; from acquire to the lock. Without an order of arrival the median is low and the tail is long`,
    },
    {
      name: "contended 16x4 hold=5ms wait p99",
      unit: "ms",
      better: "lower",
      about: `${sixteen}; from acquire to the lock`,
      goal: {
        text: "≥ 8 × both",
        checks: [
          { than: "redlock", atLeast: 8 },
          { than: "redis-semaphore", atLeast: 8 },
        ],
      },
    },
    {
      name: "contended commands per hand-off",
      unit: "commands",
      better: "lower",
      about: `${sixteen}; commands that clients sent, those inside scripts not counted`,
      goal: {
        text: "≤ 2.2; ≥ 5 × fewer than redis-semaphore",
        checks: [{ atMost: 2.2 }, { than: "redis-semaphore", atLeast: 5 }],
      },
    },
  ],
  field(contended, usual),
  Infinity,
  { loops: 16, permits: 1, holdMs: 5, settleMs: 250, countMs: 1_300 },
  ({ gaps, gapsToOthers, waits, sentInWindow, grants }) => ({
    "contended 16x4 hold=5ms gap p50": percentile(gaps, 0.5),
    "contended 16x4 hold=5ms gap p99": percentile(gaps, 0.99),
    ...(gapsToOthers.length > 0
      ? { "contended 16x4 hold=5ms gap to another p99": percentile(gapsToOthers, 0.99) }
      : {}),
    "contended 16x4 hold=5ms wait p50": percentile(waits, 0.5),
    "contended 16x4 hold=5ms wait p99": percentile(waits, 0.99),
    "contended commands per hand-off": sentInWindow / grants,
  }),
);

const contended200 = loopsCase(
  [
    {
      name: "contended commands per hand-off 200 waiters",
      unit: "commands",
      better: "lower",
      about: "200 closed loops in 4 processes on one name, each holds it for 5 ms; commands that clients sent",
      goal: {
        text: "≤ 2.2; ≥ 5 × fewer than redis-semaphore",
        checks: [{ atMost: 2.2 }, { than: "redis-semaphore", atLeast: 5 }],
      },
    },
  ],
  field([...sparing, "raw push"], usual),
  2,
  { loops: 200, permits: 1, holdMs: 5, settleMs: 400, countMs: 1_300 },
  ({ sentInWindow, grants }) => ({ "contended commands per hand-off 200 waiters": sentInWindow / grants }),
);

const fairness = loopsCase(
  [
    {
      name: "fairness 64 loops",
      unit: "max/min",
      better: "lower",
      about:
        "64 closed loops in 4 processes on one name, each holds it for 1 ms; the most acquisitions of a loop divided by the fewest",
      goal: { text: "≤ 1.1", checks: [{ atMost: 1.1 }] },
      floor: 1,
    },
  ],
  field(
    contended.filter((id) => id !== "raw push"),
    usual,
  ),
  2,
  { loops: 64, permits: 1, holdMs: 1, settleMs: 250, countMs: 1_900 },
  ({ perLoop }) => ({ "fairness 64 loops": unfairness(perLoop) }),
);

const burstName = "burst 50 hold=1ms makespan";
const burstCallers = 50;

const runBurst = async (team: Team): Promise<number> => {
  const startAt = now() + headStartMs;
  const count = team.workers.length;
  const task = (index: number): BurstTask => ({
    callers: Math.floor((burstCallers + index) / count),
    name: "burst",
    startAt,
    holdMs: 1,
  });
  return Math.max(...(await team.all<number>("burst", task))) - startAt;
};

const burst: Case = {
  entries: [
    {
      name: burstName,
      unit: "ms",
      better: "lower",
      about:
        "50 callers in 4 processes want one name at the same instant, each holds it for 1 ms; until the last is done",
      goal: {
        text: "≥ 4 × both",
        checks: [
          { than: "redlock", atLeast: 4 },
          { than: "redis-semaphore", atLeast: 4 },
        ],
      },
    },
  ],
  ...field(contended, usual),
  rounds: Infinity,
  processes: 4,
  warmUp: async (team) => void (await runBurst(team)),
  measure: {
    alone: async (team): Promise<Measurement> => {
      const makespans: number[] = [];
      const until = now() + 500;
      do makespans.push(await runBurst(team));
      while (makespans.length < 3 && now() < until);
      return { values: { [burstName]: median(makespans) }, operations: makespans.length * burstCallers };
    },
  },
};

const asError = (error: unknown): Error => (error instanceof Error ? error : new Error(String(error)));

const total = (counts: readonly number[]): number => counts.reduce((sum, count) => sum + count, 0);

/** The number of commands that all processes send within `ms`. */
const sentWithin = async (team: Team, ms: number): Promise<number> => {
  const before = total(await team.all<number>("sent"));
  await sleep(ms);
  return total(await team.all<number>("sent")) - before;
};

const idleName = "1000 idle waiters 10s commands";

const idleWaiters: Case = {
  entries: [
    {
      name: idleName,
      unit: "commands in 10 s",
      better: "lower",
      about:
        "1000 wait in 4 processes for one name that a fifth process holds, counted once all have joined; " +
        "polling implementations are counted for 1 s, times 10",
      goal: {
        text: "≥ 1000 × fewer than redis-semaphore",
        checks: [{ than: "redis-semaphore", atLeast: 1_000 }],
      },
      floor: 0,
    },
  ],
  // A lease so long that no holder renews during the count.
  ...field(sparing, { leaseMs: 60_000, renew: true }),
  rounds: 2,
  processes: 5,
  isFinal: true,
  measure: {
    alone: async (team, _lab, scale): Promise<Measurement> => {
      const [holder, ...crowds] = team.workers;
      const name = "idle";
      await holder?.ask("occupy", { name });
      await Promise.all(crowds.map((worker) => worker.ask("crowd", { name, callers: 1_000 / crowds.length })));
      await sleep(1_500);
      const polls = team.opened !== "kit";
      const commands = await sentWithin(team, (polls ? 1_000 : 10_000) * scale);
      return { values: { [idleName]: (commands * (polls ? 10 : 1)) / scale }, operations: 0 };
    },
  },
};

const renewalName = "1000 held leases renewal commands";
const heldLeaseMs = 3_000;

const renewals: Case = {
  entries: [
    {
      name: renewalName,
      unit: "commands per lease length",
      better: "lower",
      about: "one process holds 1000 names for 3 s with leases of 3 s, renewed each third where that can be set",
      goal: { text: "≥ 20 × fewer than one script per lock", checks: [{ than: "one script per lock", atLeast: 20 }] },
      // A script for a hundred leases, three times.
      floor: 30,
    },
  ],
  ...field(["kit", "redlock4", "redlock5", "redis-semaphore", "redlock-universal", "classic", "one script per lock"], {
    leaseMs: heldLeaseMs,
    renew: true,
    renewEachThird: true,
  }),
  rounds: 5,
  processes: 1,
  isFinal: true,
  measure: {
    together: async (teams): Promise<Map<string, Measurement | Error>> => {
      // The teams acquire one after the other, then all are counted in the same seconds.
      const holding = new Map<string, Team>();
      const outcomes = new Map<string, Measurement | Error>();
      for (const team of teams)
        try {
          const names = Array.from({ length: 1_000 }, (_, index) => `held-${team.implementation}-${String(index)}`);
          await team.all("hold", { names, apartMs: 0, mustRenew: true } satisfies HoldTask);
          holding.set(team.implementation, team);
        } catch (error) {
          outcomes.set(team.implementation, asError(error));
        }
      const count = async (team: Team): Promise<Measurement | Error> => {
        const commands = await sentWithin(team, heldLeaseMs);
        const lost = (await team.all<number[]>("losses")).flat().length;
        if (lost > 0) return new Error(`lost ${String(lost)} of 1000 while it renewed them`);
        return { values: { [renewalName]: commands }, operations: 0 };
      };
      await Promise.all([...holding].map(async ([id, team]) => outcomes.set(id, await count(team))));
      return outcomes;
    },
  },
};

const killedName = "holder SIGKILL → next running";
const killedNames = Array.from({ length: 40 }, (_, index) => `killed-${String(index)}`);

/** The end of each name's lease, by the clock of all processes. To be read once the holder no longer renews. */
const leaseEnds = async (lab: Lab, keys: ReadonlyMap<string, string>): Promise<Map<string, number>> => {
  const ends = new Map<string, number>();
  for (const [name, key] of keys) {
    const askedAt = now();
    const leftMs = Number(await lab.server.call("PTTL", key));
    if (leftMs > 0) ends.set(name, (askedAt + now()) / 2 + leftMs);
  }
  return ends;
};

const leaseKeys = async (team: Team, names: readonly string[]): Promise<Map<string, string>> => {
  const keys = new Map<string, string>();
  for (const name of names) keys.set(name, (await team.workers[0]?.ask<string>("leaseKey", { name })) ?? name);
  return keys;
};

const allGranted = async (team: Team, names: ReadonlySet<string>, limitMs: number): Promise<Map<string, number>> => {
  const deadline = now() + limitMs;
  for (;;) {
    const grants = await team.workers[1]?.ask<Map<string, number>>("grants");
    if (grants && [...names].every((name) => grants.has(name))) return grants;
    if (now() > deadline) throw new Error(`not every waiter got its lock within ${String(limitMs)} ms`);
    await sleep(20);
  }
};

const aboutKilled =
  "a process that holds 40 names with leases of 1 s is killed while another waits for each; " +
  "from the end of the lease that was left to the next holder running";

const killed: Case = {
  entries: [
    {
      name: `${killedName} p50`,
      unit: "ms after the lease",
      better: "lower",
      about: aboutKilled,
      goal: { text: "lease left + 20 ms", checks: [{ atMost: 20 }] },
    },
    {
      name: `${killedName} p99`,
      unit: "ms after the lease",
      better: "lower",
      about: aboutKilled,
      goal: {
        text: "lease left + 100 ms; sooner than both peers",
        checks: [{ atMost: 100 }, { than: "redlock", atLeast: 1 }, { than: "redis-semaphore", atLeast: 1 }],
      },
    },
  ],
  ...field([...contended.filter((id) => id !== "classic" && id !== "raw push"), "raw timer"], {
    leaseMs: 1_000,
    renew: true,
  }),
  rounds: 15,
  processes: 2,
  isFinal: true,
  measure: {
    alone: async (team, lab): Promise<Measurement> => {
      const [holder, waiter] = team.workers;
      const keys = await leaseKeys(team, killedNames);
      // An implementation without renewal has lost the first names when its process is killed. They are not counted.
      await holder?.ask("hold", { names: killedNames, apartMs: 5, mustRenew: false } satisfies HoldTask);
      await waiter?.ask("wait", { names: killedNames });
      await sleep(200 + Math.random() * 300);
      await holder?.kill();
      const ends = await leaseEnds(lab, keys);
      if (ends.size === 0) throw new Error("no lease was left to wait for");
      const grants = await allGranted(team, new Set(ends.keys()), 5_000);
      // The server replies in whole milliseconds; 0.1 ms stands for "at once".
      const late = [...ends].map(([name, end]) => Math.max(0.1, (grants.get(name) ?? NaN) - end));
      return {
        values: { [`${killedName} p50`]: percentile(late, 0.5), [`${killedName} p99`]: percentile(late, 0.99) },
        operations: 0,
      };
    },
  },
};

const lossName = "loss detection silent server ttl=1s";
const lossLeaseMs = 1_000;
const silenceMs = 6_000;

const lossDetection: Case = {
  entries: [
    {
      name: lossName,
      unit: "ms since the last renewal",
      better: "lower",
      about:
        "a holder with a lease of 1 s, renewed; the server stops (SIGSTOP) for 6 s; until the library reports the loss. " +
        "Later than 1000 ms the holder went on without the lock. All implementations share one silence",
      goal: {
        text: "abort before the lease ends (1000 ms), in every round",
        checks: [{ atMost: lossLeaseMs, of: "max" }],
      },
    },
  ],
  ...field(["kit", "redlock4", "redlock5", "redis-semaphore", "redlock-universal", "classic"], {
    leaseMs: lossLeaseMs,
    renew: true,
    defaultRetries: true,
  }),
  rounds: 3,
  processes: 1,
  isFinal: true,
  measure: {
    together: async (teams, lab): Promise<Map<string, Measurement | Error>> => {
      const outcomes = new Map<string, Measurement | Error>();
      const holding: Team[] = [];
      for (const team of teams)
        try {
          const task: HoldTask = { names: [`loss-${team.implementation}`], apartMs: 0, mustRenew: true };
          await team.all("hold", task);
          // From here on a holder sends only renewals.
          await team.all("sentAt");
          holding.push(team);
        } catch (error) {
          outcomes.set(team.implementation, asError(error));
        }
      await sleep(1_500 + Math.random() * 1_000);
      const [node] = lab.server.nodes;
      const silentFrom = now();
      node?.pause();
      try {
        await sleep(silenceMs);
        for (const team of holding) {
          const [reportedAt] = (await team.all<number[]>("losses")).flat();
          const renewals = (await team.all<number[]>("sentAt")).flat();
          const last = renewals.findLast((instant) => instant < silentFrom);
          const certainlyReceived = renewals.findLast((instant) => instant < silentFrom - 5);
          if (reportedAt === undefined)
            outcomes.set(team.implementation, new Error(`no loss reported in ${String(silenceMs)} ms of silence`));
          // The server may have missed a renewal that was under way when it stopped. Then the round counts only if the
          // renewal before it is less than 10 ms older.
          else if (last !== undefined && certainlyReceived !== undefined && last - certainlyReceived < 10)
            outcomes.set(team.implementation, { values: { [lossName]: reportedAt - last }, operations: 0 });
        }
      } finally {
        node?.resume();
      }
      return outcomes;
    },
  },
};

/** Contending loops while the server is disturbed repeatedly. */
const disturbed = (
  entry: Entry,
  ids: readonly string[],
  everyMs: number,
  disturb: (lab: Lab) => Promise<unknown>,
  valueOf: (grants: readonly number[], seconds: number) => number,
): Case => ({
  entries: [entry],
  ...field(ids, usual),
  rounds: 5,
  processes: 4,
  isFinal: true,
  measure: {
    alone: async (team, lab, scale): Promise<Measurement> => {
      const loops = { loops: 16, permits: 1, holdMs: 5, settleMs: 300, countMs: 4_000 * scale, goesOn: true };
      const disturbing: Promise<unknown>[] = [];
      const timer = setInterval(() => disturbing.push(disturb(lab)), everyMs);
      const { results, frame } = await runLoops(team, loops).finally(() => clearInterval(timer));
      await Promise.all(disturbing);
      const { countFrom, stopAt } = frame;
      const grants = results
        .flatMap(({ granted }) => [...granted])
        .filter((at) => at >= countFrom && at < stopAt)
        .toSorted((one, other) => one - other);
      return {
        values: { [entry.name]: valueOf(grants, (stopAt - countFrom) / 1_000) },
        operations: grants.length,
      };
    },
  },
});

// redlock@5 is left out: after a lost connection it waits for a reply that never comes.
const enduring = ["kit", "redis-semaphore", "redis-semaphore defaults"];
const killAll = (lab: Lab): Promise<unknown> => lab.server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");

const connectionsKilled = disturbed(
  {
    name: "connections killed each 200 ms: sections",
    unit: "sections/s",
    better: "higher",
    about: `${sixteen}; every connection of every client is killed each 200 ms`,
    goal: { text: "≥ 0.7 × redis-semaphore", checks: [{ than: "redis-semaphore", atLeast: 0.7 }] },
  },
  enduring,
  200,
  killAll,
  (grants, seconds) => grants.length / seconds,
);

const dataLost = disturbed(
  {
    name: "data and connections lost each second: longest gap",
    unit: "ms",
    better: "lower",
    about: `${sixteen}; the server is emptied and every connection is killed each second; the longest time without a grant`,
  },
  enduring,
  1_000,
  async (lab) => {
    await lab.server.call("FLUSHALL");
    await killAll(lab);
  },
  (grants) => Math.max(...grants.map((at, index) => at - (grants[index - 1] ?? at))),
);

export const suite: Suite = {
  package: "lock",
  cases: [
    uncontended(
      "uncontended c=1",
      { callers: 1, namesPerCaller: 50 },
      "one caller, one pair of acquire and release after the other, 50 names in turn",
      {
        text: "≥ 1.0 × redlock, ≥ 0.95 × redis-semaphore, ≥ 0.88 × floor",
        checks: [
          { than: "redlock", atLeast: 1 },
          { than: "redis-semaphore", atLeast: 0.95 },
          { than: "floor", atLeast: 0.88 },
        ],
      },
    ),
    uncontended(
      "uncontended c=64",
      { callers: 64, namesPerCaller: 50 },
      "64 callers in one process on one connection, each with 50 names of its own in turn",
      {
        text: "≥ 1.0 × best peer, ≥ 0.90 × floor",
        checks: [
          { than: "best peer", atLeast: 1 },
          { than: "floor", atLeast: 0.9 },
        ],
      },
    ),
    contended16x4,
    contended200,
    burst,
    fairness,
    idleWaiters,
    renewals,
    killed,
    lossDetection,
    connectionsKilled,
    dataLost,
  ],
};
