import { judged } from "../../common-invariants.js";
import { checkPlain } from "../../plain/checker.js";
import { plainWorkload } from "../../plain/workload.js";
import type { Workload } from "../../workload.js";
import { controls, invariants } from "./controls.js";
import { GeoIpLab } from "./lab.js";

/** Processes that import versions of one database and look addresses up meanwhile. */
export const workload: Workload = plainWorkload({
  name: "geoip",
  invariants,
  controls,
  workers: 4,
  // A database leases nothing and waits for no replica; a server that evicts keys is no place for it.
  notFor: ["keys evicted", "replica stopped", "byte flipped"],
  open: (options, around) => new GeoIpLab(options, around),
  // A server without a file, or a failover, may lose what was imported, or a part of it.
  verdictOn: (history) =>
    judged(invariants, (judge) =>
      checkPlain(history, judge, (invariant) => (invariant === "G2" || invariant === "G3") && !history.losesNothing),
    ),
});
