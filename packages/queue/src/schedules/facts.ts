import { decodedName } from "@kit/core/toolkit";
import type { MissedRuns, OverlapPolicy } from "./options.js";
import { recordOf, timingOf } from "./record.js";
import type { SchedulePage } from "./scripts/index.js";

/** A stored schedule. Times are epoch ms. */
export interface ScheduleFacts {
  readonly id: string;
  /** The name of its jobs. */
  readonly name: string;
  readonly everyMs: number | undefined;
  readonly cron: string | undefined;
  readonly timezone: string | undefined;
  readonly startAt: number | undefined;
  readonly endAt: number | undefined;
  readonly count: number | undefined;
  readonly missed: MissedRuns;
  readonly overlap: OverlapPolicy;
  readonly jitterMs: number;
  readonly version: number;
  /** It adds no jobs until it is resumed. */
  readonly isPaused: boolean;
  /** The next run. Undefined if the schedule has ended, or is paused. */
  readonly nextAt: number | undefined;
  /** How many more jobs it will add. Undefined if there is no limit. */
  readonly left: number | undefined;
}

/** The time in a score. Undefined if there is no next run. */
export const instantOf = (score: string): number | undefined =>
  score === "" || score === "inf" ? undefined : Number(score);

/** @throws {ScheduleError} this version cannot read the schedule. */
export const factsOf = (id: string, field: string, score: string, name: string): ScheduleFacts => {
  const record = recordOf(id, field);
  const {
    everyMs,
    cron,
    timezone,
    startAt,
    endAt,
    count,
    missed,
    overlap = "allow",
    jitterMs = 0,
  } = timingOf(id, record);
  const { version, left, isPaused } = record;
  return {
    ...{ id, name, everyMs, cron, timezone, startAt, endAt, count, missed, overlap, jitterMs, version, left, isPaused },
    nextAt: instantOf(score),
  };
};

/** The schedules of a page, without data. */
export const factsOfPage = ({ page }: SchedulePage): ScheduleFacts[] =>
  page
    .filter(({ field }) => field !== "")
    .map(({ id, field, at, head }) => factsOf(id, field, at, decodedName(head.split(" ", 1)[0] ?? "")));
