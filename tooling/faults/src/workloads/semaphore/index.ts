import { modeOf, surround } from "../../lab/lab.js";
import { runLeg } from "../../leg.js";
import { failoverRows } from "../../rows/failover.js";
import { rows as allRows } from "../../rows/index.js";
import type { Row } from "../../rows/row.js";
import type { LegOptions, LegReport, Workload } from "../../workload.js";
import { laws, operationsOf, recoveryMs, remarksOn, verdictOn, worstStallMs } from "./checker.js";
import { moduleOf, semaphoreControls } from "./controls.js";
import { semaphoreEdges } from "./edges.js";
import { SemaphoreLab } from "./lab.js";

const workers = 5;

/** It bites durable writes, which wait for replicas. */
const isForDurability = ({ kind }: Row): boolean => kind === "20 replica stopped";

const rows: readonly Row[] = [...allRows, ...failoverRows.filter((row) => !isForDurability(row))];

const run = async (leg: LegOptions): Promise<LegReport> => {
  const { seed, setting, mode = modeOf[setting], control } = leg;
  const broken = semaphoreControls.find(({ name }) => name === control?.name);
  const options = { seed, setting, mode, semaphoreModule: moduleOf(broken) };
  const lab = new SemaphoreLab(options, await surround(options));
  return await runLeg(lab, workers, leg, (history) => ({
    ...verdictOn(history),
    operations: operationsOf(history),
    recoveries: lab.marks
      .filter(({ kind }) => kind !== "end")
      .map((mark) => ({ kind: mark.kind, ms: recoveryMs(history, mark, mark.name) }))
      .filter(({ ms }) => Number.isFinite(ms)),
    worstStallMs: worstStallMs(history),
    duplicates: history.echoes.length,
    remarks: remarksOn(history),
  }));
};

/** Contenders for permits, by weight, priority and tenant, under limits that change. */
export const workload: Workload = {
  name: "semaphore",
  laws: [...laws, "U6"],
  rows,
  shares: { kept: 0.42, lost: 0.14, shifted: 0.08, failover: 0.24, cluster: 0.12 },
  edges: semaphoreEdges,
  controls: semaphoreControls,
  run,
};
