import { plainWorkload } from "../../plain/workload.js";
import type { Workload } from "../../workload.js";
import { invariants, verdictOn } from "./checker.js";
import { controls } from "./controls.js";
import { AutocompleteLab } from "./lab.js";

/** Processes that change, rebuild and search indexes together. */
export const workload: Workload = plainWorkload({
  name: "autocomplete",
  invariants,
  controls,
  workers: 4,
  // An index subscribes to nothing, leases nothing and waits for no replica; a server that evicts keys is no place for it.
  notFor: ["subscribers killed", "keys evicted", "replica stopped", "byte flipped"],
  open: (options, around) => new AutocompleteLab(options, around),
  verdictOn,
});
