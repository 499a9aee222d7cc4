import { Deadline } from "./deadline.js";
import { integer, resolve, type RulesOf, signal as signalRule } from "./rules.js";
import { type Limit, settled } from "./settle.js";

/** How long to retry, and how long to wait between tries. */
export interface RetryOptions {
  /**
   * The time after which no new try starts, in milliseconds from the call. The call then rejects with the last error.
   *
   * @default 2000
   */
  readonly waitMs?: number | undefined;
  /**
   * The maximum wait before the second try, in milliseconds. The maximum doubles with each further try.
   *
   * @default 5
   */
  readonly baseMs?: number | undefined;
  /**
   * The upper limit of every wait, in milliseconds.
   *
   * @default 200
   */
  readonly capMs?: number | undefined;
  /** Ends the wait between two tries: the call rejects with `signal.reason`. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * A random wait before try number `attempt`, in milliseconds; the lowest is 2. This is "full jitter": uniform between 0 and
 * `baseMs · 2^(attempt−2)`, capped. Contenders that spread out like this need fewer tries in total than with any fixed step (M.
 * Brooker, "Exponential Backoff and Jitter", AWS Architecture Blog, 2015).
 */
export const backoffMs = (attempt: number, baseMs: number, capMs: number): number =>
  // 2 ** 30 ends the growth long before the product could become infinite.
  Math.random() * Math.min(capMs, baseMs * 2 ** Math.min(attempt - 2, 30));

/** Resolves after `ms`. Rejects with the reason of the first signal that aborts, and clears its timer. */
export const pause = (ms: number, signal?: Limit["signal"]): Promise<void> =>
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
 * Calls `attempt` until it resolves. Waits between tries are random. Their maximum doubles with each try, up to `capMs`.
 *
 * `again(error)` decides whether to retry; by default, if `error.retryable` is true. A running try is never interrupted. If the
 * reply to a change is lost, the change is repeated only if it is idempotent. To make it idempotent, create its id outside
 * `attempt`. Otherwise the call rejects with the KitUnknownOutcomeError of that try.
 *
 * @throws the error of the last try; `signal.reason` if `signal` aborts while waiting.
 * @throws {TypeError | RangeError} an option is invalid.
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
