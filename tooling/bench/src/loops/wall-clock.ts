/**
 * Puts this process's wall clock off by so much, for all that tells the time by `Date` or by what `performance` says it
 * began at. The monotonic clock, by which the figures are taken, stays.
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
