import { ScheduleError } from "./errors.js";
import type { Timing } from "./times.js";

/** The field of a schedule: `version TAB revision TAB left TAB timing`. Its timing is JSON, which has no tab. */
export interface ScheduleRecord {
  readonly version: number;
  /** Another one for each change of the schedule. */
  readonly revision: string;
  /** How many jobs are left; undefined: there is no bound. */
  readonly left: number | undefined;
  /** As it is stored: equal timings are equal texts. */
  readonly timing: string;
}

export const fieldOf = ({ version, revision, left, timing }: ScheduleRecord): string =>
  [version, revision, left ?? "", timing].join("\t");

/** Everything in one order, and what is undefined left out. */
export const timingText = ({ everyMs, cron, timezone, startAt, endAt, count, missed }: Timing): string =>
  JSON.stringify({ everyMs, cron, timezone, startAt, endAt, count, missed });

/** @throws {ScheduleError} this version cannot read it. */
export const recordOf = (id: string, field: string): ScheduleRecord => {
  const [version = "", revision = "", left = "", timing] = field.split("\t");
  if (timing === undefined) throw unreadable(id);
  return { version: Number(version), revision, left: left === "" ? undefined : Number(left), timing };
};

/** @throws {ScheduleError} this version cannot read it. */
export const timingOf = (id: string, { timing }: ScheduleRecord): Timing => {
  try {
    const parsed = JSON.parse(timing) as Timing;
    const { everyMs, cron } = parsed;
    if (cron === undefined ? Number.isSafeInteger(everyMs) && Number(everyMs) > 0 : typeof cron === "string")
      return parsed;
  } catch {
    // Fall through.
  }
  throw unreadable(id);
};

const unreadable = (id: string): ScheduleError => new ScheduleError(id, "is stored in a form that cannot be read");
