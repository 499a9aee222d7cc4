import { integer, stored } from "@kit/core/toolkit";
import { scheduleRules } from "./options.js";
import { ScheduleError } from "./errors.js";
import type { Timing } from "./times.js";

/**
 * The field of a schedule: `version TAB revision TAB left TAB timing[ TAB last[ TAB paused]]`. Its timing is JSON, which has no tab. Versions
 * that don't know the last two parts ignore them.
 */
export interface ScheduleRecord {
  readonly version: number;
  /** Changes with every change of the schedule. */
  readonly revision: string;
  /** How many jobs are left. Undefined if there is no limit. */
  readonly left: number | undefined;
  /** As it is stored. Equal timings have equal texts. */
  readonly timing: string;
  /** The time of the last run that added a job, if `overlap` or a run on demand needs it. Otherwise empty. */
  readonly last: string;
  readonly isPaused: boolean;
}

export const fieldOf = ({ version, revision, left, timing, last, isPaused }: ScheduleRecord): string =>
  [version, revision, left ?? "", timing, ...(isPaused ? [last, "paused"] : last === "" ? [] : [last])].join("\t");

/** All values in one fixed order, without undefined ones. */
export const timingText = (timing: Timing): string => {
  const { everyMs, cron, timezone, startAt, endAt, count, missed, overlap, jitterMs } = timing;
  return JSON.stringify({
    ...{ everyMs, cron, timezone, startAt, endAt, count, missed },
    ...{ overlap: overlap === "skip" ? overlap : undefined, jitterMs: jitterMs === 0 ? undefined : jitterMs },
  });
};

const numberRules = { version: integer(0), left: integer(0), last: integer(0) };

const unreadable = (id: string, cause?: unknown): ScheduleError =>
  new ScheduleError(id, "is damaged or from a newer version", cause);

/** @throws {ScheduleError} `read` throws. */
export const readable = <Value>(id: string, read: () => Value): Value => {
  try {
    return read();
  } catch (error) {
    throw unreadable(id, error);
  }
};

/** @throws {ScheduleError} this version cannot read the schedule. */
export const recordOf = (id: string, field: string): ScheduleRecord => {
  const [version = "", revision = "", left = "", timing, last = "", paused] = field.split("\t");
  if (timing === undefined) throw unreadable(id);
  const numbers = { version: Number(version), left: left === "" ? undefined : Number(left) };
  readable(id, () => stored(id, { ...numbers, last: Number(last) }, numberRules));
  return { ...numbers, revision, timing, last, isPaused: paused === "paused" };
};

/** @throws {ScheduleError} this version cannot read the schedule. */
export const timingOf = (id: string, { timing }: ScheduleRecord): Timing => {
  const found = readable(id, () => stored(id, JSON.parse(timing) as object, scheduleRules) as Timing);
  if (found.everyMs === undefined && found.cron === undefined) throw unreadable(id);
  return found;
};
