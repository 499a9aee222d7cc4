import { keyspace } from "@kit/core";

/**
 * Every key that this package writes. All keys of one semaphore share the hash tag `{name}`, so they are in one slot. Braces, colons,
 * percent signs and control characters of a name are percent-encoded: `{` is `%7B`. A permit record is
 * `token|weight|tenant|holder`, with the tenant percent-encoded, and empty outside of groups.
 *
 * | Key                            | Type | Content                                                                                             | Life                             |
 * | ------------------------------ | ---- | --------------------------------------------------------------------------------------------------- | -------------------------------- |
 * | `kit:semaphore:{name}:permits` | zset | permit record → the server's millisecond at which its permit ends; the counts, below 0: `#` weights beyond 1, `#tenant` in use; at 0 the tenants' permits: `=tenant permitRecord` | longer than the longest permit   |
 * | `kit:semaphore:{name}:meta`    | hash | `layout`; the limits `permits` and `perTenant`; `evaluating` (until when nothing is granted, since tenants are re-evaluated), `changedAt` (of the limits) | 7 days after the last use        |
 * | `kit:semaphore:{name}:queue`   | zset | the waiters by name: `tenant score permitRecord`; suspended ones, which cannot be notified: `\|aliveUntil permitRecord` | 16 s after the last sign of life |
 * | `kit:semaphore:{name}:ready`   | zset | tenant → score (priority and ticket) of its first waiter, while it fits within its tenant's limit | as the queue                     |
 * | `kit:semaphore:{name}:waiters` | hash | permit record → `aliveUntil watched score grantMs inbox`; `#` → the last ticket                      | as the queue                     |
 *
 * The channel `kit:inbox:<uuid>` belongs to core. Each client has one channel, which notifies its waiters. If someone edited the
 * numbers (`KIT_LAYOUT`), delete the key `…:meta`: the next acquire or heartbeat stores its object's limits.
 */
export interface SemaphoreKeys {
  readonly permits: string;
  readonly meta: string;
  readonly queue: string;
  readonly ready: string;
  readonly waiters: string;
}

/** The keys of one semaphore. */
export const semaphoreKeys = (prefix: string, name: string): SemaphoreKeys => {
  const head = keyspace("semaphore", prefix).base(name);
  return {
    permits: `${head}permits`,
    meta: `${head}meta`,
    queue: `${head}queue`,
    ready: `${head}ready`,
    waiters: `${head}waiters`,
  };
};
