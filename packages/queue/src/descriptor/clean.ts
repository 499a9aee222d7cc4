import { type CliArgument, type CliCommand, type CliOption, counted, type Facts } from "@kit/core/toolkit";
import { type CleanedState, cleanQueue, purgeQueue } from "../manage/index.js";
import { isQueue, unknownQueue } from "./inspect.js";

const queueArgument: CliArgument = { name: "queue", about: "name of the queue", listedIn: "queues" };
const runOption: CliOption = { name: "run", about: "apply the change; without it, only show what would change" };
const nextStep = ["next step", "run the same command with --run"] as const;

export const cleanCommand: CliCommand = {
  path: "queue clean",
  buttons: [{ thing: "queue", text: "Clean" }],
  about: "delete jobs of one state, by age and name (dry run unless you pass --run)",
  args: [queueArgument],
  options: [
    { name: "state", takes: "text", about: "dead, completed, delayed, waiting, prioritised, grouped or suspended" },
    { name: "older-than-ms", takes: "integer", about: "minimum age in milliseconds (default: 0)" },
    { name: "name", takes: "text", about: "only jobs with this name" },
    runOption,
  ],
  run: async (call, queue: string) => {
    const { redis, prefix, text, integer, isSet, output } = call;
    const state = text("state") as CleanedState | undefined;
    if (!(await isQueue(call, queue))) return await output.report(unknownQueue(queue));
    if (state === undefined) throw new TypeError("Pass --state: kit queue list QUEUE --state … shows the jobs");
    const isDryRun = !isSet("run");
    const olderThanMs = integer("older-than-ms");
    const count = await cleanQueue(
      redis,
      { queue, prefix },
      { state, olderThanMs, name: text("name"), run: !isDryRun },
    );
    await output.report({
      data: { queue, state, isDryRun, count },
      facts: [
        [isDryRun ? "would be deleted" : "deleted", `${String(count)} ${state}`],
        ...(isDryRun && count > 0 ? [nextStep] : []),
      ],
    });
    return undefined;
  },
};

export const purgeCommand: CliCommand = {
  path: "queue purge",
  buttons: [{ thing: "queue", text: "Delete queue" }],
  about: "delete a queue with all its jobs, limits and schedules (dry run unless you pass --run)",
  args: [queueArgument],
  options: [runOption],
  run: async ({ redis, prefix, isSet, output }, queue: string) => {
    const isDryRun = !isSet("run");
    const purged = await purgeQueue(redis, { queue, prefix }, { run: !isDryRun });
    if (purged.keys === 0) return await output.report(unknownQueue(queue));
    const { jobs, active, schedules, keys } = purged;
    const running: Facts =
      active === 0
        ? []
        : [["running", `${counted(active, "job")}: close the workers first, or they start a new queue`]];
    await output.report({
      data: { queue, isDryRun, ...purged },
      facts: [
        [
          isDryRun ? "would be deleted" : "deleted",
          `${counted(jobs, "job")}, ${counted(schedules, "schedule")}, ${counted(keys, "key")} in Redis`,
        ],
        ...running,
        ...(isDryRun ? [nextStep] : []),
      ],
    });
    return undefined;
  },
};
