import { rateCase } from "../../rates.js";
import { percentile } from "../../statistics.js";
import { atLeast, atMost, type Case, type Suite } from "../../suite.js";
import { implementations, type LimiterSetup } from "./implementations.js";
import type { ConsumeTask, CrowdTask } from "./jobs.js";

const everybody = ["kit", "rate-limiter-flexible", "@upstash/ratelimit", "classic", "raw count"];
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

const refused = rateCase(
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

const crowd: CrowdTask = { callers: 64 };
const perSecond = 100;

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
  ],
  ...implementations.pick(["kit", "rate-limiter-flexible", "@upstash/ratelimit"], { count: perSecond, perMs: 1_000 }),
  measure: async (team) => {
    const waits = await team.ask<readonly number[]>("crowd", crowd);
    return { values: [percentile(waits, 0.99), percentile(waits, 0.5)], operations: waits.length };
  },
};

export const suite: Suite = {
  package: "limiter",
  cases: [
    consumeCase(1, "one caller, one call after the other", { "rate-limiter-flexible": 1, floor: 0.95 }),
    consumeCase(64, "64 callers", { "rate-limiter-flexible": 3 }),
    refused,
    waiting,
  ],
};
