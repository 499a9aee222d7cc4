import type { ChainableCommander, Redis } from "ioredis";

/** The decision of one attempt of {@link watchLoop} after its reads. */
export interface WatchAttempt<T> {
  /** The value that the loop resolves to once this attempt is committed. */
  readonly value: T;
  /** The writes, queued by `redis.multi()` and not yet sent. Absent: nothing to write, `UNWATCH` and stop. */
  readonly transaction?: ChainableCommander;
}

/** The outcome of a {@link watchLoop}. `retries` counts the `EXEC`s that another client's write aborted. */
export type WatchOutcome<T> =
  | { readonly done: true; readonly value: T; readonly retries: number }
  | { readonly done: false; readonly retries: number };

/**
 * "Redis in Action", chapter 4: runs `WATCH`, the reads of `attempt`, then `MULTI … EXEC`. Repeats that until an `EXEC`
 * succeeds or `timeoutMs` has passed.
 *
 * Needs a dedicated connection: the state of `WATCH` belongs to the connection, and any other `EXEC` on it clears it.
 *
 * Known faults: after a conflict the next attempt starts at once, without back-off or jitter, so that attempts per commit
 * grow with the number of contenders; after the time limit the work is dropped.
 */
export async function watchLoop<T>(
  redis: Redis,
  keys: readonly string[],
  attempt: () => Promise<WatchAttempt<T>>,
  timeoutMs = 5_000,
): Promise<WatchOutcome<T>> {
  const end = Date.now() + timeoutMs;
  let retries = 0;
  while (Date.now() < end) {
    await redis.watch(...keys);
    const { value, transaction } = await attempt();
    if (transaction === undefined) {
      await redis.unwatch();
      return { done: true, value, retries };
    }
    if ((await execute(transaction)) !== null) return { done: true, value, retries };
    retries += 1;
  }
  return { done: false, retries };
}

/** Sends queued commands. Resolves to the replies, or to null when a watched key changed. The first error rejects. */
export async function execute(commands: ChainableCommander): Promise<unknown[] | null> {
  const replies = await commands.exec();
  if (replies === null) return null;
  return replies.map(([error, reply]) => {
    if (error !== null) throw error;
    return reply;
  });
}
