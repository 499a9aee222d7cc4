import { counted, type DoctorCheck, secondsText } from "@kit/core/toolkit";
import { inspectQueue } from "../manage/index.js";
import { queuesWith } from "./queues.js";

export const pausedCheck: DoctorCheck = {
  id: "queue-paused",
  about: `Warns of each queue that is paused. Its workers begin no job, and its jobs become more and more. A pause has no end of its own: it
stays also when all workers are started anew.

\`kit queue resume NAME\` lets the queue go on.`,
  look: async ({ redis, prefix, signal }) => {
    const queues = await queuesWith("limits", redis, prefix, signal);
    const findings = await Promise.all(
      queues.map(async (queue) => {
        const { pausedAt, now, waiting, prioritised } = await inspectQueue(redis, { queue, prefix });
        if (pausedAt === null) return [];
        const text = `queue ${queue} has been paused for ${secondsText(Math.max(0, now - pausedAt))}, with ${counted(waiting + prioritised, "ready job")}`;
        return [{ severity: "warning" as const, text, fix: `kit queue resume ${queue}` }];
      }),
    );
    const paused = findings.flat();
    return paused.length > 0 ? paused : [{ severity: "ok", text: "no queue is paused" }];
  },
};
