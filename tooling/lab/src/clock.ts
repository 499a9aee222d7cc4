/**
 * Milliseconds on the machine's monotonic clock, which all processes share: instants of one process may be compared
 * with those of another, even if its wall clock jumps.
 */
export const now = (): number => Number(process.hrtime.bigint()) / 1e6;

/** `Date.now()` is cut to whole milliseconds, so the largest difference found is the right one. */
const measureOrigin = (): number => {
  let origin = -Infinity;
  const startedAt = now();
  for (let samples = 0; samples < 1_000 || now() < startedAt + 3; samples++)
    origin = Math.max(origin, Date.now() - now());
  return origin;
};

/** The epoch's distance to `now()`. It is determined once for a run and passed to all its processes. */
export const clockOrigin: number = Number(process.env["KIT_CLOCK_ORIGIN"] ?? measureOrigin());

/** Milliseconds since the epoch, counted by the monotonic clock: comparable with instants of servers of this machine. */
export const clock = (): number => clockOrigin + now();
