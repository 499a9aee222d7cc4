import { defineWorkload } from "../../define.js";
import { callsIn } from "../../work.js";
import type { Workload } from "../../workload.js";
import { invariants, verdictOn } from "./checker.js";
import { controls } from "./controls.js";
import { AutocompleteLab } from "./lab.js";

/** Processes change, rebuild and search the same indexes. */
export const workload: Workload = defineWorkload({
  name: "autocomplete",
  invariants,
  controls,
  workers: 4,
  // An index has no subscriptions, no leases and no durable writes. It is not for a server that evicts keys.
  notFor: ["subscribers killed", "keys evicted", "replica stopped", "byte flipped"],
  open: (options, around) => new AutocompleteLab(options, around),
  verdictOn,
  workOf: callsIn,
});
