import { type DoctorCheck, type Finding } from "@kit/core/toolkit";
import { inspectQueue, listGroups } from "../manage/index.js";
import { whyOf } from "./inspect.js";
import { queuesWith } from "./queues.js";

/** A group that waits for a failing job is reported if its next job was added this long ago, a halted one if it goes on this much later. */
const longMs = 3_600_000;

export const groupsCheck: DoctorCheck = {
  id: "queue-groups",
  about: `
**Warning** for each group that is paused, or that a handler has stopped for more than another hour. Also for each group whose next job was
added more than an hour ago while a failing job waits for its next attempt. It looks at 100 groups of each queue.

To resume a group, run \`kit queue resume QUEUE --group GROUP\`. To see its failing job, run \`kit queue list QUEUE --state delayed --group
GROUP\`.
`,
  look: async ({ redis, prefix, signal }) => {
    const findings: Finding[] = [];
    for (const queue of await queuesWith("grouped", redis, prefix, signal)) {
      const { groups } = await listGroups(redis, { queue, prefix });
      const { now, groupRate } = await inspectQueue(redis, { queue, prefix });
      for (const one of groups) {
        const { group, state, ready, nextAddedAt, haltedUntil } = one;
        // With a rate for each group, a group also halts between its jobs.
        const isHalted = state === "halted" && groupRate === null;
        const waitMs = Date.parse((isHalted ? haltedUntil : nextAddedAt) ?? "") - now;
        if (state !== "paused" && !(isHalted ? waitMs > longMs : state === "retrying" && waitMs < -longMs)) continue;
        const name = /^[\w.:-]+$/.test(group) ? group : JSON.stringify(group);
        findings.push({
          severity: "warning",
          text: `group ${group} of queue ${queue} has ${String(ready)} ready and starts none: ${whyOf(one, now)}`,
          fix: `kit queue ${state === "retrying" ? `list ${queue} --state delayed` : `resume ${queue}`} --group ${name}`,
        });
      }
    }
    return findings.length > 0 ? findings : [{ severity: "ok", text: "no group of jobs is halted" }];
  },
};
