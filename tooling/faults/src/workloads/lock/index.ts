import { clock } from "../../lab/clock.mjs";
import { surround } from "../../lab/lab.js";
import { dealAll } from "../../leg.js";
import { rows } from "../../rows/index.js";
import { outcomesOf } from "../../records.js";
import type { LegOptions, LegReport, Workload } from "../../workload.js";
import { laws, recoveryMs, verdictOn } from "./checker.js";
import { lockControls, moduleOf } from "./controls.js";
import { lockEdges } from "./edges.js";
import type { RunHistory } from "./history.js";
import { LockLab } from "./lab.js";

const workers = 7;

/** The longest time in which no register took anything. */
const worstStallOf = (run: RunHistory): number => {
  const instants = [...run.registers.values()].flat().flatMap(({ at, accepted }) => (accepted ? [at] : []));
  instants.sort((a, b) => a - b);
  return instants.reduce((worst, at, index) => Math.max(worst, at - (instants[index - 1] ?? at)), 0);
};

const run = async ({
  seed,
  setting,
  rows: chosen,
  isOver,
  mode = "single",
  control,
}: LegOptions): Promise<LegReport> => {
  const broken = lockControls.find(({ name }) => name === control?.name);
  const options = {
    seed,
    setting,
    mode,
    ...(broken && { lockModule: moduleOf(broken), isFenced: broken.isFenced ?? true }),
  };
  const around = await surround(options);
  const lab = new LockLab(options, around);
  // A stopped worker would not see that its input ends.
  const killWorkers = (): void => {
    for (const worker of lab.workers) worker.signal("SIGKILL");
  };
  process.once("exit", killWorkers);
  try {
    await lab.begin(broken ? 5 : workers);
    const { bites, stuck } = await dealAll(lab, seed, chosen, isOver);
    const history = await lab.end(stuck !== undefined);
    return reportOn(lab, history, bites, stuck);
  } finally {
    await lab.stop();
    process.off("exit", killWorkers);
  }
};

const reportOn = (
  lab: LockLab,
  history: RunHistory,
  bites: ReadonlyMap<string, number>,
  stuck: string | undefined,
): LegReport => {
  const { violations, checked } = verdictOn(history);
  const accesses = [...history.registers.values()].flat();
  const opsByOutcome = outcomesOf(history.workers);
  const calls = Object.values(opsByOutcome).reduce((sum, count) => sum + count, 0);
  return {
    operations: calls + accesses.filter(({ action }) => action === "write").length,
    opsByOutcome,
    bites,
    violations: stuck === undefined ? violations : [{ law: "U3", what: `work did not go on: ${stuck}` }, ...violations],
    checked,
    recoveries: lab.marks
      .filter(({ kind }) => kind !== "end")
      .map(({ kind, at, name }) => ({ kind, ms: recoveryMs(history, at, name) }))
      .filter(({ ms }) => Number.isFinite(ms)),
    worstStallMs: worstStallOf(history),
    duplicates: history.echoes.length,
    run: { ...history, marks: lab.marks, endedAt: clock() },
  };
};

/** Contenders for locks, each of which guards a register. */
export const lockWorkload: Workload = {
  name: "lock",
  laws: [...laws, "U6"],
  rows,
  shares: { kept: 0.66, lost: 0.22, shifted: 0.12 },
  edges: lockEdges,
  controls: lockControls,
  run,
};
