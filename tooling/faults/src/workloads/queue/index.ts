import { defineWorkload } from "../../define.js";
import type { Workload } from "../../workload.js";
import { invariants, repeatsOf, verdictOn, workOf } from "./checker.js";
import { controls } from "./controls.js";
import { parentsIn } from "./flows.js";
import { QueueLab } from "./lab.js";
import { longStop } from "./outages.js";

/**
 * Producers and workers of four queues: one with prefetch, flows and schedules, a strict one with durable adds, one that is paused, and one with
 * limits, again and again.
 */
export const workload: Workload = defineWorkload({
  name: "queue",
  modules: ["@kit/queue", "@kit/queue/manage", "@kit/queue/schedules", "@kit/queue/flows"],
  invariants,
  controls,
  workers: 5,
  shares: { kept: 0.37, lost: 0.09, shifted: 0.06, failover: 0.16, cluster: 0.08, address: 0.12, resharded: 0.12 },
  // Faults of replica waits, of a lock's lease text, or of subscribers. Queue workers block in a pop instead.
  notFor: ["replica stopped", "byte flipped", "subscribers killed"],
  ownFaults: [longStop],
  open: (options, around) => new QueueLab(options, around),
  verdictOn,
  workOf,
  facts: (run) => ({
    operations: workOf(run).done.length,
    duplicates: repeatsOf(run),
    remarks: { "copies of requests": run.echoes, ...parentsIn(run) },
  }),
});
