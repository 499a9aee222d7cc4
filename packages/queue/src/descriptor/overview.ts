import type { Connection } from "@kit/core";
import { type Facts, secondsText } from "@kit/core/toolkit";

/** How many schedules there are, and when the next run is due, by the server's clock. */
interface ScheduleOverview {
  readonly schedules: number;
  readonly nextRun: number | null;
}

/** Reads the overview of a queue. Changes nothing. */
export const scheduleOverview = async (redis: Connection, upcoming: string): Promise<ScheduleOverview> => {
  const [count, first] = await Promise.all([
    redis.call("ZCARD", upcoming),
    redis.call("ZRANGE", upcoming, 0, 0, "WITHSCORES"),
  ]);
  const [, score = "inf"] = (first as unknown[]).flat().map(String);
  return { schedules: Number(count), nextRun: /inf/i.test(score) ? null : Number(score) };
};

/** The line about schedules in the report of a queue. None without schedules. */
export const overviewFacts = ({ schedules, nextRun }: ScheduleOverview, now: number): Facts => {
  if (schedules === 0) return [];
  const next =
    nextRun === null
      ? "all finished"
      : nextRun > now
        ? `next run in ${secondsText(nextRun - now)}`
        : `overdue by ${secondsText(now - nextRun)}`;
  return [["schedules", `${String(schedules)}, ${next}`]];
};
