import { keyspace } from "@kit/core";

/**
 * Every key that this package writes. All of one semaphore share the hash tag `{name}`, so one slot.
 *
 * A permit record is `token|weight|tenant|holder`, the tenant percent-encoded and empty where there are none.
 *
 * | Key                           | Type | Content                                                                    | Life                             |
 * | ----------------------------- | ---- | -------------------------------------------------------------------------- | -------------------------------- |
 * | `kit:semaphore:{name}:permits`| zset | permit record → the server's ms at which its permit ends                           | longer than the longest permit   |
 * | `kit:semaphore:{name}:meta`   | hash | `layout`, `permits`, `perTenant`; `extra` (weights beyond 1), `u:<tenant>` (in use), `evaluating` (no grants until then), `changedAt` (of the limits) | 7 days after the last acquire |
 * | `kit:semaphore:{name}:queue`   | zset | the waiters: `tenant score permitRecord`; suspended, as nothing reaches them: `\|aliveUntil permitRecord` | 16 s after the last sign of life |
 * | `kit:semaphore:{name}:ready`  | zset | tenant → score of its first waiter, if its tenant has room for that        | as the queue                      |
 * | `kit:semaphore:{name}:waiters`| hash | permit record → `aliveUntil watched score grantMs inbox`; `#` → last ticket        | as the queue                      |
 *
 * The channel `kit:inbox:<uuid>` belongs to core: one per client, for what is pushed to its waiters.
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
