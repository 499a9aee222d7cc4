import { setTimeout as sleep } from "node:timers/promises";
import { now } from "@tooling/lab";
import { implementations } from "./implementations.js";
import type { LockSetup } from "./lock-caller.js";
import { nodeTimeoutMs } from "./quorum.js";
import type { Lab, Team } from "../../lab.js";
import { rateCase, runAll, steadyCases } from "../../rates.js";
import { median, percentile } from "../../statistics.js";
import { atLeast, atMost, type Case, type Check, type Entry, type Measurement, type Suite } from "../../suite.js";
import { unfairness } from "../../loops/loops-run.js";
import type { BurstTask, HoldTask, MixTask, NamesTask } from "./jobs.js";
import type { PairsTask } from "../../loops/loops-jobs.js";
import { headStartMs, loopsCase, runLoops } from "../../loops/loops.js";

const usual: LockSetup = { leaseMs: 10_000, renew: true };

// No caller waits, so the retry settings do not matter. The default path of redlock-universal does more per pair.
const alone = [
  "kit",
  "redlock4",
  "redlock5",
  "redis-semaphore",
  "redlock-universal",
  "redlock-universal defaults",
  "classic",
  "raw pair",
];

const uncontended = (callers: number, about: string, goal: readonly Check[]): Case =>
  rateCase(
    { name: `uncontended c=${String(callers)}`, unit: "pairs/s", about, goal },
    { ...implementations.pick(alone, usual), task: { callers, namesPerCaller: 50 } satisfies PairsTask },
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

/** A ratio for redlock and redis-semaphore alike. */
const both = (ratio: number): Check[] => atLeast({ redlock: ratio, "redis-semaphore": ratio });

const sixteen = "16 closed loops in 4 processes on one name, each holds it for 5 ms";

const contended16x4 = loopsCase(
  [
    {
      name: "contended 16x4 hold=5ms gap p50",
      unit: "ms",
      about: `${sixteen}; from the end of a hold to the next holder running, often the same one where there is no order of arrival`,
    },
    {
      name: "contended 16x4 hold=5ms gap p99",
      unit: "ms",
      about: `${sixteen}; from the end of a hold to the next holder running`,
      goal: atLeast({ redlock: 30, "redis-semaphore": 10 }),
    },
    {
      name: "contended 16x4 hold=5ms gap to another p99",
      unit: "ms",
      about: `${sixteen}; the same, counted only when the next holder is another one`,
    },
    {
      name: "contended 16x4 hold=5ms wait p50",
      unit: "ms",
      about: `${sixteen}; from acquire to the lock. Without an order of arrival the median is low and the tail is long`,
    },
    {
      name: "contended 16x4 hold=5ms wait p99",
      unit: "ms",
      about: `${sixteen}; from acquire to the lock`,
      goal: both(8),
    },
    {
      name: "contended commands per hand-off",
      unit: "commands",
      about: `${sixteen}; commands that clients sent, those inside scripts not counted`,
      goal: [...atMost(2.2), ...atLeast({ "redis-semaphore": 5 })],
    },
  ],
  { loops: 16, permits: 1, holdMs: 5, settleMs: 250, countMs: 1_300 },
  implementations.pick(contended, usual),
  ({ gaps, gapsToOthers, waits, sentInWindow, grants }) => [
    percentile(gaps, 0.5),
    percentile(gaps, 0.99),
    gapsToOthers.length > 0 ? percentile(gapsToOthers, 0.99) : undefined,
    percentile(waits, 0.5),
    percentile(waits, 0.99),
    sentInWindow / grants,
  ],
);

const contended200 = loopsCase(
  [
    {
      name: "contended commands per hand-off 200 waiters",
      unit: "commands",
      about: "200 closed loops in 4 processes on one name, each holds it for 5 ms; commands that clients sent",
      goal: [...atMost(2.2), ...atLeast({ "redis-semaphore": 5 })],
    },
  ],
  { loops: 200, permits: 1, holdMs: 5, settleMs: 400, countMs: 1_300 },
  { ...implementations.pick([...sparing, "raw push"], usual), rounds: 2 },
  ({ sentInWindow, grants }) => [sentInWindow / grants],
);

const withoutPush = contended.filter((id) => id !== "raw push");

const fairness = loopsCase(
  [
    {
      name: "fairness 64 loops",
      unit: "max/min",
      about:
        "64 closed loops in 4 processes on one name, each holds it for 1 ms; the most acquisitions of a loop divided by the fewest",
      goal: atMost(1.1),
      floor: 1,
    },
  ],
  { loops: 64, permits: 1, holdMs: 1, settleMs: 250, countMs: 1_900 },
  { ...implementations.pick(withoutPush, usual), rounds: 2 },
  ({ perLoop }) => [unfairness(perLoop)],
);

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
      name: "burst 50 hold=1ms makespan",
      unit: "ms",
      about:
        "50 callers in 4 processes want one name at the same instant, each holds it for 1 ms; until the last is done",
      goal: both(4),
    },
  ],
  ...implementations.pick(contended, usual),
  processes: 4,
  warmUp: runBurst,
  measure: async (team) => {
    const makespans: number[] = [];
    const until = now() + 500;
    do makespans.push(await runBurst(team));
    while (makespans.length < 3 && now() < until);
    return { values: [median(makespans)], operations: makespans.length * burstCallers };
  },
};

