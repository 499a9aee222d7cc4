import { dated, type InspectCall } from "@kit/core/toolkit";

const units = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1_000, ms: 1 } as const;
const maxMs = 3_660 * units.d;
/** The most buckets or windows that one answer reads. */
const maxSteps = 1_000;

/** The milliseconds of an option such as `90s`, `15m`, `2h`, `7d`; undefined when it is not given. */
export const spanOption = ({ text }: InspectCall, name: string): number | undefined => {
  const given = text(name);
  if (given === undefined) return undefined;
  const [, count, unit] = /^(\d{1,12})(ms|s|m|h|d)$/.exec(given) ?? [];
  const ms = Number(count) * units[unit as keyof typeof units];
  if (!(ms >= 10 && ms <= maxMs))
    throw new RangeError(`Expected --${name} to be a span from 10ms to 3660d, such as 90s, 15m, 2h or 7d`);
  return ms;
};

/** In the same form. */
export const spanText = (ms: number): string => {
  const [unit, length] = Object.entries(units).find(([, one]) => ms % one === 0) ?? ["ms", 1];
  return `${String(ms / length)}${unit}`;
};

/** @throws {RangeError} a span has too many steps for one answer. */
export const assertFew = (sinceMs: number, stepMs: number, stepName: string): void => {
  if (sinceMs / stepMs > maxSteps)
    throw new RangeError(
      `Expected --since to be at most ${String(maxSteps)} times --${stepName}, got ${spanText(sinceMs)} of ${spanText(stepMs)}`,
    );
};

/** An instant as text; `-` if it is not known. */
export const timeText = (at: number): string => dated(at) ?? "-";
