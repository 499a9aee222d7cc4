import { judged } from "../../common-invariants.js";
import { checkPlain } from "../../plain/checker.js";
import { plainWorkload } from "../../plain/workload.js";
import type { Workload } from "../../workload.js";
import { controls, invariants } from "./controls.js";
import { GeoIpLab } from "./lab.js";

/** Processes import versions of one database and look addresses up at the same time. */
export const workload: Workload = plainWorkload({
  name: "geoip",
  invariants,
  controls,
  workers: 4,
  // A database has no leases and no durable writes. It is not for a server that evicts keys.
  notFor: ["keys evicted", "replica stopped", "byte flipped"],
  open: (options, around) => new GeoIpLab(options, around),
  // A server without a file, or a failover, may lose an import or a part of it.
  verdictOn: (history) =>
    judged(invariants, (judge) =>
      checkPlain(history, judge, (invariant) => (invariant === "G2" || invariant === "G3") && !history.losesNothing),
    ),
});
