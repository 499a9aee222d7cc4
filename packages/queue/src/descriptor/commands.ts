import type { CliArgument, CliCommand, CliOption, CommandCall, Facts } from "@kit/core/toolkit";
import { createQueue } from "../index.js";
import type { StoredError } from "../job/failure.js";
import { atNames, isQueue, jobFacts, readyOf, unknownQueue, whyOf } from "./inspect.js";
import { placeOf } from "./places.js";
import {
  cancelGroup,
  cancelJob,
  drainQueue,
  inspectJob,
  inspectQueue,
  type JobFacts,
  type JobPage,
  listGroups,
  listJobs,
  type ListedState,
  type Overview,
  pauseQueue,
  promoteJob,
  readLog,
  removeJob,
  repairQueue,
  resumeQueue,
} from "../manage/index.js";

const queueArgument: CliArgument = { name: "queue", about: "name of the queue", listedIn: "queues" };
const idArgument: CliArgument = { name: "id", about: "id of the job; kit queue list QUEUE shows ids" };

/** The time that a list shows for its jobs. Ready jobs have no time for their state, so the list shows when they were added. */
const instants = {
  ...{ ...atNames, waiting: "added", prioritised: "added", grouped: "added", suspended: "added" },
  "waiting-for-children": "added",
} as const;

/** The characters of an error's message that a list shows. */
const maxText = 120;

const tableOf = (
  jobs: readonly JobFacts[],
  state: ListedState = "dead",
): { columns: readonly string[]; rows: readonly (readonly string[])[] } => ({
  columns: [
    ...["id", "name", "attempts", "crashes", instants[state], "error"],
    ...(state === "active" ? ["started", "runs on"] : []),
  ],
  rows: jobs.map(({ id, name, attempts, crashes, at, addedAt, error, worker, startedAt }) => [
    ...[id, name, String(attempts), String(crashes)],
    (instants[state] === "added" ? addedAt : at) ?? "",
    error?.message.split("\n", 1)[0]?.slice(0, maxText) ?? "",
    ...(worker === null ? [] : [startedAt ?? "", placeOf(worker)]),
  ]),
});

const pageSize = 100;
/** How many dead letters a dry run shows. */
const shownLetters = 20;

const listCommand: CliCommand = {
  path: "queue list",
  about: "list the jobs in one state, without their data",
  args: [queueArgument],
  options: [
    {
      name: "state",
      takes: "text",
      about:
        "dead (default), waiting, prioritised, grouped, suspended, delayed, waiting-for-children, active or completed; with --group: grouped",
    },
    { name: "name", takes: "text", about: "only jobs with this name" },
    { name: "group", takes: "text", about: "only jobs of this group" },
    { name: "end", about: "start at the end" },
    { name: "start", takes: "integer", about: "number of jobs to skip (default: 0)" },
    { name: "count", takes: "integer", about: "number of jobs to show (default: 20, maximum: 100)" },
  ],
  run: async (call, queue: string) => {
    const { redis, prefix, text, integer, isSet, output } = call;
    if (!(await isQueue(call, queue))) return await output.report(unknownQueue(queue));
    const group = text("group");
    const state = (text("state") ?? (group === undefined ? "dead" : "grouped")) as ListedState;
    const from = isSet("end") ? ("end" as const) : ("start" as const);
    const page = { state, name: text("name"), group, from, start: integer("start"), count: integer("count") };
    const { jobs, next } = await listJobs(redis, { queue, prefix }, page);
    const more = next === undefined ? "" : `; next page: --start ${String(next)}`;
    await output.report({
      data: { queue, state, jobs, next: next ?? null },
      facts: [[state, `${jobs.length === 0 ? "none" : `${String(jobs.length)} shown`}${more}`]],
      table: jobs.length === 0 ? undefined : tableOf(jobs, state),
    });
    return undefined;
  },
};

/** The causes of an error, one per line. */
const reasonsOf = ({ cause, errors = [] }: StoredError): (readonly [string, string])[] =>
  [...errors, ...(cause ? [cause] : [])].flatMap((one) => [
    ["caused by", `${one.name}: ${one.message}`] as const,
    ...reasonsOf(one),
  ]);

/** One fact for each line, since a fact is one line. */
const stackOf = (error: StoredError | null): Facts =>
  (error?.stack?.split("\n") ?? []).map((line, at) => [at === 0 ? "stack" : "", line] as const);

