import { custom, integer, integerOption, required, resolve, type RulesOf } from "@kit/core/toolkit";
import { type Day, dayMs } from "./days.js";

/** A precision: the width of its buckets, and how long they are kept, as a time or a number of buckets. */
export type Precision =
  | {
      /** Width of a bucket in milliseconds. */
      readonly stepMs: number;
      /** How long a bucket is kept after its end, in milliseconds. */
      readonly keepMs: number;
    }
  | {
      readonly stepMs: number;
      /** How many buckets are kept. */
      readonly keepSamples: number;
    };

/** A precision after its check. */
export interface Step {
  readonly stepMs: number;
  readonly keepMs: number;
}

/** A span of time to read, by the server's clock. */
export interface RangeOptions {
  /**
   * The width of the returned buckets: a multiple of a stored step.
   *
   * @default the finest stored step that still has the beginning of the range
   */
  readonly stepMs?: number | undefined;
  /** Reads the last N milliseconds. Use it instead of `fromAt` and `toAt`. */
  readonly lastMs?: number | undefined;
  /** The start of the range in epoch milliseconds, rounded down to the start of its bucket. */
  readonly fromAt?: number | undefined;
  /**
   * The end of the range (excluded) in epoch milliseconds. Counts of other processes can be some milliseconds ahead, because
   * each process estimates the server's clock.
   *
   * @default now
   */
  readonly toAt?: number | undefined;
}

/** How many buckets are in one hash: few enough to stay a listpack. */
export const chunkLength = 60;
/** An instant further ahead of the server's clock is refused: it would outlive its retention. */
export const maxAheadMs = 60_000;

const maxMs = 10 * 366 * dayMs;
const maxKeys = 2_000;
const maxBuckets = 20_000;
const epochEnd = 8_640_000_000_000_000;

/** @throws {TypeError | RangeError} the value is no instant. */
export const instantOption = (name: string, at: number): number => {
  if (typeof at !== "number") throw new TypeError(`Expected \`${name}\` to be epoch milliseconds, got ${typeof at}`);
  if (!(at >= 0 && at <= epochEnd))
    throw new RangeError(`Expected \`${name}\` to be epoch milliseconds, got ${String(at)}`);
  return Math.floor(at);
};

export const floorTo = (at: number, stepMs: number): number => Math.floor(at / stepMs) * stepMs;

/** Whether the bucket of an instant is still kept at the server's `now`. */
export const isKept = ({ stepMs, keepMs }: Step, at: number, now: number): boolean =>
  floorTo(at, stepMs) + stepMs + keepMs > now;

/**
 * The precisions, sorted from fine to coarse.
 *
 * @throws {TypeError | RangeError} one is invalid, is no multiple of the finest, or is given twice.
 */
export const precisionsOption = (name: string, given: readonly Precision[], perKey: number): readonly Step[] => {
  const list: unknown = given;
  if (!Array.isArray(list) || list.length === 0 || list.length > 12)
    throw new TypeError(`Expected \`${name}\` to be an array of 1 to 12 objects with stepMs and keepMs or keepSamples`);
  const steps = given.map((one) => precision(name, one, perKey)).toSorted((a, b) => a.stepMs - b.stepMs);
  const finest = steps[0]?.stepMs ?? 1;
  steps.forEach(({ stepMs }, index) => {
    if (stepMs % finest !== 0)
      throw new RangeError(
        `Expected \`${name}\` to have steps that are multiples of the finest, got ${String(stepMs)}`,
      );
    if (steps[index + 1]?.stepMs === stepMs)
      throw new RangeError(`Expected \`${name}\` to have different steps, got ${String(stepMs)} twice`);
  });
  return steps;
};

/** How long the totals of all time are kept: they outlive every key of these steps, each with `perKey` buckets. */
export const totalKeepMs = (steps: readonly Step[], perKey: number): number =>
  Math.max(...steps.map(({ stepMs, keepMs }) => keepMs + stepMs * perKey)) + maxAheadMs + dayMs;

/** The ranges of `keepMs` and `keepSamples` depend on the step. */
const stepRules = {
  stepMs: required(integer(10, maxMs)),
  keepMs: custom((_name, ms: number) => ms),
  keepSamples: custom((_name, count: number) => count),
};

const precision = (name: string, given: Precision, perKey: number): Step => {
  const own = resolve(name, given, stepRules, undefined, `${name}.`);
  const { stepMs } = own;
  if ((own.keepMs === undefined) === (own.keepSamples === undefined))
    throw new TypeError(`Expected \`${name}\` to have either keepMs or keepSamples`);
  const keepMs =
    own.keepMs === undefined
      ? stepMs * integerOption(`${name}.keepSamples`, own.keepSamples, 1, maxKeys * perKey)
      : integerOption(`${name}.keepMs`, own.keepMs, stepMs, maxMs);
  if (keepMs / (stepMs * perKey) > maxKeys)
    throw new RangeError(
      `Expected \`${name}\` to keep at most ${String(maxKeys * perKey)} buckets of ${String(stepMs)} ms, got ${String(Math.ceil(keepMs / stepMs))}`,
    );
  return { stepMs, keepMs };
};

