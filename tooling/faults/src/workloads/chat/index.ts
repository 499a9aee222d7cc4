import { defineWorkload } from "../../define.js";
import type { Workload } from "../../workload.js";
import { invariants, remarksOn, verdictOn, workOf } from "./checker.js";
import { controls } from "./controls.js";
import { ChatLab } from "./lab.js";

/** Senders, readers and listeners of some chats, and workers of a mailbox. */
export const workload: Workload = defineWorkload({
  name: "chat",
  invariants,
  controls,
  workers: 5,
  // Faults of replica waits, of a lock's lease text, or of subscribers. A chat blocks in a read instead.
  notFor: ["replica stopped", "byte flipped", "subscribers killed"],
  open: (options, around) => new ChatLab(options, around),
  verdictOn,
  workOf,
  facts: (run) => ({ remarks: remarksOn(run) }),
});
