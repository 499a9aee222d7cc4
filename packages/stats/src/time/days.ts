/** A calendar day of a time zone. */
export interface Day {
  /** `2026-03-29`. */
  readonly date: string;
  /** The first instant of the day, in epoch milliseconds. */
  readonly startAt: number;
  /** The first instant of the next day: 23, 24 or 25 hours later. */
  readonly endAt: number;
}

export const hourMs = 3_600_000;
export const dayMs = 24 * hourMs;

/** The local time of a time zone at an instant, as if it were UTC. */
type LocalTime = (at: number) => number;

const localTimeIn = (timeZone: string): LocalTime => {
  const format = new Intl.DateTimeFormat("en-US", {
    timeZone,
    calendar: "gregory",
    numberingSystem: "latn",
    hourCycle: "h23",
    year: "numeric",
    month: "numeric",
    day: "numeric",
    hour: "numeric",
    minute: "numeric",
    second: "numeric",
  });
  return (at) => {
    const parts = new Map(format.formatToParts(at).map(({ type, value }) => [type, Number(value)]));
    const of = (type: Intl.DateTimeFormatPartTypes): number => parts.get(type) ?? 0;
    return Date.UTC(of("year"), of("month") - 1, of("day"), of("hour"), of("minute"), of("second"));
  };
};

/**
 * The first instant of a day, which is given as its midnight in UTC. If clocks skip midnight it is the instant of the
 * change; if they show midnight twice, the first time. Undefined if clocks skipped the whole day.
 */
const startOf = (day: number, localTime: LocalTime): number | undefined =>
  // The offsets of the day before and of the day after: at most one change lies between them.
  [...new Set([day - dayMs, day + dayMs].map((near) => day - (localTime(near) - near)))]
    .filter((at) => Math.floor(localTime(at) / dayMs) === day / dayMs)
    .toSorted((a, b) => a - b)[0];

/**
 * The calendar days of a time zone, up to the day of the given instant.
 *
 * @throws {RangeError} there is no such time zone.
 */
export const daysOf = (timeZone: string, count: number, at: number): Day[] => {
  let localTime: LocalTime;
  try {
    localTime = localTimeIn(timeZone);
  } catch {
    throw new RangeError(`Expected \`timeZone\` to be a name such as "Europe/Berlin", got ${JSON.stringify(timeZone)}`);
  }
  const last = Math.floor(localTime(at) / dayMs) * dayMs;
  const starts = Array.from({ length: count + 1 }, (_, index) => last + (index + 1 - count) * dayMs).flatMap((day) => {
    const startAt = startOf(day, localTime);
    return startAt === undefined ? [] : [{ date: new Date(day).toISOString().slice(0, 10), startAt }];
  });
  return starts
    .slice(0, -1)
    .map((day, index) => ({ ...day, endAt: starts[index + 1]?.startAt ?? day.startAt + dayMs }));
};
