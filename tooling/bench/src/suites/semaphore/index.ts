import { semaphoreImplementation, type SemaphoreSetup } from "./implementations.js";
import { percentile } from "../../statistics.js";
import type { Case, Measurement, Suite } from "../../suite.js";
import { excessOf, unfairness } from "../../loops/loops-run.js";
import { type Field, type Loops, loopsCase, pairsCase, runLoops } from "../../loops/loops.js";

const permits = 10;
const usual: SemaphoreSetup = { permits, leaseMs: 10_000 };

const field = (ids: readonly string[], setup: SemaphoreSetup = usual): Field => ({
  implementations: ids.map(semaphoreImplementation),
  setup,
});

const everybody = ["kit", "redis-semaphore", "classic basic", "classic fair", "classic race-free"];

const crowd = "64 closed loops in 4 processes on one semaphore of 10, each holds a permit for 5 ms";

const waitP99 = "limit 10, 64 callers, hold 5 ms: wait p99";
const waitP50 = "limit 10, 64 callers, hold 5 ms: wait p50";
const throughput = "throughput limit 10, 64 callers";
const fairness = "fairness limit 10, 64 callers";

const sixtyFour: Loops = { loops: 64, permits, holdMs: 5, settleMs: 250, countMs: 1_300 };

const contended = loopsCase(
  [
    {
      name: waitP99,
      unit: "ms",
      better: "lower",
      about: `${crowd}; from acquire to the permit`,
      goal: { text: "≥ 10 × redis-semaphore", checks: [{ than: "redis-semaphore", atLeast: 10 }] },
    },
    {
      name: waitP50,
      unit: "ms",
      better: "lower",
      about: `${crowd}; from acquire to the permit. Without an order of arrival the median is low and the tail is long`,
    },
    {
      name: throughput,
      unit: "permits/s",
      better: "higher",
      about: `${crowd}. The floor is limit/(hold + one hand-off), both as measured`,
      goal: { text: "≥ 0.95 × limit/(hold + one hand-off)", checks: [{ than: "floor", atLeast: 0.95 }] },
    },
    {
      name: fairness,
      unit: "max/min",
      better: "lower",
      about: `${crowd}; the most permits of a loop divided by the fewest, in the same seconds`,
    },
  ],
  field([...everybody, "redis-semaphore defaults", "raw push"]),
  Infinity,
  sixtyFour,
  ({ waits, grants, seconds, perLoop }) => ({
    [waitP99]: percentile(waits, 0.99),
    [waitP50]: percentile(waits, 0.5),
    [throughput]: grants / seconds,
    [fairness]: unfairness(perLoop),
  }),
);

/** Long enough for all 64 loops to hold permits at once, if over-admitted. A shorter count would miss the slow starters. */
const skewed: Loops = { loops: 64, permits, holdMs: 100, settleMs: 0, countMs: 1_000 };
const overAdmissionName = "over-admission under ±1 h client clock skew";
const hourMs = 3_600_000;

const overAdmission: Case = {
  entries: [
    {
      name: overAdmissionName,
      unit: "permits above the limit",
      better: "lower",
      about:
        "64 closed loops in 4 processes on one semaphore of 10, each holds a permit for 100 ms; " +
        "the wall clock of one process is an hour ahead, that of another an hour behind. " +
        "The most permits above 10 held at once, by a clock that all processes share",
      goal: { text: "0, in every round", checks: [{ atMost: 0, of: "max" }] },
    },
  ],
  ...field(everybody, { ...usual, clocksOffMs: [0, hourMs, -hourMs] }),
  rounds: 3,
  processes: 4,
  measure: {
    alone: async (team): Promise<Measurement> => {
      const { results } = await runLoops(team, skewed);
      const { atOnce, admissions, of } = excessOf(results, permits);
      return {
        values: { [overAdmissionName]: atOnce },
        operations: 0,
        details: { permitsGranted: of, grantedAboveTheLimit: admissions },
      };
    },
  },
};

export const suite: Suite = {
  package: "semaphore",
  cases: [
    contended,
    pairsCase(
      {
        name: "uncontended c=1",
        unit: "pairs/s",
        better: "higher",
        about: "one caller, one pair of acquire and release after the other, on one semaphore of 10",
        goal: {
          text: "≥ 0.9 × redis-semaphore, ≥ 3 × classic race-free",
          checks: [
            { than: "redis-semaphore", atLeast: 0.9 },
            { than: "classic race-free", atLeast: 3 },
          ],
        },
      },
      field([...everybody, "raw pair"]),
      { callers: 1, namesPerCaller: 1 },
    ),
    overAdmission,
  ],
};
