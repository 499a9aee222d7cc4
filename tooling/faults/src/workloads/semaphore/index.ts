import { defineWorkload } from "../../define.js";
import { isRecorded, recordersIn } from "../../lab/recorder.js";
import type { Workload } from "../../workload.js";
import { invariants, operationsOf, remarksOn, verdictOn, workOf } from "./checker.js";
import { controls } from "./controls.js";
import { SemaphoreLab } from "./lab.js";

/** Workers contend for permits by weight, priority and tenant, under changing limits. */
export const workload: Workload = defineWorkload({
  name: "semaphore",
  invariants,
  controls,
  workers: 5,
  shares: { kept: 0.32, lost: 0.11, shifted: 0.07, failover: 0.19, cluster: 0.08, address: 0.12, resharded: 0.11 },
  // Affects only durable writes, which wait for replicas.
  notFor: ["replica stopped"],
  lua: (setting) => (isRecorded(setting) ? recordersIn("semaphore", "counts") : {}),
  open: (options, around) => new SemaphoreLab(options, around),
  verdictOn,
  workOf,
  facts: (run) => ({
    operations: operationsOf(run),
    duplicates: run.copiedAcquires.length,
    remarks: remarksOn(run),
  }),
});
