import { defineWorkload } from "../../define.js";
import type { Fault } from "../../faults/fault.js";
import { clock } from "@tooling/lab";
import { within } from "../../lab/waits.js";
import type { Workload } from "../../workload.js";
import { invariants, verdictOn, workOf } from "./checker.js";
import { controls } from "./controls.js";
import { LogshipLab, points } from "./lab.js";

/** Faults of this workload alone. A process dies before it sends a command, or after the reply and before it is handled. */
const crashes = points.map(({ point }): Fault => ({
  kind: `dies at ${point}`,
  setting: "kept",
  inject: async (lab) => {
    const worker = await lab.victim();
    let hasDied = false;
    worker.tell(`die at ${point}`);
    return {
      until: async () => {
        await within(worker.ended, 8_000);
        hasDied = worker.hasEnded;
      },
      heal: async () => {
        if (worker.hasEnded) worker.killedAt = clock();
        else await worker.kill();
        // The killed worker's open file holds up the files behind it until another worker ships it.
        lab.spawn();
      },
      tookEffect: () => hasDied,
    };
  },
}));

/** Processes ship files through a channel with a small limit, receive them as two consumers, and process a job. */
export const workload: Workload = defineWorkload({
  name: "logship",
  needsIoredis: true,
  invariants,
  controls,
  workers: 4,
  shares: { kept: 0.46, failover: 0.22, cluster: 0.09, address: 0.12, resharded: 0.11 },
  notFor: ["replica stopped"],
  ownFaults: crashes,
  open: (options, around) => new LogshipLab(options, around),
  verdictOn,
  workOf,
  facts: (run) => ({ operations: workOf(run).done.length }),
});
