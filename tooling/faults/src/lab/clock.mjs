/**
 * Milliseconds since the epoch, counted by the machine's monotonic clock. Instants of all processes and servers of one
 * machine are comparable, even in a process whose wall clock jumps.
 *
 * `Date.now()` is cut to whole milliseconds, so the largest difference found is the right one. It is determined once for
 * a run and passed to all its processes.
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
