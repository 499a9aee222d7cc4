import { expect, vi } from "vitest";

/**
 * How long something took, how much of that this process was awake, and what came of it. To say that it took no less than
 * its time, hand over what begins it: the process may sleep between its beginning and the clock's.
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
 * The most that something may take which is done at once, as a test judges it: many times what it takes on a machine that
 * is busy with others, and less than the 3.5 seconds after which a waiter first asks by itself.
 */
export const promptMs = 3_000;

/**
 * Repeats `round` until it resolves to less than `ms`. For a promise of time that only its own order of magnitude tells
 * from a fault: the best round judges it, since what the others take longer is the machine's.
 */
export const atBest = async (ms: number, round: () => Promise<number>): Promise<void> => {
  await vi.waitFor(async () => expect(await round()).toBeLessThan(ms), { timeout: 20_000, interval: 1 });
};

/** Waits until each lease was renewed twice more by itself; how many renewals of a lease these were in all, at least. */
export const renewedTwice = async (leases: readonly { readonly remainingMs: number }[]): Promise<number> => {
  const seen = leases.map(({ remainingMs }) => ({ remainingMs, renewals: 0 }));
  await vi.waitFor(
    () => {
      for (const [index, { remainingMs }] of leases.entries()) {
        const last = seen[index]!;
        // The remaining time grows only by a renewal.
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
 * Cuts the server off just after a renewal of all leases, and before the next one is due: nothing moves the ends that
 * were read. Otherwise it mends the link, and begins again. Instants of `clock()`: since when all were renewed, and before
 * which the server can end none of them.
 */
export const cutOffRenewed = async <L extends Renewable>(
  leases: readonly L[],
  msLeft: (lease: L) => Promise<number>,
  link: { readonly cut: () => void; readonly mend: () => void },
): Promise<{ readonly renewedAt: number; readonly ends: readonly number[] }> => {
  const shortest = Math.min(...leases.map(({ leaseMs }) => leaseMs));
  for (;;) {
    const renewedAt = clock();
    // After a link that was mended, the first may fail.
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

/** How late timers of this process fire: on a busy machine not even the best of them is on time. */
export const watchStalls = (): { end(): { readonly worst: number; readonly sum: number } } => {
  const everyMs = 2;
  let worst = 0;
  let sum = 0;
  let last = performance.now();
  const look = (): void => {
    const now = performance.now();
    const late = now - last - everyMs;
    worst = Math.max(worst, late);
    // A millisecond or two are ordinary.
    if (late > 2 * everyMs) sum += late;
    last = now;
  };
  const timer = setInterval(look, everyMs);
  return {
    end: () => {
      clearInterval(timer);
      look();
      return { worst, sum };
    },
  };
};

/** Milliseconds of a clock that is neither ours nor the server's. */
export const clock = (): number => Number(process.hrtime.bigint()) / 1e6;
