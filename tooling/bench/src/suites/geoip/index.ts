import type { Lab, Team } from "../../lab.js";
import type { Case, Entry, Measurement, Suite } from "../../suite.js";
import { geoIpImplementation } from "./implementations.js";
import type { ImportResult, LookUpTask, RowsTask } from "./jobs.js";

const importRows = 3_500_000;
/** Rows for implementations that are too slow for all of them; their rate does not depend on the number of rows. */
const fewerRows: Readonly<Record<string, number>> = { classic: 30_000, "variadic ZADD": 500_000 };
const loadedRows = 500_000;

const first = async <Result>({ workers }: Team, job: string, task: object = {}): Promise<Result> => {
  const [worker] = workers;
  if (!worker) throw new Error("no process");
  return await worker.ask<Result>(job, task);
};

const usedBytes = async ({ server }: Lab): Promise<number> =>
  Number(/^used_memory:(\d+)/m.exec(String(await server.call("INFO", "memory")))?.[1]);

const importName = "import 3.5M rows";
const imports: Case = {
  entries: [
    {
      name: importName,
      unit: "rows/s",
      better: "higher",
      about: "CSV files of GeoLite2 City with 150,000 places; the peers read start, end and city",
      goal: {
        text: "≥ 25 × one ZADD per row, ≥ 2.5 × variadic ZADD",
        checks: [
          { than: "classic", atLeast: 25 },
          { than: "variadic ZADD", atLeast: 2.5 },
        ],
      },
    },
    {
      name: `${importName}: time`,
      unit: "s",
      better: "lower",
      about: "from the first byte until it answers look-ups",
      goal: { text: "≤ 4 s", checks: [{ atMost: 4 }] },
    },
    {
      name: `${importName}: importer's memory`,
      unit: "MB",
      better: "lower",
      about: "the highest memory of the process, less what it held before",
      goal: { text: "≤ 200 MB", checks: [{ atMost: 200, of: "max" }] },
    },
  ],
  implementations: ["kit", "classic", "variadic ZADD"].map(geoIpImplementation),
  rounds: Infinity,
  processes: 1,
  setup: {},
  warmUp: async (team, scale) => {
    const rows = Math.ceil((fewerRows[team.implementation] ?? importRows) * scale);
    await first(team, "prepare", { rows } satisfies RowsTask);
  },
  measure: {
    alone: async (team): Promise<Measurement> => {
      const { rowsPerSecond, elapsedMs, cpuMs, peakBytes } = await first<ImportResult>(team, "import");
      const values = {
        [importName]: rowsPerSecond,
        ...(team.opened === "kit" && {
          [`${importName}: time`]: elapsedMs / 1_000,
          [`${importName}: importer's memory`]: peakBytes / 1e6,
        }),
      };
      return { values, operations: 0, details: { cpuMs } };
    },
  },
};

const memory: Case = {
  entries: [
    {
      name: "memory",
      unit: "bytes per row",
      better: "lower",
      about:
        "3.5 million rows and 50,000 cities; ours with the postal codes and coordinates of 150,000 places; used_memory",
      goal: { text: "≥ 8 × less than classic", checks: [{ than: "classic", atLeast: 8 }] },
    },
  ],
  implementations: ["kit", "classic"].map(geoIpImplementation),
  rounds: 1,
  processes: 1,
  setup: {},
  measure: {
    alone: async (team, lab, scale): Promise<Measurement> => {
      const rows = Math.ceil(importRows * scale);
      const before = await usedBytes(lab);
      await first(team, "load", { rows } satisfies RowsTask);
      return { values: { memory: ((await usedBytes(lab)) - before) / rows }, operations: 0 };
    },
  },
};

const lookUpCase = (entry: Omit<Entry, "unit" | "better">, implementations: readonly string[]): Case => ({
  entries: [{ ...entry, unit: "look-ups/s", better: "higher" }],
  implementations: implementations.map(geoIpImplementation),
  rounds: Infinity,
  processes: 1,
  setup: {},
  measure: {
    alone: async (team, _lab, scale): Promise<Measurement> => {
      const task: LookUpTask = { rows: Math.ceil(loadedRows * scale), ms: 1_000 * scale };
      await first(team, "load", task);
      // Long enough to fill every cache.
      await first(team, "lookUp", { ...task, ms: 3 * task.ms });
      return { values: { [entry.name]: await first<number>(team, "lookUp", task) }, operations: 0 };
    },
  },
});

const about = "one caller, 2,000 random addresses among 500,000 rows; each answer is checked";

export const suite: Suite = {
  package: "geoip",
  cases: [
    imports,
    memory,
    lookUpCase(
      { name: "look-up miss", about, goal: { text: "≥ 1.7 × classic", checks: [{ than: "classic", atLeast: 1.7 }] } },
      ["kit, two pages", "classic", "maxmind"],
    ),
    lookUpCase({ name: "hit", about, goal: { text: "≥ 50 × classic", checks: [{ than: "classic", atLeast: 50 }] } }, [
      "kit",
      "classic",
      "maxmind",
    ]),
  ],
};
