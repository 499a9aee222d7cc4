import { defineWorkload } from "../../define.js";
import type { Workload } from "../../workload.js";
import { invariants, verdictOn, workOf } from "./checker.js";
import { controls } from "./controls.js";
import { faults } from "./faults.js";
import { QuorumLab } from "./lab.js";

/** Workers contend for two names of a lock on three servers. The common faults meet the first one of these. */
export const workload: Workload = defineWorkload({
  name: "quorum",
  modules: ["@kit/lock/quorum"],
  invariants,
  controls,
  workers: 4,
  shares: { kept: 0.8, lost: 0.2 },
  // A server that deletes keys while it runs is not for a quorum. Nothing subscribes, and no replica is behind.
  notFor: ["keys evicted", "byte flipped", "subscribers killed", "replica stopped"],
  ownFaults: faults,
  open: (options, around) => new QuorumLab(options, around),
  verdictOn,
  workOf,
  facts: ({ workers }) => ({
    operations: workers.reduce((sum, { records }) => sum + records.filter(({ kind }) => kind === "held").length, 0),
  }),
});
