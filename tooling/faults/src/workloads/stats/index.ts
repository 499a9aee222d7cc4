import { modeOf, surround } from "../../lab/lab.js";
import { runLeg } from "../../leg.js";
import { failoverRows } from "../../rows/failover.js";
import { rows as allRows } from "../../rows/index.js";
import type { Row } from "../../rows/row.js";
import type { LegOptions, LegReport, Workload } from "../../workload.js";
import { laws, operationsOf, recoveryMs, verdictOn, worstStallMs } from "./checker.js";
import { moduleOf, statsControls } from "./controls.js";
import { StatsLab } from "./lab.js";

const workers = 4;

/** Statistics subscribe to nothing, lease nothing and wait for no replica; a server that evicts keys forgets ledgers. */
const isOfOthers = ({ kind }: Row): boolean =>
  ["11 subscribers killed", "13 keys evicted", "20 replica stopped", "34 byte flipped"].includes(kind);

const run = async (leg: LegOptions): Promise<LegReport> => {
  const { seed, setting, mode = modeOf[setting], control } = leg;
  const broken = statsControls.find(({ name }) => name === control?.name);
  const options = { seed, setting, mode, statsModule: moduleOf(broken) };
  const lab = new StatsLab(options, await surround(options));
  return await runLeg(lab, workers, leg, (history) => ({
    ...verdictOn(history),
    operations: operationsOf(history),
    recoveries: lab.marks
      .filter(({ kind }) => kind !== "end")
      .map((mark) => ({ kind: mark.kind, ms: recoveryMs(history, mark) }))
      .filter(({ ms }) => Number.isFinite(ms)),
    worstStallMs: worstStallMs(history),
    duplicates: history.echoes,
  }));
};

/** Processes that count, observe and log together, in every way of delivery. */
export const workload: Workload = {
  name: "stats",
  laws,
  rows: [...allRows, ...failoverRows].filter((row) => !isOfOthers(row)),
  shares: { kept: 0.45, lost: 0.12, shifted: 0.08, failover: 0.22, cluster: 0.13 },
  edges: [],
  controls: statsControls,
  run,
};