const showCommand: CliCommand = {
  path: "queue show",
  about: "show a job with its data and last error",
  args: [queueArgument, idArgument],
  run: async ({ redis, prefix, output }, queue: string, id: string) => {
    const report = await inspectJob(redis, { queue, prefix }, id, { withData: true });
    const { data, error, state, result, checkpoint } = report;
    const json = (value: unknown): string => JSON.stringify(value);
    await output.report({
      data: report,
      facts: [
        ...jobFacts(report),
        ...(state === "none" || state === "completed"
          ? []
          : [["data", data === undefined ? "none" : json(data)] as const]),
        ...("result" in report ? [["result", result === undefined ? "none" : json(result)] as const] : []),
        ...(checkpoint === undefined ? [] : [["checkpoint", json(checkpoint)] as const]),
        ...stackOf(error),
        ...(error === null ? [] : reasonsOf(error)),
      ],
      isUnknown: state === "none",
    });
  },
};

const logCommand: CliCommand = {
  path: "queue log",
  about: "show the last log lines of a job, or the lines after one",
  args: [queueArgument, idArgument],
  options: [
    { name: "after", takes: "integer", about: "show only lines after this line number" },
    { name: "count", takes: "integer", about: "number of lines to show (default: 100, maximum: 1000)" },
  ],
  run: async ({ redis, prefix, integer, output }, queue: string, id: string) => {
    const options = { after: integer("after"), count: integer("count") };
    const address = { queue, prefix };
    const log = await readLog(redis, address, id, options);
    const { lines, kept, dropped } = log;
    const isUnknown = kept + dropped === 0 && (await inspectJob(redis, address, id)).state === "none";
    await output.report({
      data: { queue, id, ...log },
      facts: [["lines", `${String(lines.length)} of ${String(kept)} shown, ${String(dropped)} older ones dropped`]],
      table:
        lines.length === 0
          ? undefined
          : { columns: ["line", "at", "text"], rows: lines.map(({ number, at, text }) => [String(number), at, text]) },
      isUnknown,
    });
  },
};

const runOption: CliOption = { name: "run", about: "apply the change; without it, only show what would change" };
const allOption: CliOption = { name: "all", about: "confirm that --run deletes all dead letters" };
const moveOptions: readonly CliOption[] = [
  runOption,
  { name: "name", takes: "text", about: "only dead letters of jobs with this name" },
];
const moveArguments: readonly CliArgument[] = [
  queueArgument,
  { name: "id", about: "id of a dead letter (default: all)", count: "optional" },
];

/** The current dead letters that a command applies to. */
const chosen = async (
  { redis, prefix, text, signal }: CommandCall,
  queue: string,
  id?: string,
): Promise<readonly JobFacts[]> => {
  const name = text("name");
  const letters: JobFacts[] = [];
  if (id === undefined)
    for (let start: number | undefined = 0; start !== undefined;) {
      signal.throwIfAborted();
      const page: JobPage = await listJobs(redis, { queue, prefix }, { start, name, count: pageSize });
      letters.push(...page.jobs);
      start = page.next;
    }
  else {
    const { state, ...letter } = await inspectJob(redis, { queue, prefix }, id);
    if (state === "dead") letters.push(letter);
  }
  return name === undefined ? letters : letters.filter((one) => one.name === name);
};

