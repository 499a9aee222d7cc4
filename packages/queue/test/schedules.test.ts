import { describe, expect, it } from "vitest";
import { runsOf } from "../src/schedules/times.js";

const [minuteMs, hourMs, dayMs] = [60_000, 3_600_000, 86_400_000];

/** A clock, by the instant at which one in UTC shows the same. */
type Clock = (at: number) => number;

const clockOf = (timeZone: string): Clock => {
  const { format } = new Intl.DateTimeFormat("sv", { timeZone, dateStyle: "short", timeStyle: "medium" });
  return (at) => Date.parse(`${format(at)}Z`);
};

/** The instants at which a clock is changed, to the minute. */
const changesIn = (shown: Clock, from: number, until: number): number[] => {
  if (shown(until) - shown(from) === until - from) return [];
  if (until - from === minuteMs) return [until];
  const middle = from + Math.floor((until - from) / 2 / minuteMs) * minuteMs;
  return [...changesIn(shown, from, middle), ...changesIn(shown, middle, until)];
};

/** The changes of all zones in a sample of years, each kind of change once: by the time of the day, the jump, and the offset. */
const changes = (): { readonly zone: string; readonly at: number }[] => {
  const kinds = new Map<string, { readonly zone: string; readonly at: number }>();
  // With the day that Samoa left out, Morocco's winter time in Ramadan, and changes by half an hour, two and three.
  for (const year of [2011, 2023, 2027])
    for (const zone of Intl.supportedValuesOf("timeZone")) {
      const shown = clockOf(zone);
      for (let week = Date.UTC(year, 0); week < Date.UTC(year + 1, 0); week += 7 * dayMs)
        for (const at of changesIn(shown, week, week + 7 * dayMs)) {
          const before = shown(at - minuteMs);
          kinds.set([before % dayMs, shown(at) - before, before - at].join(), { zone, at });
        }
    }
  return [...kinds.values()];
};

/** Whether a time is one of the expression: hour, minute, and the date. */
type Matches = (h: number, m: number, date: Date) => boolean;

/** Expressions that name hours, and some that name them all; each with a matcher of its own, and its second. */
const named: readonly (readonly [cron: string, matches: Matches, second?: number])[] = [
  ["0 0 * * *", (h, m) => h === 0 && m === 0],
  ["30 2 * * *", (h, m) => h === 2 && m === 30],
  ["30 2,14 * * *", (h, m) => m === 30 && (h === 2 || h === 14)],
  ["0,30 2 * * *", (h, m) => h === 2 && m % 30 === 0],
  ["*/20 3 * * *", (h, m) => h === 3 && m % 20 === 0],
  ["15 0,22-23 * * *", (h, m) => m === 15 && (h === 0 || h >= 22)],
  ["30 1-3/1 * * *", (h, m) => m === 30 && h >= 1 && h <= 3],
  ["0 */2 * * *", (h, m) => m === 0 && h % 2 === 0],
  ["45 0-3,21-23 * * SUN", (h, m, date) => m === 45 && (h <= 3 || h >= 21) && date.getUTCDay() === 0],
  ["10 0,4 L * *", (h, m, date) => m === 10 && h % 4 === 0 && h <= 4 && new Date(+date + dayMs).getUTCDate() === 1],
  ["30 15 0-2 * * *", (h, m) => m === 15 && h <= 2, 30],
];
const hourly: typeof named = [
  ["15 * * * *", (_h, m) => m === 15],
  ["*/40 0-11,12-23 * * *", (_h, m) => m % 40 === 0],
  ["10 30 */1 * * SAT,SUN", (_h, m, date) => m === 30 && date.getUTCDay() % 6 === 0, 10],
];

const isTime = (matches: Matches, time: number): boolean => {
  const date = new Date(time);
  return matches(date.getUTCHours(), date.getUTCMinutes(), date);
};

const utc = (at: number): string => new Date(at).toISOString();

describe("The runs of a cron expression", () => {
  it("equal the times of a clock that is read every minute, around the changes of all time zones", async () => {
    for (const { zone, at: change } of changes()) {
      const shown = clockOf(zone);
      const aroundMs = 4 * hourMs + Math.abs(shown(change) - shown(change - minuteMs));
      const [from, until] = [change - aroundMs, change + aroundMs];
      const minutes = Array.from({ length: (until - from) / minuteMs }, (_, n) => from + n * minuteMs);
      const clock = minutes.map((at) => ({ at, time: shown(at) }));
      const first = new Map(clock.toReversed().map(({ at, time }) => [time, at]));
      const times: number[] = [];
      for (let time = shown(from); time < shown(until); time += minuteMs) times.push(time);
      const check = async (cron: string, wanted: readonly number[]): Promise<void> => {
        const none = { everyMs: undefined, startAt: undefined, endAt: undefined, count: undefined };
        const after = await runsOf({ ...none, cron, timezone: zone, missed: "all" });
        const runs: number[] = [];
        for (let run = after(from - 1); run !== undefined && run < until; run = after(run)) runs.push(run);
        expect([zone, cron, runs.map(utc)]).toEqual([zone, cron, wanted.map(utc)]);
        // From instants between the runs, too.
        const starts = minutes.filter((at) => (at - change) % (55 * minuteMs) === 0 && at < (wanted.at(-1) ?? 0));
        const next = starts.map((at) => wanted.find((run) => run > at));
        expect([zone, cron, starts.map(after)]).toEqual([zone, cron, next]);
      };
      for (const [cron, matches, second = 0] of named) {
        const runs = times
          .filter((time) => isTime(matches, time))
          .map((time) => (first.has(time) ? first.get(time)! + second * 1_000 : change));
        // The times of a gap have one run, with a time at its end.
        await check(cron, [...new Set(runs)]);
      }
      for (const [cron, matches, second = 0] of hourly) {
        const runs = clock.filter(({ time }) => isTime(matches, time)).map(({ at }) => at + second * 1_000);
        await check(cron, runs);
      }
    }
  });
});
