import { counted, type DoctorCheck, type Finding, type Inspector } from "@kit/core/toolkit";
import { isQueue, unknownQueue } from "./inspect.js";
import { queuesWith } from "./queues.js";

export const flowInspector: Inspector = {
  thing: "flow",
  about: "a job of a flow: its state, and how its children ended",
  args: [
    { name: "queue", about: "name of the queue", listedIn: "queues" },
    { name: "id", about: "id of the job; kit queue list QUEUE --state waiting-for-children shows ids" },
  ],
  look: async (call, queue: string, id: string) => {
    const { redis, prefix } = call;
    const { inspectFlow } = await import("../flows/index.js");
    const data = await inspectFlow(redis, { queue, prefix }, id);
    const { state, open, children, next } = data;
    if (state === "none" && !(await isQueue(call, queue))) return { ...unknownQueue(queue), data };
    const rows = children.map(({ id: child, name, outcome, error }) => [child, name, outcome, error?.message ?? ""]);
    return {
      data,
      facts: [
        ["queue", queue],
        ["job", id],
        ["state", state === "none" ? "unknown: completed, dropped, or never added" : state],
        ["open", counted(open, "child", "children")],
        ...(next === undefined ? [] : [["shown", `the first ${String(children.length)} children`] as const]),
      ],
      table: rows.length === 0 ? undefined : { columns: ["child", "name", "outcome", "error"], rows },
      isUnknown: state === "none",
    };
  },
};

export const flowsCheck: DoctorCheck = {
  id: "queue-flows",
  about: `
**Problem** for each job that waits for children which no longer exist, because keys or fields of the queue were deleted or evicted. Read
the children with \`kit inspect flow QUEUE ID\`. To delete the waiting job, run \`kit queue remove QUEUE ID --run\`.

Also for a flow that lacks some of its jobs: its process is still adding them, or has died. A repair adds them.
`,
  look: async ({ redis, prefix, signal }) => {
    const { strandedParents, unfinishedFlows } = await import("../flows/index.js");
    const findings: Finding[] = [];
    for (const queue of await queuesWith("families", redis, prefix, signal)) {
      for (const id of await strandedParents(redis, { queue, prefix }))
        findings.push({
          severity: "problem",
          text: `queue ${queue}: job ${id} waits for children that no longer exist`,
          fix: `kit inspect flow ${queue} ${id}`,
        });
      if ((await unfinishedFlows(redis, { queue, prefix })) > 0)
        findings.push({
          severity: "problem",
          text: `queue ${queue}: a flow lacks some of its jobs`,
          fix: `kit queue repair ${queue} --run`,
        });
    }
    return findings.length > 0
      ? findings
      : [{ severity: "ok", text: "no job waits for children that no longer exist" }];
  },
};
