import { patience } from "./patience.js";

/** How long and how often `eventually` runs its check. */
export interface EventuallyOptions {
  /**
   * How long to keep trying, in milliseconds, times `KIT_TESTING_PATIENCE`. A longer time costs only a failing test.
   *
   * @default 5000
   */
  readonly timeoutMs?: number;
  /**
   * The pause between two runs of the check, in milliseconds.
   * @default a tenth of the time that has passed; at least 10, at most 50
   */
  readonly intervalMs?: number;
}

/** Many concurrent waits would otherwise take the time of the work that they wait for. */
const shortestPauseMs = 10;
const longestPauseMs = 50;

/**
 * Runs `check` until it neither throws nor rejects, and returns its result.
 *
 * Use it instead of a fixed sleep, for a condition that becomes true later. It also gives up on a check that hangs, at
 * `timeoutMs`, but cannot stop the check.
 *
 * @throws {Error} `timeoutMs` passed; `cause` is the last failure of the check.
 *
 * @example
 * await eventually(async () => assert.equal(await redis.llen("jobs"), 0));
 */
export async function eventually<T>(check: () => T | Promise<T>, options: EventuallyOptions = {}): Promise<T> {
  const { intervalMs } = options;
  const timeoutMs = (options.timeoutMs ?? 5_000) * patience();
  const startedAt = performance.now();
  const passed = () => performance.now() - startedAt;
  const remaining = () => timeoutMs - passed();
  let tries = 0;
  let last: unknown;
  for (;;) {
    tries += 1;
    try {
      return await within(Math.max(0, remaining()), check);
    } catch (error) {
      // The failure of an earlier run says more than a run that the deadline cut short.
      if (!(error instanceof Unanswered) || last === undefined) last = error;
    }
    if (remaining() <= 0) break;
    const pauseMs = intervalMs ?? Math.min(Math.max(shortestPauseMs, passed() / 10), longestPauseMs);
    await new Promise((resolve) => setTimeout(resolve, Math.min(pauseMs, Math.max(0, remaining()))));
  }
  const reason = last instanceof Error ? last.message : String(last);
  throw new Error(
    `The check did not pass within ${timeoutMs} ms (${tries} ${tries === 1 ? "try" : "tries"}): ${reason}`,
    {
      cause: last,
    },
  );
}

class Unanswered extends Error {
  override readonly name = "Unanswered";
}

async function within<T>(ms: number, check: () => T | Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Unanswered("the check did not finish")), ms);
  });
  try {
    return await Promise.race([check(), deadline]);
  } finally {
    clearTimeout(timer);
  }
}