const mix = (writes: number, goal?: readonly Check[]): Case => {
  const reads = 100 - writes;
  return rateCase(
    {
      name: `read/write ${String(reads)}/${String(writes)} c=64 hold=1ms`,
      unit: "sections/s",
      about: `64 callers in one process on one name, each holds it for 1 ms, ${String(reads)} of 100 times for reading; the plain lock has one mode`,
      goal,
    },
    {
      ...implementations.pick(["read/write lock", "plain lock", "raw read/write"], usual),
      task: { callers: 64, writes, holdMs: 1 } satisfies MixTask,
      rounds: 3,
    },
  );
};

const severalNames = (names: number, goal: readonly Check[]): Case =>
  rateCase(
    {
      name: `acquireAll of ${String(names)} c=1`,
      unit: "sets/s",
      about: `one caller, ${String(names)} names that are free, acquired and released; 50 such sets in turn`,
      goal,
    },
    {
      ...implementations.pick(["acquireAll", "acquires in turn", "redlock5 of several", "raw pairs"], usual),
      task: { names, sets: 50 } satisfies NamesTask,
      rounds: 3,
    },
  );

const quorum = (setup: LockSetup): Pick<Case, "implementations" | "setup" | "servers" | "rounds"> => ({
  ...implementations.pick(["quorum lock", "redlock5 of 3 servers", "raw quorum"], setup),
  servers: 3,
  rounds: 3,
});

const onePair: PairsTask = { callers: 1, namesPerCaller: 50, isTimed: true };

const quorumUncontended = rateCase(
  {
    name: "quorum 3 nodes uncontended",
    unit: "pairs/s",
    about: "one caller, one pair of acquire and release on three servers after the other, 50 names in turn",
    goal: atLeast({ redlock: 1 }),
  },
  { ...quorum(usual), task: onePair },
);

const quorumOneSilent: Case = {
  entries: [
    {
      name: "quorum one node black-holed p99",
      unit: "ms",
      about:
        "the same, while one of the three servers is behind a link that swallows everything: a pair of acquire and " +
        "release, once it has been noticed. The goal is one limit of a node and a round trip",
      goal: atMost(nodeTimeoutMs + 1, "max"),
    },
  ],
  ...quorum({ ...usual, isLastSilent: true }),
  warmUp: (team, _lab, scale) => runAll(team, onePair, 800 * scale),
  measure: async (team, _lab, scale) => {
    const waits = (await runAll(team, onePair, 900 * scale)).flatMap((result) => [...result.waits]);
    return {
      values: [percentile(waits, 0.99)],
      operations: waits.length,
      details: { p50Ms: median(waits), maxMs: Math.max(...waits) },
    };
  },
};

const total = (counts: readonly number[]): number => counts.reduce((sum, count) => sum + count, 0);

/** The number of commands that all processes send within `ms`. */
const sentWithin = async (team: Team, ms: number): Promise<number> => {
  const before = total(await team.all<number>("sent"));
  await sleep(ms);
  return total(await team.all<number>("sent")) - before;
};

