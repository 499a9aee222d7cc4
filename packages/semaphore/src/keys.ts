import { keyspace } from "@kit/core";

/**
 * Every key that this package writes. All keys of one semaphore share the hash tag `{name}`, so they are in one slot. Braces, colons,
 * percent signs and control characters of a name are percent-encoded: `{` is `%7B`. A permit record is
 * `token|weight|tenant|holder`, with the tenant percent-encoded, and empty outside of groups.
 *
 * | Key                            | Type | Content                                                                                             | Life                             |
 * | ------------------------------ | ---- | --------------------------------------------------------------------------------------------------- | -------------------------------- |
 * | `kit:semaphore:{name}:permits` | zset | permit record → server ms at which the permit ends. Counts have negative scores: `#` (all weight above 1 per permit), `#tenant` (the tenant's weight in use). `=tenant permitRecord` → 0, in a group | longer than the longest permit   |
 * | `kit:semaphore:{name}:meta`    | hash | `layout`; the limits `permits` and `perTenant`; `evaluating` (no grants until then: tenants are re-evaluated); `changedAt` (when the limits changed)      | 7 days after the last use        |
 * | `kit:semaphore:{name}:queue`   | zset | the waiters, sorted by text: `tenant score permitRecord`, or `\|aliveUntil permitRecord` for a suspended waiter, which cannot be notified | 16 s after the last heartbeat    |
 * | `kit:semaphore:{name}:ready`   | zset | tenant → score (priority and ticket) of its first waiter, while the tenant's limit has room for it | as the queue                     |
 * | `kit:semaphore:{name}:waiters` | hash | permit record → `aliveUntil watched score grantMs inbox`; `#` → the last ticket                      | as the queue                     |
 *
 * The channel `kit:inbox:<uuid>` belongs to core. Each client has one channel, which notifies its waiters. If someone edited the limits
 * (`KIT_LAYOUT`), delete the key `…:meta`. The next acquire or heartbeat stores the limits of its object.
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
