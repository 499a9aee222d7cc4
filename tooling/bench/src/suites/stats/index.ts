import { rateCase, steadyCases } from "../../rates.js";
import { atLeast, atMost, type Case, type Check, type Suite } from "../../suite.js";
import { implementations, type StatsSetup } from "./implementations.js";
import type { DaysTask, ManyTask, StatsTask } from "./jobs.js";

const server = ["kit", "classic", "raw HINCRBY"];
/** A single caller that awaits each reply cannot be faster than one round trip. */
const withFloor = [...server, "one HINCRBY"];
const seven: StatsSetup = { precisions: "seven" };
const usual: StatsSetup = { precisions: "default" };

/** Counts or values per second of one process. */
const speedCase = (
  name: string,
  about: string,
  goal: readonly Check[] | undefined,
  task: StatsTask,
  ids: readonly string[],
  setup = usual,
): Case => rateCase({ name, unit: "operations/s", about, goal }, { ...implementations.pick(ids, setup), task });

const daySeconds = 20_000;
const memory: Case = {
  entries: [
    {
      name: "memory 7 precisions",
      unit: "bytes",
      about: "one counter, one hit a second for 20,000 seconds at 120 buckets each; used_memory of the server",
      goal: atLeast({ "classic, cleaned": 1.25 }),
    },
    {
      name: "memory growth without a cleaner",
      unit: "× the first",
      about: "the same for 40,000 seconds, divided by that for 20,000",
      goal: atMost(1.1, "max"),
    },
  ],
  ...implementations.pick(["kit", "classic", "classic, cleaned"], seven),
  rounds: 3,
  // Each measurement needs an empty server and a process that remembers no keys of the one before.
  isFinal: true,
  measure: async (team, lab, scale) => {
    const before = await lab.usedBytes();
    const seconds = Math.ceil(daySeconds * scale);
    const endAt = Date.now();
    const run = async (task: DaysTask): Promise<number> => {
      await team.ask("days", task);
      return (await lab.usedBytes()) - before;
    };
    // The end of both phases is now, since time cannot be advanced. So the second phase counts the earlier instants.
    const first = await run({ seconds, endAt });
    const both = await run({ seconds, endAt: endAt - seconds * 1_000 });
    return { values: [first, both / first] };
  },
};

const manyHits = 10_000_000;
const many: Case = {
  entries: [
    {
      name: "10 M increments from 4 processes",
      unit: "increments/s",
      about: "100 series, buffered, until the server has all; the case fails unless the sum of the totals is exact",
    },
  ],
  ...implementations.pick(["kit"], usual),
  rounds: 3,
  processes: 4,
  measure: async (team, _lab, scale) => {
    const hits = Math.ceil((manyHits * Math.min(1, scale)) / team.workers.length);
    const times = await team.all<number>("many", { hits, series: 100 } satisfies ManyTask);
    const sum = await team.ask<number>("sum", { series: 100 });
    const given = hits * team.workers.length;
    if (sum !== given) throw new Error(`${String(given)} increments sent, ${String(sum)} counted`);
    return { values: [(given * 1_000) / Math.max(...times)], operations: given };
  },
};

export const suite: Suite = {
  package: "stats",
  cases: [
    speedCase(
      "count 7 precisions c=1",
      "hits of one counter with seven widths, one after the other, each confirmed by the server",
      atLeast({ classic: 2.3, "raw HINCRBY": 1.5 }),
      { way: "count", callers: 1, series: 1 },
      withFloor,
      seven,
    ),
    speedCase(
      "count 7 precisions c=64",
      "the same, 64 callers on 8 counters",
      atLeast({ classic: 3.5, "raw HINCRBY": 1.5 }),
      { way: "count", callers: 64, series: 8 },
      server,
      seven,
    ),
    speedCase(
      "count buffered 1000 series",
      "hits of 1,000 series of one label in turn; without a buffer 64 callers await the server",
      atLeast({ classic: 300, "raw HINCRBY": 30, "prom-client": 0.4 }),
      { way: "countLocally", callers: 64, series: 1_000 },
      [...server, "prom-client"],
    ),
    speedCase(
      "count buffered without labels",
      "hits of one counter",
      // No goal: half of our time is reading the clock for each increment, which the peer does not do.
      undefined,
      { way: "countUnlabelled", callers: 1, series: 1 },
      ["kit", "prom-client"],
    ),
    speedCase(
      "observe c=1",
      "values of one distribution, one after the other, each confirmed by the server",
      atLeast({ classic: 6 }),
      { way: "observe", callers: 1, series: 1 },
      withFloor,
    ),
    speedCase(
      "observe c=64",
      "the same by 64 callers; a connection per caller where the implementation uses WATCH",
      atLeast({ classic: 15 }),
      { way: "observe", callers: 64, series: 64 },
      server,
    ),
    speedCase(
      "local observe+sketch",
      "values of one distribution, buffered",
      atLeast({ "prom-client": 0.8, "prom-client Summary": 5 }),
      { way: "observeLocally", callers: 1, series: 1 },
      ["kit", "prom-client", "prom-client Summary"],
    ),
    ...steadyCases("hit", "hits of one counter with the default widths, each confirmed by the server", {
      ...implementations.pick(withFloor, usual),
      task: { way: "count", callers: 1, series: 1 } satisfies StatsTask,
    }),
    memory,
    many,
  ],
};