export const rangeRules = {
  stepMs: integer(1, maxMs),
  lastMs: integer(1, maxMs),
  fromAt: custom(instantOption),
  toAt: custom(instantOption),
} satisfies RulesOf<RangeOptions>;

/** A range, resolved against what is stored. */
export interface Plan {
  /** The stored step that is read. */
  readonly source: Step;
  /** The step of the answer. */
  readonly stepMs: number;
  readonly fromAt: number;
  /** Excluded; a multiple of `stepMs`. */
  readonly toAt: number;
}

/**
 * Chooses the step to read: the coarsest stored step that divides the requested step and still has the start of the range. If
 * there is none, it chooses the step that reaches furthest back.
 *
 * @throws {TypeError | RangeError} an option is invalid, or the range has too many buckets.
 */
export const planRange = (steps: readonly Step[], range: RangeOptions, now: number): Plan => {
  const given = resolve("range", range, rangeRules);
  const { lastMs, toAt: to = instantOption("toAt", now) } = given;
  if ((lastMs === undefined) === (given.fromAt === undefined))
    throw new TypeError("Expected a range to have either `lastMs` or `fromAt`");
  if (lastMs !== undefined && given.toAt !== undefined)
    throw new TypeError("Expected a range with `lastMs` to have no `toAt`");
  const from = given.fromAt ?? to - (lastMs ?? 0);
  if (from > to) throw new RangeError("Expected `fromAt` not to be after `toAt`");
  // The bucket that ends `keepMs` ago has just expired.
  const stepMs = given.stepMs ?? (steps.find((step) => isKept(step, from, now)) ?? furthest(steps)).stepMs;
  const fitting = steps.filter((step) => stepMs % step.stepMs === 0);
  if (fitting.length === 0)
    throw new RangeError(
      `Expected \`stepMs\` to be a multiple of a stored step (${steps.map((step) => String(step.stepMs)).join(", ")}), got ${String(stepMs)}`,
    );
  const fromAt = floorTo(from, stepMs);
  const source = sourceOf(fitting, fromAt, now);
  const toAt = Math.ceil(to / stepMs) * stepMs;
  if ((toAt - fromAt) / stepMs > maxBuckets)
    throw new RangeError(`Expected a range of at most ${String(maxBuckets)} buckets. Pass a larger \`stepMs\``);
  return { source, stepMs, fromAt, toAt };
};

const furthest = (steps: readonly Step[]): Step =>
  steps.reduce((best, one) => (one.keepMs > best.keepMs ? one : best), steps[0] as Step);

/** The coarsest step that still has the start of the range. If there is none, the step that reaches furthest back. */
const sourceOf = (steps: readonly Step[], fromAt: number, now: number): Step =>
  steps.findLast((step) => isKept(step, fromAt, now)) ?? furthest(steps);

/**
 * The plan to read the sums of days.
 *
 * @throws {RangeError} no stored step divides all of them.
 */
export const planDays = (
  steps: readonly Step[],
  days: readonly Day[],
  now: number,
): Pick<Plan, "source" | "fromAt" | "toAt"> => {
  const [first, last] = [days[0], days.at(-1)];
  if (!first || !last) throw new RangeError("Expected `lastDays` to have at least one day");
  const fitting = steps.filter(({ stepMs }) =>
    [...days, { startAt: last.endAt }].every(({ startAt }) => startAt % stepMs === 0),
  );
  if (fitting.length === 0)
    throw new RangeError(
      `Expected a step that divides the days of the time zone, got ${steps.map(({ stepMs }) => String(stepMs)).join(", ")}. A step of 900000 fits every zone`,
    );
  return { source: sourceOf(fitting, first.startAt, now), fromAt: first.startAt, toAt: last.endAt };
};

/** The first instants of all keys, each covering `spanMs`, that may hold data of a plan at the server's `now`. */
export const keyStarts = (
  { source, fromAt, toAt }: Pick<Plan, "source" | "fromAt" | "toAt">,
  spanMs: number,
  now: number,
): number[] => {
  const starts: number[] = [];
  const oldest = Math.max(fromAt, now - source.keepMs - spanMs);
  const newest = Math.min(toAt, now + maxAheadMs + spanMs);
  for (let at = floorTo(oldest, spanMs); at < newest; at += spanMs) starts.push(at);
  return starts;
};

/** Whether a span of the answer may be incomplete: it has not ended yet, or its beginning is no longer stored. */
export const isPartial = ({ source }: Pick<Plan, "source">, startAt: number, endAt: number, now: number): boolean =>
  endAt > now || !isKept(source, startAt, now);
