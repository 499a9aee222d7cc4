import type { Connection } from "@kit/core";
import { counted, dated, secondsText } from "@kit/core/toolkit";
import { type QueueKeys, queueKeys } from "../job/keys.js";
import {
  type GroupReport,
  inspectQueue,
  type JobReport,
  listGroups,
  listWorkers,
  type Overview,
  type QueueAddress,
  type QueueWorker,
} from "../manage/index.js";

/** One reason why a job does not run now. `code` is stable, for programs. */
export interface WaitReason {
  readonly code: string;
  readonly text: string;
  /** When this reason ends, if that is known, as ISO text. */
  readonly until: string | null;
}

const reason = (code: string, text: string, until: number | null = null): WaitReason => ({
  code,
  text,
  until: dated(until),
});

/** When the rate lets the next job start, in epoch ms; see `bucket.lua`. Null: now. */
const rateUntil = ({ rate, now }: Overview, fullAt: string | null): number | null => {
  if (rate === null || fullAt === null) return null;
  const piece = (rate.perMs * 1_000) / rate.count;
  const missing = Number(fullAt) - now * 1_000;
  const ms = Math.ceil((missing - (rate.burst - 1) * piece) / 1_000);
  return ms > 0 ? now + ms : null;
};

/** Pauses and limits, of the queue and of the job's name. */
const limitReasons = ({ name }: Partial<JobReport>, seen: Overview, fullAt: string | null): readonly WaitReason[] => {
  const { pausedAt, heldUntil, concurrency, active, rate, names, now } = seen;
  const own = names.find((one) => one.name === name);
  const nextStart = rateUntil(seen, fullAt);
  const since = (at: number): string => `for ${secondsText(Math.max(0, now - at))}`;
  return [
    ...(pausedAt === null ? [] : [reason("paused", `The queue is paused, ${since(pausedAt)}`)]),
    ...(own?.pausedAt ? [reason("name-paused", `Jobs named ${name} are paused, ${since(own.pausedAt)}`)] : []),
    ...(heldUntil === null || heldUntil <= now
      ? []
      : [reason("held", `A handler asked for no starts for another ${secondsText(heldUntil - now)}`, heldUntil)]),
    ...(nextStart === null || rate === null
      ? []
      : [
          reason(
            "rate",
            `The rate of ${String(rate.count)} per ${secondsText(rate.perMs)} is used up. The next job starts in ${secondsText(nextStart - now)}`,
            nextStart,
          ),
        ]),
    ...(concurrency !== null && active >= concurrency
      ? [
          reason(
            "concurrency",
            `The queue runs ${counted(concurrency, "job")} at a time, and ${counted(active, "is", "are")} active`,
          ),
        ]
      : []),
    ...(own && own.concurrency !== null && own.suspended > 0
      ? [reason("name-concurrency", `Jobs named ${name} run ${String(own.concurrency)} at a time`)]
      : []),
  ];
};

/** Why the group of a ready job starts no job. */
const groupTexts: Readonly<Partial<Record<GroupReport["state"], string>>> = {
  paused: "is paused",
  full: "has no free place: it runs as many jobs as it may",
  retrying: "keeps its order, so it waits for the next attempt of an earlier job",
  halted: "has to wait, because of its rate or of a RateLimitError",
};

const groupReasons = async (
  redis: Connection,
  address: QueueAddress,
  { group }: JobReport,
): Promise<readonly WaitReason[]> => {
  if (group === null) return [];
  const { groups } = await listGroups(redis, address, { from: group, count: 1 });
  const own = groups.find((one) => one.group === group);
  const text = own && groupTexts[own.state];
  if (!text) return [];
  const until = own.state === "retrying" ? own.retryAt : own.state === "halted" ? own.haltedUntil : null;
  return [reason(`group-${own.state}`, `Group ${group} ${text}`, until === null ? null : Date.parse(until))];
};

const runningOf = (workers: readonly QueueWorker[]): readonly QueueWorker[] =>
  workers.filter(({ state }) => state !== "paused" && state !== "closing");

const handlersOf = (workers: readonly QueueWorker[]): number =>
  workers.reduce((sum, { concurrency }) => sum + (concurrency ?? 1), 0);

/** What keeps these workers from taking a job. `who`: the workers, in words. */
const occupied = (who: string, workers: readonly QueueWorker[], { active }: Overview): WaitReason | undefined => {
  if (workers.length === 0) return reason("no-worker", "No worker is connected to this queue");
  if (runningOf(workers).length === 0) return reason("workers-paused", `Every ${who} is paused or closing`);
  const handlers = handlersOf(runningOf(workers));
  const text = handlers === 1 ? "The only handler is" : `All ${String(handlers)} handlers are`;
  // Paused workers can have active jobs.
  return active < handlersOf(workers) ? undefined : reason("busy", `${text} busy`);
};

