import { counted, type DoctorCheck, secondsText } from "@kit/core/toolkit";
import { inspectQueue } from "../manage/index.js";
import { readyOf } from "./inspect.js";
import { queuesWith } from "./queues.js";

export const pausedCheck: DoctorCheck = {
  id: "queue-paused",
  about: `**Warning** for each paused queue and each paused job name. Their jobs don't start, so the backlog grows. A pause never expires, and it
survives a restart of all workers.

To resume the queue, run \`kit queue resume NAME\`. To resume one job name, add \`--name\`.`,
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
              `${name} jobs of queue ${queue} have`,
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
