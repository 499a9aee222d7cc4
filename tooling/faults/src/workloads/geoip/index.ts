import { judged } from "../../common-laws.js";
import { modeOf, surround } from "../../lab/lab.js";
import { runLeg } from "../../leg.js";
import { failoverRows } from "../../rows/failover.js";
import { rows as allRows } from "../../rows/index.js";
import type { Row } from "../../rows/row.js";
import type { LegOptions, LegReport, Workload } from "../../workload.js";
import { checkPlain, recoveriesOf, worstStallMs } from "../../plain/checker.js";
import { geoIpControls, laws, moduleOf } from "./controls.js";
import { GeoIpLab } from "./lab.js";

const workers = 4;

/** A database leases nothing and waits for no replica; a server that evicts keys is no place for it. */
const isOfOthers = ({ kind }: Row): boolean =>
  ["13 keys evicted", "20 replica stopped", "34 byte flipped"].includes(kind);

const run = async (leg: LegOptions): Promise<LegReport> => {
  const { seed, setting, mode = modeOf[setting], control } = leg;
  const broken = geoIpControls.find(({ name }) => name === control?.name);
  const options = { seed, setting, mode, workload: "geoip", module: moduleOf(broken) };
  const lab = new GeoIpLab(options, await surround(options));
  return await runLeg(lab, workers, leg, (history) => ({
    // A server without a file, or a failover, may lose what was imported, or a part of it.
    ...judged(laws, (judge) =>
      checkPlain(history, judge, (law) => (law === "G2" || law === "G3") && !history.losesNothing),
    ),
    recoveries: recoveriesOf(history),
    worstStallMs: worstStallMs(history),
    duplicates: history.echoes,
  }));
};

/** Processes that import versions of one database and look addresses up meanwhile. */
export const workload: Workload = {
  name: "geoip",
  laws,
  rows: [...allRows, ...failoverRows].filter((row) => !isOfOthers(row)),
  shares: { kept: 0.45, lost: 0.12, shifted: 0.08, failover: 0.22, cluster: 0.13 },
  edges: [],
  controls: geoIpControls,
  run,
};
