import { counted, type Facts, type InspectCall, type Inspector, type Report, secondsText } from "@kit/core/toolkit";
import { queueKeys } from "../job/keys.js";
import { overviewFacts, scheduleOverview } from "./overview.js";
import {
  type GroupReport,
  inspectJob,
  inspectQueue,
  type JobReport,
  listGroups,
  listWorkers,
  type Overview,
} from "../manage/index.js";
import { placeOf, workerFacts } from "./places.js";

const countOf = (count: number, at: number | null, text: (ms: number) => string): string =>
  at === null ? String(count) : `${String(count)}, ${text(at)}`;

/** All ready jobs. */
export const readyOf = ({ waiting, prioritised, suspended, grouped }: Overview): number =>
  waiting + prioritised + suspended + grouped;

const summaryOf = (seen: Overview): string => {
  const { delayed, waitingForChildren, active, dead, pausedAt } = seen;
  const parents = waitingForChildren === 0 ? "" : `${String(waitingForChildren)} waiting for children, `;
  return `${pausedAt === null ? "" : "paused: "}${String(readyOf(seen))} ready, ${String(delayed)} delayed, ${parents}${String(active)} active, ${String(dead)} dead`;
};

/** Whether the queue exists. It exists from its first add, worker, pause or limit. */
export const isQueue = async ({ redis, prefix }: InspectCall, queue: string): Promise<boolean> => {
  const { meta, limits, groups } = queueKeys(prefix, queue);
  return (await redis.call("EXISTS", meta, limits, groups)) !== 0;
};

/** The report for a queue that does not exist. */
export const unknownQueue = (queue: string): Report => ({
  data: { queue },
  facts: [
    ["queue", queue],
    ["state", "unknown: no job was added and no worker started"],
  ],
  isUnknown: true,
});

/** The limits that keep jobs from starting. */
const limitsOf = ({ pausedAt, concurrency, rate, heldUntil, now }: Overview): readonly string[] => [
  ...(pausedAt === null ? [] : [`paused for ${secondsText(Math.max(0, now - pausedAt))}`]),
  ...(concurrency === null ? [] : [`${counted(concurrency, "job")} at a time`]),
  ...(rate === null ? [] : [`${String(rate.count)} per ${secondsText(rate.perMs)}, burst of ${String(rate.burst)}`]),
  ...(heldUntil === null || heldUntil <= now
    ? []
    : [`no starts for ${secondsText(heldUntil - now)}, set by a handler`]),
];

/** One line for each name that has a limit or is paused. */
const nameFacts = ({ names, now }: Overview): Facts =>
  names.map(({ name, concurrency, pausedAt, suspended }) => {
    const texts = [
      ...(pausedAt === null ? [] : [`paused for ${secondsText(Math.max(0, now - pausedAt))}`]),
      ...(concurrency === null ? [] : [`${counted(concurrency, "job")} at a time`]),
      `${String(suspended)} suspended`,
    ];
    return [`name ${name}`, texts.join(", ")];
  });

/** Why a group does not start its next job. */
export const whyOf = (one: GroupReport, now: number): string => {
  const { state, active, concurrency, pausedAt, retryAt, haltedUntil } = one;
  if (state === "paused") return `paused for ${secondsText(Math.max(0, now - Date.parse(pausedAt ?? "")))}`;
  if (state === "retrying")
    return `a job waits ${secondsText(Math.max(0, Date.parse(retryAt ?? "") - now))} for its next attempt`;
  if (state === "halted") return `no starts for ${secondsText(Math.max(0, Date.parse(haltedUntil ?? "") - now))}`;
  return state === "full" ? `${String(active)} of ${String(concurrency)} active` : "";
};

