import type { CliCommand, DoctorCheck, Finding } from "@kit/core/toolkit";
import { resolve, secondsText } from "@kit/core/toolkit";
import { queueKeys } from "../job/keys.js";
import { inspectQueue } from "../manage/index.js";
import { factsOfPage, type ScheduleFacts } from "../schedules/facts.js";
import { listRules } from "../schedules/options.js";
import { listSchedules } from "../schedules/scripts/index.js";
import { isQueue, unknownQueue } from "./inspect.js";
import { scheduleOverview } from "./overview.js";
import { queuesWith } from "./queues.js";

/** When a run is this late, no process runs the schedules. */
const overdueMs = 60_000;

const whenOf = ({ everyMs = 0, cron, timezone = "UTC" }: ScheduleFacts): string =>
  cron === undefined ? `every ${secondsText(everyMs)}` : `${cron} (${timezone})`;

const nextText = (nextAt: number, now: number): string => {
  const at = new Date(nextAt).toISOString();
  return nextAt < now ? `${at}, overdue by ${secondsText(now - nextAt)}` : at;
};

/** `now`: by the server's clock. */
const rowOf = (one: ScheduleFacts, now: number): readonly string[] => [
  one.id,
  one.name,
  whenOf(one),
  one.isPaused ? "paused" : one.nextAt === undefined ? "finished" : nextText(one.nextAt, now),
  one.left === undefined ? "" : String(one.left),
];

export const schedulesCommand: CliCommand = {
  path: "queue schedules",
  about: "list the schedules of a queue, next run first",
  args: [{ name: "queue", about: "name of the queue", listedIn: "queues" }],
  options: [
    { name: "start", takes: "integer", about: "number of schedules to skip (default: 0)" },
    { name: "count", takes: "integer", about: "number of schedules to show (default: 20, maximum: 100)" },
  ],
  run: async (call, queue: string) => {
    const { redis, prefix, integer, output } = call;
    if (!(await isQueue(call, queue))) return await output.report(unknownQueue(queue));
    const page = resolve("options", { start: integer("start"), count: integer("count") }, listRules);
    const schedules = factsOfPage(await listSchedules.run(redis, queueKeys(prefix, queue), page));
    const { now } = await inspectQueue(redis, { queue, prefix });
    await output.report({
      data: { queue, schedules },
      facts: [["schedules", schedules.length === 0 ? "none" : `${String(schedules.length)} shown`]],
      table:
        schedules.length === 0
          ? undefined
          : { columns: ["id", "job", "when", "next run", "runs left"], rows: schedules.map((one) => rowOf(one, now)) },
    });
    return undefined;
  },
};

export const schedulesCheck: DoctorCheck = {
  id: "queue-schedules",
  about: `
**Warning** when a scheduled run is overdue by more than a minute: no process runs the schedules of that queue. Its jobs are added late, or
skipped if the schedule's option \`missed\` is set so. Start a process that calls \`run()\` or \`runDue()\` of \`@kit/queue/schedules\`.

If such a process runs, read its \`error\` events. Usual causes: the package \`croner\` is not installed, or a newer version stored the schedule.
`,
  look: async ({ redis, prefix, signal }) => {
    const findings: Finding[] = [];
    for (const queue of await queuesWith("upcoming", redis, prefix, signal)) {
      const { nextRun } = await scheduleOverview(redis, queueKeys(prefix, queue).upcoming);
      if (nextRun === null) continue;
      const { now } = await inspectQueue(redis, { queue, prefix });
      if (now - nextRun > overdueMs)
        findings.push({
          severity: "warning",
          text: `queue ${queue}: a scheduled run is overdue by ${secondsText(now - nextRun)}`,
          fix: `Start a process that runs its schedules. To list them: kit queue schedules ${queue}`,
        });
    }
    return findings.length > 0 ? findings : [{ severity: "ok", text: "no schedule is overdue" }];
  },
};
