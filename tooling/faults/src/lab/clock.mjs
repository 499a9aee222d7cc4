/**
 * Milliseconds since the epoch, counted by the machine's monotonic clock: what processes and servers of one machine saw
 * can be compared, also by a process whose wall clock is made to jump. `Date.now()` is cut to whole milliseconds, so the
 * largest difference found is the right one; it is found once for a run and handed on to every process of it.
 */
const monotonicMs = () => Number(process.hrtime.bigint()) / 1e6;

const measureOrigin = () => {
  let origin = -Infinity;
  const startedAt = monotonicMs();
  for (let samples = 0; samples < 1_000 || monotonicMs() < startedAt + 3; samples++)
    origin = Math.max(origin, Date.now() - monotonicMs());
  return origin;
};

export const clockOrigin = Number(process.env.KIT_CLOCK_ORIGIN ?? measureOrigin());

export const clock = () => clockOrigin + monotonicMs();
