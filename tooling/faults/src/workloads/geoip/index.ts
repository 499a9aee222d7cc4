import { defineWorkload } from "../../define.js";
import { callsIn } from "../../work.js";
import type { Workload } from "../../workload.js";
import { invariants, verdictOn } from "./checker.js";
import { controls } from "./controls.js";
import { GeoIpLab } from "./lab.js";

/** Processes import versions of one database and look addresses up at the same time. */
export const workload: Workload = defineWorkload({
  name: "geoip",
  invariants,
  controls,
  workers: 4,
  // A database has no leases and no durable writes. It is not for a server that evicts keys.
  notFor: ["keys evicted", "replica stopped", "byte flipped"],
  open: (options, around) => new GeoIpLab(options, around),
  verdictOn,
  workOf: callsIn,
});
