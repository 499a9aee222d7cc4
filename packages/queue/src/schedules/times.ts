import type { ResolvedSchedule } from "./options.js";

/** When a schedule runs, as it is stored. */
export type Timing = Pick<ResolvedSchedule, "everyMs" | "cron" | "timezone" | "startAt" | "endAt" | "count" | "missed">;

/** The first run after an instant, both in epoch ms; undefined: there is none. */
export type RunAfter = (at: number) => number | undefined;

/** The latest instant that a Date can have. */
const latestMs = 8.64e15;

const everyAfter = (everyMs: number, base: number): RunAfter => {
  return (at) => (at < base ? base : base + (Math.floor((at - base) / everyMs) + 1) * everyMs);
};

/**
 * The runs of an expression of croner, which alone reads it.
 *
 * @throws {Error} croner is not installed, or refuses the expression. It refuses a time zone when it computes a run.
 */
const cronAfter = async (cron: string, timezone: string, startAt: number): Promise<RunAfter> => {
  const { Cron } = await import("croner");
  const job = new Cron(cron, { timezone, paused: true });
  return (at) => {
    const from = Math.max(at, startAt - 1);
    const next = job.nextRun(new Date(from))?.getTime();
    // A clock that goes backwards would add the jobs of a run twice.
    if (next !== undefined && next <= from) throw new Error("croner found a run that is not after the one before");
    return next;
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

/** A run, and the one after it. */
export interface RunAndNext {
  readonly run: number;
  readonly next: number | undefined;
}

/** The latest run until an instant, by bisection; `run` is one of them. */
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
