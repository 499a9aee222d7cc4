import { Deadline } from "./deadline.js";
import { integer, resolve, type RulesOf, signal as signalRule } from "./rules.js";
import { settled } from "./settle.js";

/** How long to go on, and how far apart the tries are. */
export interface RetryOptions {
  /**
   * No try begins later than this many milliseconds after the call. The last error is then the result.
   *
   * @default 2000
   */
  readonly waitMs?: number | undefined;
  /**
   * The longest wait before the second try, in milliseconds; each further one may be twice as long.
   *
   * @default 5
   */
  readonly baseMs?: number | undefined;
  /**
   * No wait is longer than this many milliseconds.
   *
   * @default 200
   */
  readonly capMs?: number | undefined;
  /** Ends the wait between two tries; the promise rejects with `signal.reason`. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * A random wait before try number `attempt` (counted from 2 on): "full jitter", uniform between nothing and
 * `baseMs · 2^(attempt−2)`, capped. Spread out like this, contenders do fewer tries in total than with any fixed step
 * (M. Brooker, "Exponential Backoff and Jitter", AWS Architecture Blog, 2015).
 */
export const backoffMs = (attempt: number, baseMs: number, capMs: number): number =>
  // 2 ** 30 ends the growth long before the product could become infinite.
  Math.random() * Math.min(capMs, baseMs * 2 ** Math.min(attempt - 2, 30));

/** Resolves after `ms`; rejects with `signal.reason` as soon as `signal` aborts, and leaves no timer behind. */
export const pause = (ms: number, signal?: AbortSignal): Promise<void> =>
  settled<void>(
    { signal },
    () => undefined,
    ({ resolve }) => {
      const timer = setTimeout(resolve, ms);
      return () => clearTimeout(timer);
    },
  );

const retryRules = {
  waitMs: integer(0, undefined, 2_000),
  baseMs: integer(1, undefined, 5),
  capMs: integer(1, undefined, 200),
  signal: signalRule,
} satisfies RulesOf<RetryOptions>;

/**
 * Calls `attempt` until it resolves, with jittered waits that double up to a cap.
 *
 * `again(error)` decides whether another try is made; by default when `error.retryable` is true. A try that is under way is
 * never cut short. A change whose reply is lost is only repeated if it has one effect however often it is made: make its id before,
 * outside of `attempt`. Without one, the KitUnknownOutcomeError of that try is the result.
 *
 * @throws the error of the last try; `signal.reason` if `signal` aborts while waiting.
 * @throws {TypeError | RangeError} an option is not what it should be.
 *
 * @example
 * const op = randomUUID();
 * await retry(() => config.set({ limit: 20 }, { op }), { waitMs: 10_000 });
 */
export const retry = async <T>(
  attempt: (number: number) => Promise<T>,
  options: RetryOptions = {},
  again: (error: unknown) => boolean = isRetryable,
): Promise<T> => {
  const { waitMs, baseMs, capMs, signal } = resolve("options", options, retryRules);
  const deadline = Deadline.in(waitMs);
  signal?.throwIfAborted();
  for (let number = 1; ; number++)
    try {
      return await attempt(number);
    } catch (error) {
      const wait = backoffMs(number + 1, baseMs, capMs);
      if (!again(error) || wait >= deadline.remainingMs) throw error;
      await pause(wait, signal);
    }
};

const isRetryable = (error: unknown): boolean =>
  typeof error === "object" && error !== null && (error as { retryable?: unknown }).retryable === true;