/** The lines about groups in the report of a queue. `shown`: the first 100 groups by name. */
const groupFacts = ({ groups, groupsInTurn, grouped, now }: Overview, shown: readonly GroupReport[]): Facts => {
  if (groups === 0) return [];
  const [largest] = shown.toSorted((one, other) => other.ready - one.ready);
  const [oldest] = shown
    .flatMap(({ group, nextAddedAt }) => (nextAddedAt === null ? [] : [{ group, at: nextAddedAt }]))
    .toSorted((one, other) => one.at.localeCompare(other.at));
  const halted = shown.filter(({ state }) => state === "paused" || state === "retrying" || state === "halted");
  const of = groups > shown.length ? ` of the first ${String(shown.length)}` : "";
  return [
    ["groups", `${String(groups)}, ${String(groupsInTurn)} can start a job, ${counted(grouped, "ready job")}`],
    ...(largest && largest.ready > 0
      ? [[`largest${of}`, `${largest.group}: ${counted(largest.ready, "ready job")}`] as const]
      : []),
    ...(oldest
      ? [
          [
            `oldest${of}`,
            `${oldest.group}: next job added ${secondsText(Math.max(0, now - Date.parse(oldest.at)))} ago`,
          ] as const,
        ]
      : []),
    ...halted.slice(0, 10).map((one) => [`group ${one.group}`, whyOf(one, now)] as const),
  ];
};

const queueFacts = (queue: string, seen: Overview, groups: readonly GroupReport[]): Facts => {
  const { prioritised, suspended, delayed, active, dead, now, nextDue, firstLeaseEnd, oldestDead } = seen;
  const { completed, died, crashed, deadDropped, deadBytes, kept, lost, waitingForChildren, oldestParent } = seen;
  const until = (at: number): string => (at > now ? `in ${secondsText(at - now)}` : `${secondsText(now - at)} ago`);
  return [
    ["queue", queue],
    [
      "ready",
      `${String(readyOf(seen))}${prioritised === 0 ? "" : `, ${String(prioritised)} with a priority`}${suspended === 0 ? "" : `, ${String(suspended)} suspended by a pause or limit on their name`}`,
    ],
    ...groupFacts(seen, groups),
    ["delayed", countOf(delayed, nextDue, (at) => `first due ${until(at)}`)],
    ...(waitingForChildren === 0
      ? []
      : [
          [
            "waiting for children",
            countOf(waitingForChildren, oldestParent, (at) => `first since ${until(at)}`),
          ] as const,
        ]),
    ["active", countOf(active, firstLeaseEnd, (at) => `first lease expires ${until(at)} unless renewed`)],
    ["dead", countOf(dead, oldestDead, (at) => `oldest died ${until(at)}, ${counted(deadBytes, "byte")} in total`)],
    ...(kept === 0
      ? []
      : [["kept", `${counted(kept, "completed job")}: kit queue list ${queue} --state completed`] as const]),
    ...(limitsOf(seen).length === 0 ? [] : [["limits", limitsOf(seen).join(", ")] as const]),
    ...nameFacts(seen),
    ...(lost === 0
      ? []
      : [["lost", `${String(lost)} that no worker can take. Run: kit queue repair ${queue}`] as const]),
    [
      "totals",
      `${String(completed)} completed, ${String(died)} died, ${counted(crashed, "lease")} expired, ${counted(deadDropped, "dead letter")} dropped`,
    ],
  ];
};

/** The words for `at` of a job, by its state. */
export const atNames = {
  dead: "died",
  completed: "completed",
  delayed: "due",
  "waiting-for-children": "",
  active: "lease expires",
  ready: "",
  none: "",
  lost: "",
} as const;

