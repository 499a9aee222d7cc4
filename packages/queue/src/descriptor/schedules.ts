import type { CliArgument, CliCommand, DoctorCheck, Finding, InspectCall, Inspector } from "@kit/core/toolkit";
import { dated, resolve, secondsText } from "@kit/core/toolkit";
import { queueKeys } from "../job/keys.js";
import { inspectQueue } from "../manage/index.js";
import { factsOfPage, type ScheduleFacts } from "../schedules/facts.js";
import { listRules } from "../schedules/options.js";
import type { Schedules } from "../schedules/index.js";
import { listSchedules } from "../schedules/scripts/index.js";
import { isQueue, unknownQueue } from "./inspect.js";
import { scheduleOverview } from "./overview.js";
import { queuesWith } from "./queues.js";

/** When a run is this late, no process runs the schedules. */
const overdueMs = 60_000;

const whenOf = ({ everyMs = 0, cron, timezone = "UTC" }: ScheduleFacts): string =>
  cron === undefined ? `every ${secondsText(everyMs)}` : `${cron} (${timezone})`;

const nextText = (nextAt: number, now: number): string => {
  const at = dated(nextAt) ?? String(nextAt);
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

const scheduleArguments: readonly CliArgument[] = [
  { name: "queue", about: "name of the queue", listedIn: "queues" },
  { name: "id", about: "id of the schedule; kit queue schedules QUEUE shows ids" },
];

const withSchedules = async <Result>(
  { redis, prefix }: InspectCall,
  queue: string,
  use: (schedules: Schedules) => Promise<Result>,
): Promise<Result> => {
  const { createSchedules } = await import("../schedules/index.js");
  const schedules = createSchedules(redis, queue, { prefix });
  try {
    return await use(schedules);
  } finally {
    await schedules.close();
  }
};

/** How many of its next runs a report shows. */
const shownRuns = 10;

export const scheduleInspector: Inspector = {
  thing: "schedule",
  about: "a schedule of a queue: its timing and its next runs",
  args: scheduleArguments,
  look: async (call, queue: string, id: string) =>
    await withSchedules(call, queue, async (schedules) => {
      const stored = await schedules.get(id);
      if (!stored) return { data: { queue, id }, facts: [["schedule", `unknown: ${id}`]], isUnknown: true };
      const { data: _jobData, ...facts } = stored;
      const next = (await schedules.next(id, shownRuns)).map((at) => dated(at) ?? String(at));
      const { name, isPaused, nextAt, left } = facts;
      return {
        data: { queue, ...facts, next },
        facts: [
          ["queue", queue],
          ["schedule", id],
          ["job", name],
          ["when", whenOf(facts)],
          ["state", isPaused ? "paused" : nextAt === undefined ? "finished" : "running"],
          ...(left === undefined ? [] : [["runs left", String(left)] as const]),
        ],
        table: next.length === 0 ? undefined : { columns: ["next runs"], rows: next.map((at) => [at]) },
      };
    }),
};

const changes = {
  pause: ["Pause", "pause a schedule: it adds no jobs until you resume it", "paused"],
  resume: ["Resume", "resume a paused schedule from its next run", "resumed"],
  run: ["Run now", "add a job of a schedule now; its next run stays", "added"],
} as const;

const scheduleCommand = (verb: keyof typeof changes): CliCommand => {
  const [text, about, done] = changes[verb];
  return {
    path: `queue schedule ${verb}`,
    about,
    args: scheduleArguments,
    buttons: [{ thing: "schedule", text, when: ({ isPaused }) => verb === "run" || isPaused === (verb === "resume") }],
    run: async (call, queue: string, id: string) =>
      await withSchedules(call, queue, async (schedules) => {
        const result = verb === "run" ? await schedules.runNow(id) : await schedules[verb](id);
        const isUnknown = !result && (await schedules.get(id)) === undefined;
        const skipped = "nothing: the job of its last run is still in the queue";
        await call.output.report({
          data: { queue, schedule: id, [done]: result ?? null },
          facts: [[done, isUnknown ? `nothing: no schedule ${id}` : !result ? skipped : result === true ? id : result]],
          isUnknown,
        });
        return undefined;
      }),
  };
};

export const scheduleCommands: readonly CliCommand[] = [
  scheduleCommand("pause"),
  scheduleCommand("resume"),
  scheduleCommand("run"),
];

export const schedulesCheck: DoctorCheck = {
  id: "queue-schedules",
  about: `
**Warning** when a scheduled run is overdue by more than a minute: no process runs the schedules of that queue. Its jobs are added late, or
skipped with the schedule's option \`missed: "skip"\`. Start a process that calls \`run()\` or \`runDue()\` of \`@kit/queue/schedules\`.

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