const moveCommand = (
  verb: "retry" | "drop",
  about: string,
  done: string,
  [ofQueue, ofJob]: readonly [queue: string, job: string],
): CliCommand => ({
  path: `queue ${verb}`,
  buttons: [
    { thing: "queue", text: ofQueue, when: ({ dead }) => dead !== 0 },
    { thing: "job", text: ofJob, when: ({ state }) => state === "dead" },
  ],
  about: `${about} (dry run unless you pass --run)`,
  args: moveArguments,
  options: verb === "drop" ? [...moveOptions, allOption] : moveOptions,
  run: async (call, name: string, id?: string) => {
    const { redis, prefix, isSet, text, output } = call;
    if (!(await isQueue(call, name))) return await output.report(unknownQueue(name));
    const jobs = text("name");
    const asksForAll = verb === "drop" && id === undefined && jobs === undefined;
    if (asksForAll && isSet("run") && !isSet("all"))
      throw new TypeError("This deletes all dead letters of the queue. Confirm with --all, or pass an id or --name");
    const letters = await chosen(call, name, id);
    const ids = letters.map((letter) => letter.id);
    const isUnknown = ids.length === 0 && (id !== undefined || jobs !== undefined);
    const unknown: Facts = isUnknown
      ? [["unknown", `no dead letter has this ${id === undefined ? "name" : "id"}`]]
      : [];
    const toDo = `run the same command with --run${asksForAll ? " --all" : ""}`;
    if (!isSet("run")) {
      const first = letters.slice(0, shownLetters);
      await output.report({
        data: { queue: name, isDryRun: true, count: ids.length, ids },
        facts: [
          [`would be ${done}`, String(ids.length)],
          ...unknown,
          ...(ids.length === 0 ? [] : [["next step", toDo] as const]),
        ],
        table: first.length === 0 ? undefined : tableOf(first),
        isUnknown,
      });
      return undefined;
    }
    const queue = createQueue(redis, name, { prefix });
    try {
      const count = verb === "retry" ? await queue.redrive(ids) : await queue.dropDeadLetters(ids);
      const facts: Facts = [[done, String(count)], ...unknown];
      await output.report({ data: { queue: name, isDryRun: false, count }, facts, isUnknown });
      return undefined;
    } finally {
      await queue.close();
    }
  },
});

const handlerFact: Facts = [["handler", "receives an abort signal. If the handler ignores it, restart the worker"]];

/** A command that ends one job. `states`: the states of jobs that it can end. `done`: what happened to the job. */
const endCommand = (
  verb: "remove" | "cancel",
  about: string,
  states: readonly string[],
  done: string,
  end: typeof removeJob | typeof cancelJob,
): CliCommand => ({
  path: `queue ${verb}`,
  buttons: [
    {
      thing: "job",
      text: verb === "cancel" ? "Cancel" : "Remove",
      // Both delete a job that waits.
      when: ({ state }) => (state === "active") === (verb === "cancel") && states.includes(String(state)),
    },
  ],
  about: `${about} (dry run unless you pass --run)`,
  args: [queueArgument, idArgument],
  options: [runOption, { name: "children", about: "also end all open jobs below it in its flow" }],
  run: async ({ redis, prefix, isSet, output }, queue: string, id: string) => {
    const isDryRun = !isSet("run");
    const report = isDryRun ? await inspectJob(redis, { queue, prefix }, id, { quick: true }) : undefined;
    const outcome = report?.state ?? (await end(redis, { queue, prefix }, id, { children: isSet("children") }));
    const count = ["removed", "cancelled", ...states].includes(outcome) ? 1 : 0;
    await output.report({
      data: { queue, id, isDryRun, count, outcome },
      facts: [
        [
          isDryRun ? `would be ${done}` : done,
          count === 1 ? id : `nothing: the job is ${outcome === "none" ? "unknown" : outcome}`,
        ],
        ...(isDryRun && count === 1 ? [["next step", "run the same command with --run"] as const] : []),
        ...(outcome === "cancelled" || (verb === "cancel" && outcome === "active") ? handlerFact : []),
        ...(report && outcome !== "none" ? jobFacts(report) : []),
      ],
      isUnknown: outcome === "none",
      hasProblem: count === 0 && outcome !== "none",
    });
  },
});

const promoteCommand: CliCommand = {
  path: "queue promote",
  buttons: [{ thing: "job", text: "Start now", when: ({ state, at }) => state === "delayed" && at !== null }],
  about: "make a delayed job ready now",
  args: [queueArgument, idArgument],
  run: async ({ redis, prefix, output }, queue: string, id: string) => {
    const state = await promoteJob(redis, { queue, prefix }, id);
    await output.report({
      data: { queue, id, state },
      facts: [["state", state === "none" ? "unknown" : state]],
      isUnknown: state === "none",
    });
  },
};

/** A queue can be paused before its first add. In a typed command such a name is more likely misspelled. */
const createOption: CliOption = { name: "create", about: "pause a queue that has had no job and no worker yet" };

