import { rateCase } from "../../rates.js";
import { atLeast, atMost, type Case, type Check, type Suite } from "../../suite.js";
import { implementations } from "./implementations.js";
import type { ImportResult, RowsTask } from "./jobs.js";

const importRows = 3_500_000;
/** Rows for implementations that are too slow for all of them; their rate does not depend on the number of rows. */
const fewerRows: Readonly<Record<string, number>> = { classic: 30_000, "variadic ZADD": 500_000 };
const loadedRows = 500_000;

const importName = "import 3.5M rows";
const imports: Case = {
  entries: [
    {
      name: importName,
      unit: "rows/s",
      about: "CSV files of GeoLite2 City with 150,000 places; the peers read start, end and city",
      goal: atLeast({ classic: 25, "variadic ZADD": 2.5 }),
    },
    {
      name: `${importName}: time`,
      unit: "s",
      about: "from the first byte until it answers look-ups",
      goal: atMost(4),
    },
    {
      name: `${importName}: importer's memory`,
      unit: "MB",
      about: "the highest memory of the process, less what it held before",
      goal: atMost(200, "max"),
    },
  ],
  ...implementations.pick(["kit", "classic", "variadic ZADD"]),
  warmUp: async (team, _lab, scale) => {
    const rows = Math.ceil((fewerRows[team.opened] ?? importRows) * scale);
    await team.ask("prepare", { rows } satisfies RowsTask);
  },
  measure: async (team) => {
    const { rowsPerSecond, elapsedMs, cpuMs, peakBytes } = await team.ask<ImportResult>("import");
    const own = team.opened === "kit" ? [elapsedMs / 1_000, peakBytes / 1e6] : [];
    return { values: [rowsPerSecond, ...own], details: { cpuMs } };
  },
};

const memory: Case = {
  entries: [
    {
      name: "memory",
      unit: "bytes per row",
      about:
        "3.5 million rows and 50,000 cities; ours with the postal codes and coordinates of 150,000 places; used_memory",
      goal: atLeast({ classic: 8 }),
    },
  ],
  ...implementations.pick(["kit", "classic"]),
  rounds: 1,
  measure: async (team, lab, scale) => {
    const rows = Math.ceil(importRows * scale);
    const before = await lab.usedBytes();
    await team.ask("load", { rows } satisfies RowsTask);
    return { values: [((await lab.usedBytes()) - before) / rows] };
  },
};

const lookUpCase = (name: string, goal: readonly Check[], ids: readonly string[]): Case =>
  rateCase(
    {
      name,
      unit: "look-ups/s",
      about: "one caller, 2,000 random addresses among 500,000 rows; each answer is checked",
      goal,
    },
    {
      ...implementations.pick(ids),
      task: {},
      prepare: (team, _lab, scale) => team.ask("load", { rows: Math.ceil(loadedRows * scale) } satisfies RowsTask),
      // Long enough to fill every cache.
      settleMs: 3_000,
    },
  );

export const suite: Suite = {
  package: "geoip",
  cases: [
    imports,
    memory,
    lookUpCase("look-up miss", atLeast({ classic: 1.7 }), ["kit, two pages", "classic", "maxmind"]),
    lookUpCase("hit", atLeast({ classic: 50 }), ["kit", "classic", "maxmind"]),
  ],
};
