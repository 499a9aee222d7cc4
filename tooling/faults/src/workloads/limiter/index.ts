import { defineWorkload } from "../../define.js";
import { callsIn } from "../../work.js";
import type { Workload } from "../../workload.js";
import { invariants, verdictOn } from "./checker.js";
import { controls } from "./controls.js";
import { LimiterLab } from "./lab.js";

/** Processes use up the limits of the same keys, and wait for their turn. */
export const workload: Workload = defineWorkload({
  name: "limiter",
  invariants,
  controls,
  workers: 4,
  // A limiter has no subscriptions, no leases and no durable writes. A server that evicts keys frees their tokens.
  notFor: ["subscribers killed", "keys evicted", "replica stopped", "byte flipped"],
  open: (options, around) => new LimiterLab(options, around),
  verdictOn,
  workOf: callsIn,
});
