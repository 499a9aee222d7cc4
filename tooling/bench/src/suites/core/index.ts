import { implementations } from "./implementations.js";
import type { Team } from "../../lab.js";
import { median, percentile } from "../../statistics.js";
import { atMost, type Case, type Entry, type Suite } from "../../suite.js";
import type { AbsenceTask, ReadResult, ReadTask, SeeTask } from "./jobs.js";

/** A case of one process, whose job returns the figure of each entry. */
const oneProcess = (
  entries: readonly Entry[],
  ids: readonly string[],
  values: (team: Team, scale: number) => Promise<readonly number[]>,
): Case => ({
  entries,
  ...implementations.pick(ids),
  measure: async (team, _lab, scale) => ({ values: await values(team, scale) }),
});

const readCase = oneProcess(
  [
    {
      name: "config read",
      unit: "ns",
      about: "one configured value, read again and again",
      goal: atMost(100),
    },
    {
      name: "config read commands",
      unit: "commands per second",
      about: "commands that the reading process sends meanwhile",
      goal: atMost(0, "max"),
    },
  ],
  ["kit", "classic", "variable"],
  async (team, scale) => {
    await team.ask("read", { ms: 100 * scale } satisfies ReadTask);
    const task: ReadTask = { ms: 700 * scale };
    const { reads, elapsedMs, commands } = await team.ask<ReadResult>("read", task);
    return [(elapsedMs * 1e6) / reads, (commands * 1_000) / elapsedMs];
  },
);

let written = 0;

const seeCase = oneProcess(
  [
    {
      name: "config change seen p50",
      unit: "ms",
      about: "from the write until the other client returns it, one change after the other",
      goal: atMost(50),
    },
    { name: "config change seen p99", unit: "ms", about: "the same" },
  ],
  ["kit", "classic"],
  async (team, scale) => {
    // The classic reader takes half a second for each change.
    const task: SeeTask = { changes: Math.ceil(6 * scale), first: ++written * 1_000 };
    const waits = await team.ask<readonly number[]>("see", task);
    return [median(waits), percentile(waits, 0.99)];
  },
);

const absenceCase = (name: string, isSilent: boolean, about: string): Case =>
  oneProcess([{ name, unit: "ms", about, goal: atMost(2_000, "max") }], ["kit", "ioredis"], async (team) => [
    await team.ask<number>("absence", { isSilent } satisfies AbsenceTask),
  ]);

const importCase = (module: string): Case =>
  oneProcess(
    [
      {
        name: `import ${module}`,
        unit: "ms",
        about: "the first import in a new process; beside it ioredis itself",
        goal: atMost(30),
      },
    ],
    ["kit", "ioredis"],
    async (team) => [await team.ask<number>("load", { name: module })],
  );

const tracingCase = oneProcess(
  [
    {
      name: "tracing unheard",
      unit: "%",
      about: "of the time of an uncontended acquire and release, without a listener",
      goal: atMost(1),
    },
  ],
  ["kit"],
  async (team, scale) => [await team.ask<number>("trace", { ms: 400 * scale })],
);

export const suite: Suite = {
  needsIoredis: true,
  package: "core",
  cases: [
    absenceCase("Redis absent, refused", false, "connecting to a port that refuses"),
    absenceCase("Redis absent, silent", true, "connecting to a port that accepts the connection and never replies"),
    readCase,
    seeCase,
    ...["@kit/core", "@kit/core/config", "@kit/core/durable", "@kit/core/leasing", "@kit/lock", "@kit/semaphore"].map(
      importCase,
    ),
    tracingCase,
  ],
};
