import type { RedisMode } from "@kit/testing";
import { clock } from "../../lab/clock.mjs";
import { grows, surround } from "../../lab/lab.js";
import { dealAll } from "../../leg.js";
import { outcomesOf } from "../../records.js";
import { failoverRows } from "../../rows/failover.js";
import { rows as allRows } from "../../rows/index.js";
import type { Row } from "../../rows/row.js";
import type { LegOptions, LegReport, Workload } from "../../workload.js";
import { laws, recoveryMs, verdictOn, worstStallMs } from "./checker.js";
import { coreControls, modulesOf } from "./controls.js";
import type { RunHistory } from "./history.js";
import { CoreLab } from "./lab.js";

const workers = 5;

/** Not in the matrix. */
const flapping: Row = {
  number: 35,
  kind: "35 entry flaps",
  setting: "kept",
  inject: async (lab) => {
    const worker = await lab.victim();
    const before = worker.logged("flapped");
    worker.tell("flap");
    return {
      until: () => grows(() => worker.logged("flapped"), before),
      bit: () => worker.logged("flapped") > before,
    };
  },
};

/** It strikes the letters of a lease. */
const isForLeases = ({ kind }: Row): boolean => kind === "34 byte flipped";

const rows: readonly Row[] = [
  ...allRows.filter((row) => (row.setting === "kept" || row.setting === "lost") && !isForLeases(row)),
  ...failoverRows,
  flapping,
];

const modes: Readonly<Record<LegOptions["setting"], RedisMode>> = {
  kept: "single",
  lost: "single",
  shifted: "single",
  failover: "sentinel",
  cluster: "cluster",
};

const run = async ({ seed, setting, rows: chosen, isOver, mode, control }: LegOptions): Promise<LegReport> => {
  const broken = coreControls.find(({ name }) => name === control?.name);
  const options = {
    seed,
    setting,
    mode: mode ?? modes[setting],
    modules: modulesOf(broken),
  };
  const around = await surround(options);
  const lab = new CoreLab(options, around);
  // A stopped worker would not see that its input ends.
  const killWorkers = (): void => {
    for (const worker of lab.workers) worker.signal("SIGKILL");
  };
  process.once("exit", killWorkers);
  try {
    await lab.begin(workers);
    const { bites, stuck } = await dealAll(lab, seed, chosen, isOver);
    return reportOn(lab, await lab.end(), bites, stuck);
  } finally {
    await lab.stop();
    process.off("exit", killWorkers);
  }
};

const reportOn = (
  lab: CoreLab,
  history: RunHistory,
  bites: ReadonlyMap<string, number>,
  stuck: string | undefined,
): LegReport => {
  const { violations, checked } = verdictOn(history);
  const opsByOutcome = outcomesOf(history.workers);
  return {
    operations: Object.values(opsByOutcome).reduce((sum, count) => sum + count, 0),
    opsByOutcome,
    bites,
    violations: stuck === undefined ? violations : [{ law: "U3", what: `work did not go on: ${stuck}` }, ...violations],
    checked,
    recoveries: lab.marks
      .filter(({ kind }) => kind !== "end")
      .map((mark) => ({ kind: mark.kind, ms: recoveryMs(history, mark) }))
      .filter(({ ms }) => Number.isFinite(ms)),
    worstStallMs: worstStallMs(history),
    duplicates: history.echoes,
    run: { ...history, marks: lab.marks, endedAt: clock() },
  };
};

/** Processes that are configured by a server, and write to it what must not be lost. */
export const coreWorkload: Workload = {
  name: "core",
  laws,
  rows,
  shares: { kept: 0.4, lost: 0.1, failover: 0.36, cluster: 0.14 },
  edges: [],
  controls: coreControls,
  run,
};
