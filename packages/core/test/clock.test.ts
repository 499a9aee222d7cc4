import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ServerClock, lowerBoundMs } from "../src/kernel/context/clock.js";

/** A world with a true server clock: `rate` off by up to half a per cent, in whole milliseconds, and one-way delays. */
interface Step {
  readonly idleMs: number;
  readonly thereMs: number;
  readonly backMs: number;
}

const step = fc.record({
  idleMs: fc.double({ min: 0, max: 60_000, noNaN: true }),
  thereMs: fc.double({ min: 0, max: 2_000, noNaN: true }),
  backMs: fc.double({ min: 0, max: 2_000, noNaN: true }),
});
const rate = fc.double({ min: 0.995, max: 1.005, noNaN: true });
const epoch = fc.integer({ min: 0, max: 2 ** 41 });

const observeAll = (
  clock: ServerClock,
  steps: readonly Step[],
  server: (local: number) => number,
  from = 0,
): number => {
  let now = from;
  for (const { idleMs, thereMs, backMs } of steps) {
    const sentAt = now + idleMs;
    now = sentAt + thereMs + backMs;
    clock.observe(sentAt, Math.floor(server(sentAt + thereMs)), now);
  }
  return now;
};

describe("ServerClock", () => {
  it("knows nothing before the first reply, nor after a reset", () => {
    const clock = new ServerClock();
    expect([clock.earliest(1), clock.serverMsAt(1)]).toEqual([undefined, undefined]);
    clock.observe(0, 1_000, 5);
    expect([clock.earliest(2_000), clock.serverMsAt(1)]).toEqual([988, 1_001]);
    clock.reset();
    expect([clock.earliest(1), clock.serverMsAt(1)]).toEqual([undefined, undefined]);
  });

  it("never gives a bound later than the truth, whatever the delays and within the drift", () => {
    fc.assert(
      fc.property(
        rate,
        epoch,
        fc.array(step, { minLength: 1, maxLength: 20 }),
        fc.integer({ min: -60_000, max: 600_000 }),
        (speed, origin, steps, ahead) => {
          const clock = new ServerClock();
          const server = (local: number): number => origin + local * speed;
          const now = observeAll(clock, steps, server);
          const instant = Math.round(server(now)) + ahead;
          const truth = (instant - origin) / speed;
          expect(clock.earliest(instant)).toBeLessThanOrEqual(truth);
        },
      ),
      { numRuns: 3_000 },
    );
  });

  it("is no worse than its best reply, less drift and rounding", () => {
    fc.assert(
      fc.property(
        rate,
        fc.array(step, { minLength: 1, maxLength: 20 }),
        fc.integer({ min: 0, max: 60_000 }),
        (speed, steps, ahead) => {
          const clock = new ServerClock();
          const server = (local: number): number => local * speed;
          const now = observeAll(clock, steps, server);
          const instant = Math.round(server(now)) + ahead;
          const last = steps[steps.length - 1]!;
          const slack = last.thereMs + last.backMs + 0.02 * (ahead + last.backMs) + 5;
          expect(instant / speed - clock.earliest(instant)!).toBeLessThanOrEqual(slack);
        },
      ),
      { numRuns: 2_000 },
    );
  });

  it("stays sound after somebody set the server's clock, from the next reply on", () => {
    fc.assert(
      fc.property(
        rate,
        fc.array(step, { minLength: 1, maxLength: 8 }),
        fc.integer({ min: -3_600_000, max: 3_600_000 }),
        fc.array(step, { minLength: 1, maxLength: 8 }),
        fc.integer({ min: 0, max: 60_000 }),
        (speed, before, jump, after, ahead) => {
          const clock = new ServerClock();
          const origin = 2 ** 40;
          const atJump = observeAll(clock, before, (local) => origin + local * speed);
          const server = (local: number): number => origin + jump + local * speed;
          const now = observeAll(clock, after, server, atJump);
          const instant = Math.round(server(now)) + ahead;
          const truth = now + (instant - server(now)) / speed;
          // A forward step smaller than one reply's way (and a millisecond's rounding) is hidden in that way.
          const hidden = 1 + Math.max(...after.map(({ thereMs, backMs }) => thereMs + backMs));
          expect(clock.earliest(instant)!).toBeLessThanOrEqual(truth + hidden);
        },
      ),
      { numRuns: 3_000 },
    );
  });

  it("prefers the reply with the shortest way until drift has eaten its lead", () => {
    const clock = new ServerClock();
    clock.observe(0, 10_000, 1);
    clock.observe(50, 10_050 + 40, 200);
    expect(clock.earliest(11_000)).toBe(lowerBoundMs(1_000));
    clock.observe(60_000, 70_040, 60_100);
    expect(clock.earliest(71_000)).toBe(60_000 + lowerBoundMs(960));
  });
});

describe("a lower bound", () => {
  it("makes spans shorter and the past longer ago", () => {
    expect([lowerBoundMs(10_000), lowerBoundMs(0), lowerBoundMs(-10_000)]).toEqual([9_898, -2, -10_102]);
  });
});