/** Workers that could take the job. */
const workerReasons = ({ name }: JobReport, seen: Overview, workers: readonly QueueWorker[]): readonly WaitReason[] => {
  const able = workers.filter(
    ({ handles, handlesMore }) => handlesMore || handles.includes(name) || handles.includes("*"),
  );
  if (workers.length > 0 && able.length === 0)
    return [reason("no-handler", `Of ${counted(workers.length, "connected worker")}, none has a handler for ${name}`)];
  const found = occupied("worker with a handler for this name", able, seen);
  const ready = seen.waiting + seen.prioritised + seen.grouped;
  if (found?.code === "busy")
    return [{ ...found, text: `${found.text}. ${counted(ready, "job")} ready, in order of priority` }];
  const handlers = counted(handlersOf(runningOf(able)), "handler");
  return [found ?? reason("turn", `It is among ${counted(ready, "ready job")}, which ${handlers} take in order`)];
};

/** Whether it is delayed because the last worker that took it could not run it. */
const isPassedOn = ({ passes, error }: JobReport): boolean => passes > 0 && error?.code === "KIT_JOB_REFUSED";

const delayReason = (report: JobReport, now: number): WaitReason => {
  const { at, attempts, crashes, snoozes, passes } = report;
  if (at === null) return reason("same-key", "It starts after the active job with the same unique key");
  const due = Date.parse(at);
  if (due <= now) return reason("due", "It is due now. A worker makes it ready");
  const failed = attempts + crashes;
  const cause = isPassedOn(report)
    ? `Workers that cannot run it have passed it on ${counted(passes, "time")}. `
    : failed > 0
      ? `Attempt ${String(failed)} failed. `
      : snoozes > 0
        ? "Its handler snoozed it. "
        : "";
  return reason("due", `${cause}It is due in ${secondsText(due - now)}`, due);
};

/** When the rate of the queue is at its full burst again, as it is stored. */
const fullAtOf = async (redis: Connection, { limits }: QueueKeys, { rate }: Overview): Promise<string | null> =>
  rate === null ? null : String(await redis.call("HGET", limits, "fullAt"));

/** Why no ready job of a queue starts. Further reasons can apply to single jobs. Empty if there is no ready job. */
export const queueWaitReasons = async (
  redis: Connection,
  keys: QueueKeys,
  seen: Overview,
  workers: readonly QueueWorker[],
): Promise<readonly WaitReason[]> => {
  const { waiting, prioritised, suspended, grouped, groupsInTurn } = seen;
  if (waiting + prioritised + suspended + grouped === 0) return [];
  const found = occupied("worker", workers, seen);
  return [
    ...limitReasons({}, seen, await fullAtOf(redis, keys, seen)),
    ...(found ? [found] : []),
    ...(waiting + prioritised === 0 && grouped > 0 && groupsInTurn === 0
      ? [reason("groups", "No group can start its next job")]
      : []),
    ...(suspended > 0 ? [reason("suspended", `Jobs whose name is paused or at its limit: ${String(suspended)}`)] : []),
  ];
};

const openChildren = async (redis: Connection, keys: QueueKeys, id: string): Promise<number> =>
  Number((await redis.call("HGET", keys.families, id)) ?? 0);

/**
 * Returns the reasons why a job does not run now. Reasons that hold back the whole queue come first. Empty for a job that runs or has
 * ended. It changes nothing, and sends up to six commands.
 */
export const waitReasons = async (
  redis: Connection,
  prefix: string,
  report: JobReport,
): Promise<readonly WaitReason[]> => {
  const { queue, id, state } = report;
  if (state === "lost") return [reason("lost", "No worker can take it. Repair the queue")];
  if (state !== "ready" && state !== "delayed" && state !== "waiting-for-children") return [];
  const address = { queue, prefix };
  const keys = queueKeys(prefix, queue);
  if (state === "waiting-for-children") {
    const open = await openChildren(redis, keys, id);
    return [reason("children", `${counted(open, "child is", "children are")} not finished`)];
  }
  const seen = await inspectQueue(redis, address);
  const limits = [
    ...limitReasons(report, seen, await fullAtOf(redis, keys, seen)),
    ...(state === "ready" ? await groupReasons(redis, address, report) : []),
  ];
  const { workers } = limits.length > 0 ? { workers: [] } : await listWorkers(redis, address);
  const fromWorkers = limits.length > 0 ? [] : workerReasons(report, seen, workers);
  if (state === "ready") return [...limits, ...fromWorkers];
  // A worker that cannot run the job makes it delayed. For those that can, it waits as a ready job does.
  const missing = fromWorkers.filter(({ code }) => code === "no-handler" || (isPassedOn(report) && code !== "turn"));
  return [...missing, delayReason(report, seen.now), ...limits];
};