/** Searches only the first jobs of each state, so that it does not block a long queue. */
const hasJobs = async ({ redis, prefix }: CommandCall, queue: string, name: string): Promise<boolean> => {
  const states = [
    "waiting",
    "prioritised",
    "grouped",
    "suspended",
    "delayed",
    "waiting-for-children",
    "active",
  ] as const;
  const pages = await Promise.all(states.map((state) => listJobs(redis, { queue, prefix }, { state, name, count: 1 })));
  // A page without jobs, but with a next page, does not show whether there are any.
  return pages.some(({ jobs, next }) => jobs.length > 0 || next !== undefined);
};

const hasPausedName = (names: Overview["names"]): boolean => names.some(({ pausedAt }) => pausedAt !== null);

const pauseCommand = (verb: "pause" | "resume", about: string, change: typeof pauseQueue): CliCommand => ({
  path: `queue ${verb}`,
  about,
  args: [queueArgument],
  buttons: [
    {
      thing: "queue",
      text: verb === "pause" ? "Pause" : "Resume",
      when: ({ pausedAt, names }) =>
        verb === "pause" ? pausedAt === null : pausedAt !== null || hasPausedName(names as Overview["names"]),
    },
  ],
  options: [
    { name: "name", takes: "text", about: "only jobs with this name" },
    { name: "group", takes: "text", about: "only jobs of this group" },
    ...(verb === "pause" ? [createOption] : []),
  ],
  run: async (call, queue: string) => {
    const { redis, prefix, text, isSet, output } = call;
    const name = text("name");
    const { pausedAt: before, names } = await inspectQueue(redis, { queue, prefix });
    const isWanted = verb === "pause" && isSet("create");
    const isKnown = before !== null || names.length > 0 || isWanted || (await isQueue(call, queue));
    if (!isKnown) return await output.report(unknownQueue(queue));
    const group = text("group");
    if (group !== undefined) {
      await change(redis, { queue, prefix }, { name, group });
      await output.report({
        data: { queue, group, isPaused: verb === "pause" },
        facts: [
          ["queue", queue],
          ["group", group],
          ["state", verb === "pause" ? "paused" : "running"],
        ],
      });
      return undefined;
    }
    const isUnknown = verb === "resume" && name !== undefined && !names.some((limited) => limited.name === name);
    await change(redis, { queue, prefix }, { name });
    const seen = await inspectQueue(redis, { queue, prefix });
    const { active } = seen;
    const one = seen.names.find((limited) => limited.name === name);
    const pausedAt = name === undefined ? seen.pausedAt : (one?.pausedAt ?? null);
    const what = name === undefined ? "" : ` for ${name} jobs`;
    const isVain = verb === "pause" && name !== undefined && !(await hasJobs(call, queue, name));
    await output.report({
      data: {
        queue,
        ...(name === undefined ? {} : { name, suspended: one?.suspended ?? 0 }),
        pausedAt,
        ready: readyOf(seen),
        active,
      },
      facts: [
        ["queue", queue],
        ...(isUnknown ? [["unknown", `not paused${what}`] as const] : []),
        ["state", `${pausedAt === null ? "running" : "paused"}${what}`],
        ...(isVain ? [["note", `no job has this name now. To undo: kit queue resume ${queue} --name …`] as const] : []),
        ...(one ? [["suspended", String(one.suspended)] as const] : []),
        ["ready", String(readyOf(seen))],
        ["active", String(active)],
      ],
      isUnknown,
    });
    return undefined;
  },
});

const groupsCommand: CliCommand = {
  path: "queue groups",
  about: "list the groups of a queue: ready and active jobs, and why a group does not start its next job",
  args: [queueArgument],
  options: [
    { name: "after", takes: "text", about: "start after this group" },
    { name: "count", takes: "integer", about: "number of groups to show (default and maximum: 100)" },
  ],
  run: async (call, queue: string) => {
    const { redis, prefix, text, integer, output } = call;
    if (!(await isQueue(call, queue))) return await output.report(unknownQueue(queue));
    const { groups, next } = await listGroups(
      redis,
      { queue, prefix },
      { after: text("after"), count: integer("count") },
    );
    const { now, groups: all } = await inspectQueue(redis, { queue, prefix });
    const rows = groups.map((one) => [
      ...[one.group, String(one.ready), String(one.active), String(one.concurrency), String(one.weight)],
      ...[one.nextAddedAt ?? "", whyOf(one, now)],
    ]);
    await output.report({
      data: { queue, groups, next: next ?? null },
      facts: [
        [
          "groups",
          `${String(groups.length)} of ${String(all)} shown${next === undefined ? "" : `; next page: --after ${next}`}`,
        ],
      ],
      table:
        rows.length === 0
          ? undefined
          : { columns: ["group", "ready", "active", "concurrency", "weight", "next added", "waits because"], rows },
    });
    return undefined;
  },
};

