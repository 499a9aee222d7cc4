import { defineWorkload } from "../../define.js";
import { callsIn } from "../../work.js";
import type { Workload } from "../../workload.js";
import { invariants, operationsOf, verdictOn } from "./checker.js";
import { controls } from "./controls.js";
import { StatsLab } from "./lab.js";

/** Processes count, observe and log the same series, in every way of delivery. */
export const workload: Workload = defineWorkload({
  name: "stats",
  invariants,
  controls,
  workers: 4,
  // Statistics have no subscriptions, no leases and no durable writes. A server that evicts keys loses the ledgers.
  notFor: ["subscribers killed", "keys evicted", "replica stopped", "byte flipped"],
  open: (options, around) => new StatsLab(options, around),
  verdictOn,
  workOf: callsIn,
  facts: (run) => ({ operations: operationsOf(run) }),
});
