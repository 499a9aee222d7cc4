import { coreImplementation } from "./implementations.js";
import type { Team, Worker } from "../../lab.js";
import { median, percentile } from "../../statistics.js";
import type { Case, Entry, Measurement, Suite } from "../../suite.js";
import type { AbsenceTask, ReadResult, ReadTask, SeeTask } from "./jobs.js";

const only = ({ workers }: Team): Worker => {
  const [worker] = workers;
  if (!worker) throw new Error("no process");
  return worker;
};

/** A case of one process, whose job returns one figure for each entry. */
const oneProcess = (
  entries: readonly Entry[],
  implementations: readonly string[],
  alone: (worker: Worker, scale: number) => Promise<Measurement>,
): Case => ({
  entries,
  implementations: implementations.map(coreImplementation),
  rounds: Infinity,
  processes: 1,
  setup: undefined,
  measure: { alone: (team, _lab, scale) => alone(only(team), scale) },
});

const readCase = oneProcess(
  [
    {
      name: "config read",
      unit: "ns",
      better: "lower",
      about: "one configured value, read again and again",
      goal: { text: "≥ 10 million reads/s", checks: [{ atMost: 100 }] },
    },
    {
      name: "config read commands",
      unit: "commands per second",
      better: "lower",
      about: "commands that the reading process sends meanwhile",
      goal: { text: "0 round trips", checks: [{ atMost: 0, of: "max" }] },
    },
  ],
  ["kit", "classic", "variable"],
  async (worker, scale) => {
    await worker.ask("read", { ms: 100 * scale } satisfies ReadTask);
    const { reads, elapsedMs, commands } = await worker.ask<ReadResult>("read", {
      ms: 700 * scale,
    } satisfies ReadTask);
    return {
      values: { "config read": (elapsedMs * 1e6) / reads, "config read commands": (commands * 1_000) / elapsedMs },
      operations: 0,
    };
  },
);

let written = 0;

const seeCase = oneProcess(
  [
    {
      name: "config change seen p50",
      unit: "ms",
      better: "lower",
      about: "from the write until the other client returns it, one change after the other",
      goal: { text: "< 50 ms median", checks: [{ atMost: 50 }] },
    },
    { name: "config change seen p99", unit: "ms", better: "lower", about: "the same" },
  ],
  ["kit", "classic"],
  async (worker, scale) => {
    // The classic reader takes half a second for each change.
    const changes = Math.ceil(6 * scale);
    const waits = await worker.ask<readonly number[]>("see", { changes, first: ++written * 1_000 } satisfies SeeTask);
    return {
      values: { "config change seen p50": median(waits), "config change seen p99": percentile(waits, 0.99) },
      operations: 0,
    };
  },
);

const absenceCase = (name: string, isSilent: boolean, about: string): Case =>
  oneProcess(
    [
      {
        name,
        unit: "ms",
        better: "lower",
        about,
        goal: { text: "typed error ≤ 2 s", checks: [{ atMost: 2_000, of: "max" }] },
      },
    ],
    ["kit", "ioredis"],
    async (worker) => ({
      values: { [name]: await worker.ask<number>("absence", { isSilent } satisfies AbsenceTask) },
      operations: 0,
    }),
  );

const importCase = (module: string): Case => {
  const name = `import ${module}`;
  const goal = { text: "≤ 30 ms", checks: [{ atMost: 30 }] };
  return oneProcess(
    [{ name, unit: "ms", better: "lower", about: "the first import in a new process; beside it ioredis itself", goal }],
    ["kit", "ioredis"],
    async (worker) => ({ values: { [name]: await worker.ask<number>("load", { name: module }) }, operations: 0 }),
  );
};

const tracingCase = oneProcess(
  [
    {
      name: "tracing unheard",
      unit: "%",
      better: "lower",
      about: "of the time of an uncontended acquire and release, without a listener",
      goal: { text: "≤ 1 %", checks: [{ atMost: 1 }] },
    },
  ],
  ["kit"],
  async (worker, scale) => ({
    values: { "tracing unheard": await worker.ask<number>("trace", { ms: 400 * scale }) },
    operations: 0,
  }),
);

export const suite: Suite = {
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
