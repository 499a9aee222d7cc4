import { counted, type DoctorCheck, secondsText } from "@kit/core/toolkit";
import { inspectQueue } from "../manage/index.js";
import { readyOf } from "./inspect.js";
import { queuesWith } from "./queues.js";

export const pausedCheck: DoctorCheck = {
  id: "queue-paused",
  about: `Warns of each queue that is paused, and of each name whose jobs are. None of them begins, and they become more and more. A pause has no
end of its own: it stays also when all workers are started anew.

\`kit queue resume NAME\` lets the queue go on, with \`--name\` the jobs of one name.`,
  look: async ({ redis, prefix, signal }) => {
    const queues = await queuesWith("limits", redis, prefix, signal);
    const findings = await Promise.all(
      queues.map(async (queue) => {
        const seen = await inspectQueue(redis, { queue, prefix });
        const finding = (what: string, pausedAt: number | null, jobs: number, option: string) => {
          if (pausedAt === null) return [];
          const text = `${what} been paused for ${secondsText(Math.max(0, seen.now - pausedAt))}, with ${counted(jobs, "ready job")}`;
          return [{ severity: "warning" as const, text, fix: `kit queue resume ${queue}${option}` }];
        };
        return [
          ...finding(`queue ${queue} has`, seen.pausedAt, readyOf(seen), ""),
          ...seen.names.flatMap(({ name, pausedAt, suspended }) =>
            finding(
              `jobs ${name} of queue ${queue} have`,
              pausedAt,
              suspended,
              ` --name ${/^[\w.:-]+$/.test(name) ? name : JSON.stringify(name)}`,
            ),
          ),
        ];
      }),
    );
    const paused = findings.flat();
    return paused.length > 0 ? paused : [{ severity: "ok", text: "no queue is paused" }];
  },
};
