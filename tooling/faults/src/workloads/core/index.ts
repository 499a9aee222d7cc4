import { grows, modeOf, surround } from "../../lab/lab.js";
import { runLeg } from "../../leg.js";
import { failoverRows } from "../../rows/failover.js";
import { rows as allRows } from "../../rows/index.js";
import type { Row } from "../../rows/row.js";
import type { LegOptions, LegReport, Workload } from "../../workload.js";
import { laws, recoveryMs, verdictOn, worstStallMs } from "./checker.js";
import { coreControls, modulesOf } from "./controls.js";
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

const run = async (leg: LegOptions): Promise<LegReport> => {
  const { seed, setting, mode = modeOf[setting], control } = leg;
  const broken = coreControls.find(({ name }) => name === control?.name);
  const options = { seed, setting, mode, modules: modulesOf(broken) };
  const lab = new CoreLab(options, await surround(options));
  return await runLeg(lab, workers, leg, (history) => ({
    ...verdictOn(history),
    recoveries: lab.marks
      .filter(({ kind }) => kind !== "end")
      .map((mark) => ({ kind: mark.kind, ms: recoveryMs(history, mark) }))
      .filter(({ ms }) => Number.isFinite(ms)),
    worstStallMs: worstStallMs(history),
    duplicates: history.echoes,
  }));
};

/** Processes that are configured by a server, and write to it what must not be lost. */
export const workload: Workload = {
  name: "core",
  laws,
  rows,
  shares: { kept: 0.4, lost: 0.1, failover: 0.36, cluster: 0.14 },
  edges: [],
  controls: coreControls,
  run,
};
