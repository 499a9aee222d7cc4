import { expect, vi } from "vitest";

/**
 * Measures how long `work` took, how much of that time this process was awake, and its result. To show that it took at
 * least some time, pass the function that begins it, since the process may sleep before the clock starts.
 */
export const timed = async <T>(
  work: Promise<T> | (() => Promise<T>),
): Promise<{ readonly ms: number; readonly awakeMs: number; readonly value: T }> => {
  const startedAt = performance.now();
  const stalls = watchStalls();
  const value = await (typeof work === "function" ? work() : work);
  const ms = performance.now() - startedAt;
  return { ms, awakeMs: ms - stalls.end().sum, value };
};

/**
 * The bound, in milliseconds, for an action that must happen at once. It is many times what the action takes on a busy
 * machine, and less than the 3.5 seconds after which a waiter first polls by itself.
 */
export const promptMs = 3_000;

/**
 * Repeats `round` until it resolves to less than `ms`. For time bounds that a fault exceeds by an order of magnitude: the
 * best round decides, since other rounds are longer only because of the machine.
 */
export const atBest = async (ms: number, round: () => Promise<number>): Promise<void> => {
  await vi.waitFor(async () => expect(await round()).toBeLessThan(ms), { timeout: 20_000, interval: 1 });
};

/** Waits until each lease was renewed twice more by itself. Resolves with the least number of renewals of a lease. */
export const renewedTwice = async (leases: readonly { readonly remainingMs: number }[]): Promise<number> => {
  const seen = leases.map(({ remainingMs }) => ({ remainingMs, renewals: 0 }));
  await vi.waitFor(
    () => {
      for (const [index, { remainingMs }] of leases.entries()) {
        const last = seen[index]!;
        // Only a renewal makes the remaining time grow.
        if (remainingMs > last.remainingMs) last.renewals++;
        last.remainingMs = remainingMs;
      }
      expect(Math.min(...seen.map(({ renewals }) => renewals))).toBeGreaterThanOrEqual(2);
    },
    { timeout: 20_000, interval: 10 },
  );
  return seen.reduce((sum, { renewals }) => sum + renewals, 0);
};

interface Renewable {
  readonly leaseMs: number;
  extend(): Promise<unknown>;
}

/**
 * Cuts the server off after a renewal of all leases and before the next renewal is due, so that the ends of the leases
 * stay. If that took too long, it restores the link and starts again. Resolves with instants of `clock()`: one since which
 * all leases were renewed, and for each lease one before which the server cannot end it.
 */
export const cutOffRenewed = async <L extends Renewable>(
  leases: readonly L[],
  msLeft: (lease: L) => Promise<number>,
  link: { readonly cut: () => void; readonly mend: () => void },
): Promise<{ readonly renewedAt: number; readonly ends: readonly number[] }> => {
  const shortest = Math.min(...leases.map(({ leaseMs }) => leaseMs));
  for (;;) {
    const renewedAt = clock();
    // The first call after the link is restored may fail.
    await vi.waitFor(() => Promise.all(leases.map((lease) => lease.extend())), { timeout: 20_000, interval: 1 });
    const askedAt = clock();
    const ends = (await Promise.all(leases.map(msLeft))).map((ms) => askedAt + ms);
    link.cut();
    if (clock() - renewedAt < shortest / 4) return { renewedAt, ends };
    link.mend();
  }
};

/** Keeps the event loop busy, as a long computation would. */
export const block = (ms: number): void => {
  const until = performance.now() + ms;
  while (performance.now() < until);
};

/** Measures how late timers of this process fire, since on a busy machine none is on time. */
export const watchStalls = (): { end(): { readonly sum: number } } => {
  const everyMs = 2;
  let sum = 0;
  let last = performance.now();
  const look = (): void => {
    const now = performance.now();
    const late = now - last - everyMs;
    // A millisecond or two are normal.
    if (late > 2 * everyMs) sum += late;
    last = now;
  };
  const timer = setInterval(look, everyMs);
  return {
    end: () => {
      clearInterval(timer);
      look();
      return { sum };
    },
  };
};

/** Milliseconds of a clock that neither our code nor the server uses. */
export const clock = (): number => Number(process.hrtime.bigint()) / 1e6;
