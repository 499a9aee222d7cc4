import { modeOf, surround } from "../../lab/lab.js";
import { runLeg } from "../../leg.js";
import { failoverRows } from "../../rows/failover.js";
import { rows as allRows } from "../../rows/index.js";
import type { Row } from "../../rows/row.js";
import type { LegOptions, LegReport, Workload } from "../../workload.js";
import { laws, verdictOn } from "./checker.js";
import { autocompleteControls, moduleOf } from "./controls.js";
import { AutocompleteLab } from "./lab.js";
import { recoveriesOf, worstStallMs } from "../../plain/checker.js";

const workers = 4;

/** An index subscribes to nothing, leases nothing and waits for no replica; a server that evicts keys is no place for it. */
const isOfOthers = ({ kind }: Row): boolean =>
  ["11 subscribers killed", "13 keys evicted", "20 replica stopped", "34 byte flipped"].includes(kind);

const run = async (leg: LegOptions): Promise<LegReport> => {
  const { seed, setting, mode = modeOf[setting], control } = leg;
  const broken = autocompleteControls.find(({ name }) => name === control?.name);
  const options = { seed, setting, mode, workload: "autocomplete", module: moduleOf(broken) };
  const lab = new AutocompleteLab(options, await surround(options));
  return await runLeg(lab, workers, leg, (history) => ({
    ...verdictOn(history),
    recoveries: recoveriesOf(history),
    worstStallMs: worstStallMs(history),
    duplicates: history.echoes,
  }));
};

/** Processes that change, rebuild and search indexes together. */
export const workload: Workload = {
  name: "autocomplete",
  laws,
  rows: [...allRows, ...failoverRows].filter((row) => !isOfOthers(row)),
  shares: { kept: 0.45, lost: 0.12, shifted: 0.08, failover: 0.22, cluster: 0.13 },
  edges: [],
  controls: autocompleteControls,
  run,
};
