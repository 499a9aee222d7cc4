import type { Lab, Team } from "../../lab.js";
import type { Better, Case, Check, Goal, Measurement, Suite } from "../../suite.js";
import { statsImplementation, type StatsSetup } from "./implementations.js";
import type { DaysTask, ManyTask, RunResult, RunTask } from "./jobs.js";

const goalOf = (text: string, ...checks: readonly Check[]): Goal => ({ text, checks });
const atLeast = (than: string, ratio: number): Check => ({ than, atLeast: ratio });

/** Measures the operations per second of one process. */
const speedCase = (
  name: string,
  about: string,
  implementations: readonly string[],
  task: Omit<RunTask, "ms">,
  goal: Goal | undefined,
  setup: StatsSetup = { precisions: "default" },
): Case => {
  const run = async ({ workers }: Team, ms: number): Promise<RunResult> => {
    const [worker] = workers;
    if (!worker) throw new Error("no process");
    return await worker.ask<RunResult>("run", { ...task, ms } satisfies RunTask);
  };
  return {
    entries: [{ name, unit: "operations/s", better: "higher" as Better, about, ...(goal && { goal }) }],
    implementations: implementations.map(statsImplementation),
    rounds: Infinity,
    processes: 1,
    setup,
    warmUp: async (team, scale) => void (await run(team, 800 * scale)),
    measure: {
      alone: async (team, _lab, scale): Promise<Measurement> => {
        const { operations, elapsedMs } = await run(team, 900 * scale);
        return { values: { [name]: (operations * 1_000) / elapsedMs }, operations };
      },
    },
  };
};

const server = ["kit", "classic", "raw HINCRBY"];
/** A single caller that awaits each reply cannot be faster than one round trip. */
const withFloor = [...server, "one HINCRBY"];
const seven: StatsSetup = { precisions: "seven" };

const usedBytes = async ({ server: redis }: Lab): Promise<number> =>
  Number(/^used_memory:(\d+)/m.exec(String(await redis.call("INFO", "memory")))?.[1]);

const memoryName = "memory 7 precisions";
const growthName = "memory growth without a cleaner";
const daySeconds = 20_000;
const memory: Case = {
  entries: [
    {
      name: memoryName,
      unit: "bytes",
      better: "lower",
      about: "one counter, one hit a second for 20,000 seconds at 120 buckets each; used_memory of the server",
      goal: goalOf("≤ 0.8 × classic with its cleaner", atLeast("classic, cleaned", 1.25)),
    },
    {
      name: growthName,
      unit: "× the first",
      better: "lower",
      about: "the same for 40,000 seconds, divided by that for 20,000",
      goal: goalOf("constant", { atMost: 1.1, of: "max" }),
    },
  ],
  implementations: ["kit", "classic", "classic, cleaned"].map(statsImplementation),
  rounds: 3,
  processes: 1,
  setup: seven,
  // Each measurement needs an empty server and a process that remembers no keys of the one before.
  isFinal: true,
  measure: {
    alone: async ({ workers: [worker] }, lab, scale): Promise<Measurement> => {
      if (!worker) throw new Error("no process");
      const before = await usedBytes(lab);
      const seconds = Math.ceil(daySeconds * scale);
      const endAt = Date.now();
      const run = async (task: DaysTask): Promise<number> => {
        await worker.ask("days", task);
        return (await usedBytes(lab)) - before;
      };
      // The end of both phases is now, since time cannot be advanced. So the second phase counts the earlier instants.
      const first = await run({ seconds, endAt });
      const both = await run({ seconds, endAt: endAt - seconds * 1_000 });
      return { values: { [memoryName]: first, [growthName]: both / first }, operations: 0 };
    },
  },
};

const manyName = "10 M increments from 4 processes";
const manyHits = 10_000_000;
const many: Case = {
  entries: [
    {
      name: manyName,
      unit: "increments/s",
      better: "higher",
      about: "100 series, buffered, until the server has all; the case fails unless the sum of the totals is exact",
    },
  ],
  implementations: [statsImplementation("kit")],
  rounds: 3,
  processes: 4,
  setup: { precisions: "default" } satisfies StatsSetup,
  measure: {
    alone: async (team, _lab, scale): Promise<Measurement> => {
      const hits = Math.ceil((manyHits * Math.min(1, scale)) / team.workers.length);
      const times = await team.all<number>("many", { hits, series: 100 } satisfies ManyTask);
      const sum = await team.workers[0]?.ask<number>("sum", { series: 100 });
      const given = hits * team.workers.length;
      if (sum !== given) throw new Error(`${String(given)} increments sent, ${String(sum)} counted`);
      return { values: { [manyName]: (given * 1_000) / Math.max(...times) }, operations: given };
    },
  },
};

export const suite: Suite = {
  package: "stats",
  cases: [
    speedCase(
      "count 7 precisions c=1",
      "hits of one counter with seven widths, one after the other, each confirmed by the server",
      withFloor,
      { way: "count", callers: 1, series: 1 },
      goalOf("≥ 2.3 × classic, ≥ 1.5 × seven raw HINCRBY", atLeast("classic", 2.3), atLeast("raw HINCRBY", 1.5)),
      seven,
    ),
    speedCase(
      "count 7 precisions c=64",
      "the same, 64 callers on 8 counters",
      server,
      { way: "count", callers: 64, series: 8 },
      goalOf("≥ 3.5 × classic, ≥ 1.5 × seven raw HINCRBY", atLeast("classic", 3.5), atLeast("raw HINCRBY", 1.5)),
      seven,
    ),
    speedCase(
      "count buffered 1000 series",
      "hits of 1,000 series of one label in turn; without a buffer 64 callers await the server",
      [...server, "prom-client"],
      { way: "countLocally", callers: 64, series: 1_000 },
      goalOf(
        "≥ 300 × classic, ≥ 30 × raw HINCRBY, ≥ 0.4 × prom-client inc",
        atLeast("classic", 300),
        atLeast("raw HINCRBY", 30),
        atLeast("prom-client", 0.4),
      ),
    ),
    speedCase(
      "count buffered without labels",
      "hits of one counter",
      ["kit", "prom-client"],
      { way: "countUnlabelled", callers: 1, series: 1 },
      // No goal: half of our time is reading the clock for each increment, which the peer does not do.
      undefined,
    ),
    speedCase(
      "observe c=1",
      "values of one distribution, one after the other, each confirmed by the server",
      withFloor,
      { way: "observe", callers: 1, series: 1 },
      goalOf("≥ 6 × classic", atLeast("classic", 6)),
    ),
    speedCase(
      "observe c=64",
      "the same by 64 callers; a connection per caller where the implementation uses WATCH",
      server,
      { way: "observe", callers: 64, series: 64 },
      goalOf("≥ 15 × classic", atLeast("classic", 15)),
    ),
    speedCase(
      "local observe+sketch",
      "values of one distribution, buffered",
      ["kit", "prom-client", "prom-client Summary"],
      { way: "observeLocally", callers: 1, series: 1 },
      goalOf(
        "≥ 0.8 × prom-client histogram, ≥ 5 × its summary",
        atLeast("prom-client", 0.8),
        atLeast("prom-client Summary", 5),
      ),
    ),
    memory,
    many,
  ],
};