const idleWaiters: Case = {
  entries: [
    {
      name: "1000 idle waiters 10s commands",
      unit: "commands in 10 s",
      about:
        "1000 wait in 4 processes for one name that a fifth process holds, counted once all have joined; " +
        "polling implementations are counted for 1 s, times 10",
      goal: atLeast({ "redis-semaphore": 1_000 }),
      floor: 0,
    },
  ],
  // A lease so long that no holder renews during the count.
  ...implementations.pick(sparing, { leaseMs: 60_000, renew: true }),
  rounds: 2,
  processes: 5,
  isFinal: true,
  measure: async (team, _lab, scale) => {
    const [holder, ...crowds] = team.workers;
    const name = "idle";
    await holder?.ask("occupy", { name });
    await Promise.all(crowds.map((worker) => worker.ask("crowd", { name, callers: 1_000 / crowds.length })));
    await sleep(1_500);
    const polls = team.opened !== "kit";
    const commands = await sentWithin(team, (polls ? 1_000 : 10_000) * scale);
    return { values: [(commands * (polls ? 10 : 1)) / scale] };
  },
};

type Outcomes = Map<string, Measurement | Error>;

/** Lets all teams hold names, one team after the other. Resolves with those that do; the error of another is its outcome. */
const allHolding = async (
  teams: readonly Team[],
  namesOf: (team: Team) => readonly string[],
  outcomes: Outcomes,
): Promise<Team[]> => {
  const holding: Team[] = [];
  for (const team of teams)
    try {
      await team.all("hold", { names: namesOf(team), apartMs: 0, mustRenew: true } satisfies HoldTask);
      holding.push(team);
    } catch (error) {
      outcomes.set(team.implementation, error as Error);
    }
  return holding;
};

const heldLeaseMs = 3_000;

const renewals: Case = {
  entries: [
    {
      name: "1000 held leases renewal commands",
      unit: "commands per lease length",
      about: "one process holds 1000 names for 3 s with leases of 3 s, renewed each third where that can be set",
      goal: atLeast({ "one script per lock": 20 }),
      // A script for a hundred leases, three times.
      floor: 30,
    },
  ],
  ...implementations.pick(
    ["kit", "redlock4", "redlock5", "redis-semaphore", "redlock-universal", "classic", "one script per lock"],
    { leaseMs: heldLeaseMs, renew: true, renewEachThird: true },
  ),
  rounds: 5,
  isFinal: true,
  together: async (teams) => {
    const outcomes: Outcomes = new Map();
    const namesOf = ({ implementation }: Team): string[] =>
      Array.from({ length: 1_000 }, (_, index) => `held-${implementation}-${String(index)}`);
    const holding = await allHolding(teams, namesOf, outcomes);
    const count = async (team: Team): Promise<Measurement | Error> => {
      const commands = await sentWithin(team, heldLeaseMs);
      const lost = (await team.all<number[]>("losses")).flat().length;
      return lost > 0 ? new Error(`lost ${String(lost)} of 1000 while it renewed them`) : { values: [commands] };
    };
    // All are counted in the same seconds.
    await Promise.all(holding.map(async (team) => outcomes.set(team.implementation, await count(team))));
    return outcomes;
  },
};

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
  for (const name of names) keys.set(name, await team.ask<string>("leaseKey", { name }));
  return keys;
};

const allGranted = async (team: Team, names: ReadonlySet<string>, limitMs: number): Promise<Map<string, number>> => {
  const deadline = now() + limitMs;
  for (;;) {
    const grants = await team.worker(1).ask<Map<string, number>>("grants");
    if ([...names].every((name) => grants.has(name))) return grants;
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
      name: "holder SIGKILL → next running p50",
      unit: "ms after the lease",
      about: aboutKilled,
      goal: atMost(20),
    },
    {
      name: "holder SIGKILL → next running p99",
      unit: "ms after the lease",
      about: aboutKilled,
      goal: [...atMost(100), ...both(1)],
    },
  ],
  ...implementations.pick([...withoutPush.filter((id) => id !== "classic"), "raw timer"], {
    leaseMs: 1_000,
    renew: true,
  }),
  rounds: 15,
  processes: 2,
  isFinal: true,
  measure: async (team, lab) => {
    const [holder, waiter] = [team.worker(0), team.worker(1)];
    const keys = await leaseKeys(team, killedNames);
    // An implementation without renewal has lost the first names when its process is killed. They are not counted.
    await holder.ask("hold", { names: killedNames, apartMs: 5, mustRenew: false } satisfies HoldTask);
    await waiter.ask("wait", { names: killedNames });
    await sleep(200 + Math.random() * 300);
    await holder.kill();
    const ends = await leaseEnds(lab, keys);
    if (ends.size === 0) throw new Error("no lease was left to wait for");
    const grants = await allGranted(team, new Set(ends.keys()), 5_000);
    // The server replies in whole milliseconds; 0.1 ms stands for "at once".
    const late = [...ends].map(([name, end]) => Math.max(0.1, (grants.get(name) ?? NaN) - end));
    return { values: [percentile(late, 0.5), percentile(late, 0.99)] };
  },
};

