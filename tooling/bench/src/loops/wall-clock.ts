/**
 * Shifts this process's wall clock, for code that uses `Date` or `performance.timeOrigin`. The monotonic clock, by
 * which the figures are measured, stays.
 */
export const shiftWallClock = (byMs: number): void => {
  const RealDate = Date;
  const now = (): number => RealDate.now() + byMs;
  globalThis.Date = new Proxy(RealDate, {
    apply: () => new RealDate(now()).toString(),
    construct: (_target, args: []) => (args.length === 0 ? new RealDate(now()) : new RealDate(...args)),
    get: (target, property, receiver) =>
      property === "now" ? now : (Reflect.get(target, property, receiver) as unknown),
  });
  Object.defineProperty(performance, "timeOrigin", { value: performance.timeOrigin + byMs });
};
