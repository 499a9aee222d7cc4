import { implementations, type SemaphoreSetup } from "./implementations.js";
import { rateCase, steadyCases } from "../../rates.js";
import { percentile } from "../../statistics.js";
import { atLeast, atMost, type Case, type Suite } from "../../suite.js";
import { excessOf, unfairness } from "../../loops/loops-run.js";
import type { PairsTask } from "../../loops/loops-jobs.js";
import { type Loops, loopsCase, runLoops } from "../../loops/loops.js";

const permits = 10;
const usual: SemaphoreSetup = { permits, leaseMs: 10_000 };
const everybody = ["kit", "redis-semaphore", "classic basic", "classic fair", "classic race-free"];

const crowd = "64 closed loops in 4 processes on one semaphore of 10, each holds a permit for 5 ms";

const contended = loopsCase(
  [
    {
      name: "limit 10, 64 callers, hold 5 ms: wait p99",
      unit: "ms",
      about: `${crowd}; from acquire to the permit`,
      goal: atLeast({ "redis-semaphore": 10 }),
    },
    {
      name: "limit 10, 64 callers, hold 5 ms: wait p50",
      unit: "ms",
      about: `${crowd}; from acquire to the permit. Without an order of arrival the median is low and the tail is long`,
    },
    {
      name: "throughput limit 10, 64 callers",
      unit: "permits/s",
      about: `${crowd}. The floor is limit/(hold + one hand-off), both as measured`,
      goal: atLeast({ floor: 0.95 }),
    },
    {
      name: "fairness limit 10, 64 callers",
      unit: "max/min",
      about: `${crowd}; the most permits of a loop divided by the fewest, in the same seconds`,
    },
  ],
  { loops: 64, permits, holdMs: 5, settleMs: 250, countMs: 1_300 },
  implementations.pick([...everybody, "redis-semaphore defaults", "raw push"], usual),
  ({ waits, grants, seconds, perLoop }) => [
    percentile(waits, 0.99),
    percentile(waits, 0.5),
    grants / seconds,
    unfairness(perLoop),
  ],
);

/** Long enough for all 64 loops to hold permits at once, if over-admitted. A shorter count would miss the slow starters. */
const skewed: Loops = { loops: 64, permits, holdMs: 100, settleMs: 0, countMs: 1_000 };
const hourMs = 3_600_000;

const overAdmission: Case = {
  entries: [
    {
      name: "over-admission under ±1 h client clock skew",
      unit: "permits above the limit",
      about:
        "64 closed loops in 4 processes on one semaphore of 10, each holds a permit for 100 ms; " +
        "the wall clock of one process is an hour ahead, that of another an hour behind. " +
        "The most permits above 10 held at once, by a clock that all processes share",
      goal: atMost(0, "max"),
    },
  ],
  ...implementations.pick(everybody, { ...usual, clocksOffMs: [0, hourMs, -hourMs] }),
  rounds: 3,
  processes: 4,
  measure: async (team) => {
    const { results } = await runLoops(team, skewed);
    const { atOnce, admissions, of } = excessOf(results, permits);
    return { values: [atOnce], details: { permitsGranted: of, grantedAboveTheLimit: admissions } };
  },
};

export const suite: Suite = {
  package: "semaphore",
  cases: [
    contended,
    rateCase(
      {
        name: "uncontended c=1",
        unit: "pairs/s",
        about: "one caller, one pair of acquire and release after the other, on one semaphore of 10",
        goal: atLeast({ "redis-semaphore": 0.9, "classic race-free": 3 }),
      },
      {
        ...implementations.pick([...everybody, "raw pair"], usual),
        task: { callers: 1, namesPerCaller: 1 } satisfies PairsTask,
      },
    ),
    ...steadyCases("pair", "acquire and release, 50 semaphores of 10 in turn", {
      ...implementations.pick([...everybody, "raw pair"], usual),
      task: { callers: 1, namesPerCaller: 50 } satisfies PairsTask,
    }),
    overAdmission,
  ],
};