const lossLeaseMs = 1_000;
const silenceMs = 6_000;

const lossDetection: Case = {
  entries: [
    {
      name: "loss detection silent server ttl=1s",
      unit: "ms since the last renewal",
      about:
        "a holder with a lease of 1 s, renewed; the server stops (SIGSTOP) for 6 s; until the library reports the loss. " +
        "Later than 1000 ms the holder went on without the lock. All implementations share one silence",
      goal: atMost(lossLeaseMs, "max"),
    },
  ],
  ...implementations.pick(["kit", "redlock4", "redlock5", "redis-semaphore", "redlock-universal", "classic"], {
    leaseMs: lossLeaseMs,
    renew: true,
    defaultRetries: true,
  }),
  rounds: 3,
  isFinal: true,
  together: async (teams, lab) => {
    const outcomes: Outcomes = new Map();
    const holding = await allHolding(teams, ({ implementation }) => [`loss-${implementation}`], outcomes);
    // From here on a holder sends only renewals.
    for (const team of holding) await team.all("sentAt");
    await sleep(1_500 + Math.random() * 1_000);
    const silentFrom = now();
    lab.node.pause();
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
          outcomes.set(team.implementation, { values: [reportedAt - last] });
      }
    } finally {
      lab.node.resume();
    }
    return outcomes;
  },
};

/** Contending loops while the server is disturbed repeatedly. */
const disturbed = (
  entry: Entry,
  everyMs: number,
  disturb: (lab: Lab) => Promise<unknown>,
  valueOf: (grants: readonly number[], seconds: number) => number,
): Case => ({
  entries: [entry],
  // redlock@5 is left out: after a lost connection it waits for a reply that never comes.
  ...implementations.pick(["kit", "redis-semaphore", "redis-semaphore defaults"], usual),
  rounds: 5,
  processes: 4,
  isFinal: true,
  measure: async (team, lab, scale) => {
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
    return { values: [valueOf(grants, (stopAt - countFrom) / 1_000)], operations: grants.length };
  },
});

const killAll = (lab: Lab): Promise<unknown> => lab.server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");

const connectionsKilled = disturbed(
  {
    name: "connections killed each 200 ms: sections",
    unit: "sections/s",
    about: `${sixteen}; every connection of every client is killed each 200 ms`,
    goal: atLeast({ "redis-semaphore": 0.7 }),
  },
  200,
  killAll,
  (grants, seconds) => grants.length / seconds,
);

const dataLost = disturbed(
  {
    name: "data and connections lost each second: longest gap",
    unit: "ms",
    about: `${sixteen}; the server is emptied and every connection is killed each second; the longest time without a grant`,
  },
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
      1,
      "one caller, one pair of acquire and release after the other, 50 names in turn",
      atLeast({ redlock: 1, "redis-semaphore": 0.95, floor: 0.88 }),
    ),
    uncontended(
      64,
      "64 callers in one process on one connection, each with 50 names of its own in turn",
      atLeast({ "best peer": 1, floor: 0.9 }),
    ),
    ...steadyCases("pair", "acquire and release, 50 names in turn", {
      ...implementations.pick(alone, usual),
      task: { callers: 1, namesPerCaller: 50 } satisfies PairsTask,
    }),
    contended16x4,
    contended200,
    burst,
    fairness,
    mix(5, atLeast({ "plain lock": 3 })),
    mix(50),
    severalNames(2, atLeast({ "acquires in turn": 1.3 })),
    severalNames(8, atLeast({ "acquires in turn": 2 })),
    quorumUncontended,
    quorumOneSilent,
    idleWaiters,
    renewals,
    killed,
    lossDetection,
    connectionsKilled,
    dataLost,
  ],
};
