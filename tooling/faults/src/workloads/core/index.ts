import { defineWorkload } from "../../define.js";
import type { Fault } from "../../faults/fault.js";
import { grows } from "../../lab/waits.js";
import type { Workload } from "../../workload.js";
import { invariants, verdictOn, workOf } from "./checker.js";
import { controls } from "./controls.js";
import { CoreLab } from "./lab.js";

/** A fault of this workload alone. */
const flapping: Fault = {
  kind: "entry flaps",
  setting: "kept",
  inject: async (lab) => {
    const worker = await lab.victim();
    const before = worker.logged("flapped");
    worker.tell("flap");
    return {
      until: () => grows(() => worker.logged("flapped"), before),
      tookEffect: () => worker.logged("flapped") > before,
    };
  },
};

/** Processes read their configuration from a server, and write durably to it. */
export const workload: Workload = defineWorkload({
  name: "core",
  invariants,
  controls,
  modules: ["@kit/core/config", "@kit/core/durable"],
  workers: 5,
  shares: { kept: 0.3, lost: 0.08, failover: 0.29, cluster: 0.1, address: 0.12, resharded: 0.11 },
  // Changes a lease.
  notFor: ["byte flipped"],
  ownFaults: [flapping],
  open: (options, around) => new CoreLab(options, around),
  verdictOn,
  workOf,
});
