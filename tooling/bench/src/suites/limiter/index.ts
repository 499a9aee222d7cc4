import { now } from "@tooling/lab";
import { headStartMs } from "../../loops/loops.js";
import { unfairness } from "../../loops/loops-run.js";
import { rateCase } from "../../rates.js";
import { percentile } from "../../statistics.js";
import { atLeast, atMost, type Case, type Suite } from "../../suite.js";
import { implementations, type LimiterSetup } from "./implementations.js";
import type { ConsumeTask, CrowdTask, FillTask, LoopTask } from "./jobs.js";

const everybody = ["kit", "rate-limiter-flexible", "@upstash/ratelimit", "classic", "raw count", "raw gcra"];
const open: LimiterSetup = { count: 1_000_000_000, perMs: 3_600_000 };

const consumeCase = (callers: number, about: string, goal: Readonly<Record<string, number>>): Case =>
  rateCase(
    {
      name: `consume c=${String(callers)}`,
      unit: "calls/s",
      about: `${about}, 1,000 keys in turn`,
      goal: atLeast(goal),
    },
    { ...implementations.pick(everybody, open), task: { callers, keys: 1_000 } satisfies ConsumeTask },
  );

const refusals = rateCase(
  {
    name: "refused hot key",
    unit: "calls/s",
    about: "64 callers, one key that has used its one call an hour. kit refuses it in memory",
    goal: atLeast({ "rate-limiter-flexible": 3 }),
  },
  {
    ...implementations.pick(everybody, { count: 1, perMs: 3_600_000 }),
    task: { callers: 64, keys: 1 } satisfies ConsumeTask,
  },
);

if ("together" in refusals) throw new Error("not a case of single implementations");
const refused: Case = {
  ...refusals,
  entries: [
    ...refusals.entries,
    {
      name: "refused hot key: commands",
      unit: "commands per call",
      about: "the same. kit asks the server once a second (rememberMs)",
      goal: atMost(0.001),
    },
  ],
  measure: async (...run) => {
    const measurement = await refusals.measure(...run);
    return { ...measurement, values: [...measurement.values, measurement.details?.["commands"]] };
  },
};

const filledKeys = 100_000;

const memory: Case = {
  entries: [
    {
      name: "memory",
      unit: "bytes per key",
      about: "100,000 keys like user-12345, each used once; used_memory",
    },
  ],
  // A token is in use for more than a minute.
  ...implementations.pick(everybody, { count: 1_000, perMs: 86_400_000 }),
  rounds: 1,
  measure: async (team, lab, scale) => {
    const keys = Math.ceil(filledKeys * scale);
    const before = await lab.usedBytes();
    await team.ask("fill", { keys } satisfies FillTask);
    return { values: [((await lab.usedBytes()) - before) / keys] };
  },
};

const waiters = ["kit", "rate-limiter-flexible", "@upstash/ratelimit"];
const crowd: CrowdTask = { callers: 64 };
const perSecond = 100;

/** The most starts in one tenth of a second. */
const burstOf = (waits: readonly number[]): number =>
  Math.max(...waits.map((from) => waits.filter((wait) => wait >= from && wait < from + 100).length));

const waiting: Case = {
  entries: [
    {
      name: "64 waiters at 100/s: p99",
      unit: "ms",
      about: "64 callers of one process wait at once; from the call to the start. The floor is the instant of the rate",
      floor: (1_000 / perSecond) * 63,
      goal: atMost(662),
    },
    {
      name: "64 waiters at 100/s: p50",
      unit: "ms",
      about: "the same; a library that lets all calls of a window start together has a low median, and bursts",
    },
    {
      name: "64 waiters at 100/s: burst",
      unit: "starts in 100 ms",
      about: "the same; the rate is 10 in this time",
      goal: atMost(12),
    },
  ],
  ...implementations.pick(waiters, { count: perSecond, perMs: 1_000 }),
  warmUp: (team) => team.ask("crowd", crowd),
  measure: async (team) => {
    const waits = await team.ask<readonly number[]>("crowd", crowd);
    return { values: [percentile(waits, 0.99), percentile(waits, 0.5), burstOf(waits)], operations: waits.length };
  },
};

const loopsPerProcess = 16;

const fairness: Case = {
  entries: [
    {
      name: "fairness 64 loops",
      unit: "max/min",
      about:
        "64 loops in 4 processes wait for one key at 400/s, each again after its start; " +
        "the most starts of a loop divided by the fewest, in the same four seconds",
      goal: atMost(1.1),
    },
  ],
  ...implementations.pick(waiters, { count: 400, perMs: 1_000 }),
  processes: 4,
  rounds: 3,
  measure: async (team, _lab, scale) => {
    const startAt = now() + headStartMs;
    const [countFrom, stopAt] = [startAt + 500 * scale, startAt + 4_500 * scale];
    const task: LoopTask = { callers: loopsPerProcess, startAt, countFrom, stopAt };
    const perLoop = (await team.all<readonly number[]>("loops", task)).flat();
    const operations = perLoop.reduce((sum, starts) => sum + starts, 0);
    return { values: [unfairness(perLoop)], operations, details: { startsPerSecond: operations / (4 * scale) } };
  },
};

export const suite: Suite = {
  package: "limiter",
  cases: [
    consumeCase(1, "one caller, one call after the other", { "rate-limiter-flexible": 1, floor: 0.95 }),
    consumeCase(64, "64 callers", { "rate-limiter-flexible": 3 }),
    refused,
    waiting,
    fairness,
    memory,
  ],
};