const drainCommand: CliCommand = {
  path: "queue drain",
  buttons: [{ thing: "queue", text: "Drain", when: (seen) => readyOf(seen as unknown as Overview) > 0 }],
  about: "delete all ready jobs, or all of a group (dry run unless you pass --run)",
  args: [queueArgument],
  options: [
    runOption,
    { name: "delayed", about: "include delayed jobs" },
    { name: "group", takes: "text", about: "only jobs of this group" },
    { name: "active", about: "also cancel active jobs of the group" },
  ],
  run: async (call, queue: string) => {
    const { redis, prefix, isSet, text, output } = call;
    if (!(await isQueue(call, queue))) return await output.report(unknownQueue(queue));
    const address = { queue, prefix };
    const isDryRun = !isSet("run");
    const group = text("group");
    const [delayed, hasActive] = [isSet("delayed"), isSet("active")];
    if (group === undefined ? hasActive : delayed)
      throw new TypeError("Pass --active only with --group, and --delayed only without");
    const seen = await inspectQueue(redis, address);
    const [first] = group === undefined ? [] : (await listGroups(redis, address, { from: group, count: 1 })).groups;
    const { ready, active } = first?.group === group && first ? first : { ready: 0, active: 0 };
    const found =
      group === undefined
        ? readyOf(seen) + (delayed ? seen.delayed + seen.waitingForChildren : 0)
        : ready + (hasActive ? active : 0);
    const count = isDryRun
      ? found
      : await (hasActive ? cancelGroup(redis, address, group ?? "") : drainQueue(redis, address, { delayed, group }));
    await output.report({
      data: { queue, isDryRun, count },
      facts: [
        [isDryRun ? "would be deleted" : "deleted", String(count)],
        ...(isDryRun && count > 0 ? [["next step", "run the same command with --run"] as const] : []),
      ],
    });
    return undefined;
  },
};

const repairCommand: CliCommand = {
  path: "queue repair",
  buttons: [{ thing: "queue", text: "Repair", when: ({ lost }) => lost !== 0 }],
  about: "make lost jobs ready again (dry run unless you pass --run)",
  args: [queueArgument],
  options: [runOption],
  run: async (call, queue: string) => {
    const { redis, prefix, isSet, output } = call;
    if (!(await isQueue(call, queue))) return await output.report(unknownQueue(queue));
    const isDryRun = !isSet("run");
    const ids = await repairQueue(redis, { queue, prefix }, { run: !isDryRun });
    await output.report({
      data: { queue, isDryRun, count: ids.length, ids },
      facts: [
        [isDryRun ? "would be made ready" : "made ready", String(ids.length)],
        ...(isDryRun && ids.length > 0 ? [["next step", "run the same command with --run"] as const] : []),
      ],
      table: ids.length === 0 ? undefined : { columns: ["id"], rows: ids.slice(0, shownLetters).map((id) => [id]) },
    });
    return undefined;
  },
};

export const commands: readonly CliCommand[] = [
  listCommand,
  showCommand,
  logCommand,
  moveCommand("retry", "retry dead letters, with all their attempts", "moved back", ["Retry dead letters", "Retry"]),
  moveCommand("drop", "delete dead letters", "deleted", ["Delete dead letters", "Delete"]),
  pauseCommand("pause", "pause a queue, or its jobs with one name or group", pauseQueue),
  pauseCommand("resume", "resume a queue, or its jobs with one name or group", resumeQueue),
  promoteCommand,
  endCommand(
    "remove",
    "delete a ready or delayed job",
    ["ready", "delayed", "waiting-for-children"],
    "removed",
    removeJob,
  ),
  endCommand(
    "cancel",
    "delete a job, and abort its handler if the job is active",
    ["ready", "delayed", "waiting-for-children", "active"],
    "cancelled",
    cancelJob,
  ),
  drainCommand,
  groupsCommand,
  repairCommand,
];
