import { plainWorkload } from "../../plain/workload.js";
import type { Workload } from "../../workload.js";
import { invariants, operationsOf, verdictOn } from "./checker.js";
import { controls } from "./controls.js";
import { StatsLab } from "./lab.js";

/** Processes that count, observe and log together, in every way of delivery. */
export const workload: Workload = plainWorkload({
  name: "stats",
  invariants,
  controls,
  workers: 4,
  // Statistics subscribe to nothing, lease nothing and wait for no replica; a server that evicts keys forgets ledgers.
  notFor: ["subscribers killed", "keys evicted", "replica stopped", "byte flipped"],
  open: (options, around) => new StatsLab(options, around),
  verdictOn,
  facts: (history) => ({ operations: operationsOf(history) }),
});
