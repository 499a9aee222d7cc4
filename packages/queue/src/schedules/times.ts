import type { ResolvedSchedule } from "./options.js";

/** When a schedule runs, as it is stored. */
export type Timing = Pick<
  ResolvedSchedule,
  "everyMs" | "cron" | "timezone" | "startAt" | "endAt" | "count" | "missed"
> &
  Partial<Pick<ResolvedSchedule, "overlap" | "jitterMs">>;

/** The first run after a time, both in epoch ms. Undefined if there is none. */
export type RunAfter = (at: number) => number | undefined;

/** The latest time that a Date can have. */
const latestMs = 8.64e15;

const dayMs = 86_400_000;

const everyAfter = (everyMs: number, base: number): RunAfter => {
  return (at) => (at < base ? base : base + (Math.floor((at - base) / everyMs) + 1) * everyMs);
};

/**
 * The runs of an expression, which only croner parses. Each time in the expression has one run, when the clock of the zone first shows that
 * time or has passed it. An expression that names every hour of the day runs whenever the clock shows one of its times.
 *
 * @throws {Error} croner is not installed, or refuses the expression. It refuses a time zone when it computes a run.
 */
const cronAfter = async (cron: string, timezone: string, startAt: number): Promise<RunAfter> => {
  const { Cron, CronDate, CronPattern } = await import("croner");
  const isHourly = !new CronPattern(cron).hour.includes(0);
  const job = new Cron(cron, { ...(isHourly ? { timezone } : { utcOffset: 0 }), paused: true });
  const nextOf = (at: number): number | undefined => job.nextRun(new Date(at))?.getTime();
  /** The time that the clock shows, to the second, converted as if it were UTC. */
  const shownAt = (at: number): number => {
    const { year, month, day, hour, minute, second } = new CronDate(new Date(at), timezone);
    return Date.UTC(year, month, day, hour, minute, second);
  };
  const firstShown = (time: number): number => {
    // The offset of the day before gives the first of two instants.
    const usual = 2 * time - dayMs - shownAt(time - dayMs);
    if (shownAt(usual) === time) return usual;
    // The offset has changed since then, and the clock no longer shows any time twice. Find the last second at which it shows an earlier time.
    let earlier = usual - 2 * dayMs;
    for (let step = 2 ** 18 * 1_000; step >= 1_000; step /= 2) if (shownAt(earlier + step) < time) earlier += step;
    return earlier + 1_000;
  };
  return (at) => {
    const from = Math.max(at, startAt - 1);
    for (let time = nextOf(isHourly ? from : shownAt(from)); time !== undefined; time = nextOf(time)) {
      // In the second pass through an hour, its times have run.
      const run = isHourly ? time : firstShown(time);
      if (run > from) return run;
    }
    return undefined;
  };
};

/**
 * The runs of a schedule, within `startAt` and `endAt`.
 *
 * @throws {Error} as {@link cronAfter}.
 */
export const runsOf = async ({ everyMs, cron, timezone, startAt = 0, endAt = latestMs }: Timing): Promise<RunAfter> => {
  const after =
    cron === undefined ? everyAfter(everyMs ?? latestMs, startAt) : await cronAfter(cron, timezone ?? "UTC", startAt);
  return (at) => {
    const next = after(at);
    return next === undefined || next > endAt ? undefined : next;
  };
};

/** A run, and the run after it. */
export interface RunAndNext {
  readonly run: number;
  readonly next: number | undefined;
}

/** The latest run until a time, by bisection. `run` is one of the runs. */
export const latestRun = (after: RunAfter, run: number, until: number): RunAndNext => {
  const isUntil = (next: number | undefined): next is number => next !== undefined && next <= until;
  let low = run;
  for (let high = until; ;) {
    const next = after(low);
    if (!isUntil(next)) return { run: low, next };
    const middle = next + Math.floor((high - next) / 2);
    const later = after(middle);
    if (isUntil(later)) low = later;
    else {
      low = next;
      high = middle;
    }
  }
};