/** The facts of a job. */
export const jobFacts = (report: JobReport): Facts => {
  const { queue, id, state, name, addedAt, priority, maxAttempts, attempts, crashes, snoozes, error } = report;
  const { outcome, takenAt, worker, startedAt, timeoutMs } = report;
  const { at, bytes, expiresAt, uniqueKey, group, progress, progressAt, logLines } = report;
  const head: Facts = [
    ["queue", queue],
    ["job", id],
  ];
  const noted: Facts = [
    ...(progressAt === null ? [] : [["progress", `${JSON.stringify(progress)}, reported at ${progressAt}`] as const]),
    ...(logLines === 0 ? [] : [["log", `${counted(logLines, "line")}: kit queue log ${queue} ${id}`] as const]),
  ];
  if (state === "none") return [...head, ["state", "unknown: completed, dropped, or never added"], ...noted];
  return [
    ...head,
    ["name", name === "" ? "unreadable" : name],
    ["state", state === "lost" ? `lost: no worker can take it. Run: kit queue repair ${queue}` : state],
    ...(outcome === "expired" ? [["outcome", "expired: no worker took it in time"] as const] : []),
    ...(takenAt === null ? [] : [["taken", takenAt] as const]),
    ...(at === null ? [] : [[atNames[state], at] as const]),
    ...(worker === null
      ? []
      : [["runs on", placeOf(worker)] as const, ["started", startedAt ?? "less than a heartbeat ago"] as const]),
    ...(timeoutMs === null ? [] : [["time limit", secondsText(timeoutMs)] as const]),
    ...(group === null ? [] : [["group", group] as const]),
    ...(uniqueKey === null ? [] : [["unique key", uniqueKey] as const]),
    ...(at === null && state === "delayed" ? [["due", "after the active job with the same key"] as const] : []),
    ["added", addedAt ?? "unreadable"],
    ...(expiresAt === null ? [] : [["expires", `${expiresAt} unless a worker takes it first`] as const]),
    ["priority", String(priority)],
    ["attempts", `${String(attempts)} failed of ${String(maxAttempts)}, ${counted(crashes, "crash", "crashes")}`],
    ...(snoozes === 0 ? [] : [["snoozed", counted(snoozes, "time")] as const]),
    ...(error === null ? [] : [["last error", `${error.name}: ${error.message}`] as const]),
    ...noted,
    [state === "completed" ? "result size" : "data size", counted(bytes, "byte")],
  ];
};

export const queueInspector: Inspector = {
  thing: "queue",
  about: "a queue: job counts by state, limits, workers and schedules",
  look: async (call, name: string) => {
    if (!(await isQueue(call, name))) return unknownQueue(name);
    const data = await inspectQueue(call.redis, { queue: name, prefix: call.prefix });
    const planned = await scheduleOverview(call.redis, queueKeys(call.prefix, name).upcoming);
    const { workers, now } = await listWorkers(call.redis, { queue: name, prefix: call.prefix });
    const { groups: shown } =
      data.groups === 0 ? { groups: [] } : await listGroups(call.redis, { queue: name, prefix: call.prefix });
    const { queueWaitReasons } = await import("../waits/index.js");
    const waits = await queueWaitReasons(call.redis, queueKeys(call.prefix, name), data, workers);
    const facts = [
      ...queueFacts(name, data, shown),
      ...workerFacts(name, workers, now),
      ...waits.map(({ text }) => ["waits because", text] as const),
      ...overviewFacts(planned, data.now),
    ];
    const all = { queue: name, ...data, ...planned, workers, shownGroups: shown, waits };
    return { data: all, facts, summary: summaryOf(data) };
  },
  cost: 7,
  listed: { things: "queues", keys: ["{NAME}:meta"], columns: ["ready", "delayed", "active", "dead", "limits"] },
  keys: (prefix, name: string) => Object.values(queueKeys(prefix, name)),
};

export const jobInspector: Inspector = {
  thing: "job",
  about: "a job: state, attempts, last error, and why it waits",
  args: [
    { name: "queue", about: "name of the queue", listedIn: "queues" },
    { name: "id", about: "id of the job; kit queue list QUEUE shows ids" },
  ],
  options: [
    { name: "data", about: "include the data, the checkpoint and the kept result in --json" },
    { name: "quick", about: "read up to 8,000 active jobs, then assume that it is ready" },
  ],
  look: async (call, queue: string, id: string) => {
    const { redis, prefix, isSet } = call;
    const data = await inspectJob(redis, { queue, prefix }, id, { withData: isSet("data"), quick: isSet("quick") });
    if (data.state === "none" && !(await isQueue(call, queue))) return { ...unknownQueue(queue), data };
    const { waitReasons } = await import("../waits/index.js");
    const waits = await waitReasons(redis, prefix, data);
    const facts = [...jobFacts(data), ...waits.map(({ text }) => ["waits because", text] as const)];
    return { data: { ...data, waits }, facts, isUnknown: data.state === "none" };
  },
};
