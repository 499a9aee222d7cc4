import { defineWorkload } from "../../define.js";
import { isRecorded, recordersIn } from "../../lab/recorder.js";
import type { Workload } from "../../workload.js";
import { invariants, verdictOn, workOf } from "./checker.js";
import { controls } from "./controls.js";
import { isLockName, partOf } from "./history.js";
import { LockLab } from "./lab.js";
import { sectionsOf } from "./sections.js";

/** Workers contend for locks, each of which guards a register, for read/write locks, and for sets of locks. */
export const workload: Workload = defineWorkload({
  name: "lock",
  modules: ["@kit/lock", "@kit/lock/read-write"],
  lua: (setting) => (isRecorded(setting) ? recordersIn("lock/read-write", "grant", "read-write/") : {}),
  invariants,
  controls,
  workers: 7,
  shares: { kept: 0.47, lost: 0.15, shifted: 0.09, address: 0.14, resharded: 0.15 },
  open: (options, around) => new LockLab(options, around),
  verdictOn,
  workOf,
  facts: (run) => ({
    operations: [...run.registers.values()].flat().filter(({ action }) => action === "write").length,
    duplicates: run.copiedAcquires.length,
    // Where no process stands still, sections have no excuse.
    ...(run.losesNothing && !run.isRegisterBeside && { remarks: sectionsOf(partOf(run, isLockName)) }),
  }),
});
