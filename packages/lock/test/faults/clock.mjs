/**
 * Milliseconds since the epoch, counted by the monotonic clock: what processes and servers of one machine saw can be
 * compared. The origin that Node gives may be off by tens of milliseconds when the process started on a busy machine, so
 * it is measured: `Date.now()` is cut to whole milliseconds, and the largest difference found is the right one.
 */
const measureOrigin = () => {
  let origin = 0;
  const startedAt = performance.now();
  for (let samples = 0; samples < 1_000 || performance.now() < startedAt + 3; samples++)
    origin = Math.max(origin, Date.now() - performance.now());
  return origin;
};
const origin = measureOrigin();

export const clock = () => origin + performance.now();
