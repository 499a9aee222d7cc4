import { keyspace } from "@kit/core";

/**
 * Every key that this package writes. All of one semaphore share the hash tag `{name}`, so one slot.
 *
 * A claim is `token|weight|tenant|holder`, the tenant percent-encoded and empty where there are none.
 *
 * | Key                           | Type | Content                                                                    | Life                             |
 * | ----------------------------- | ---- | -------------------------------------------------------------------------- | -------------------------------- |
 * | `kit:semaphore:{name}:permits`| zset | claim → the server's ms at which its permit ends                           | longer than the longest permit   |
 * | `kit:semaphore:{name}:meta`   | hash | `layout`, `permits`, `perTenant`; `extra` (weights beyond 1), `u:<tenant>` (in use), `seating` (no grants until then) | 7 days after the last acquire |
 * | `kit:semaphore:{name}:line`   | zset | the waiters: `tenant score claim`; set aside, as nothing reaches them: `\|aliveUntil claim` | 16 s after the last sign of life |
 * | `kit:semaphore:{name}:heads`  | zset | tenant → score of its first waiter, if its tenant has room for that        | as the line                      |
 * | `kit:semaphore:{name}:waiters`| hash | claim → `aliveUntil watched score grantMs inbox`; `#` → last ticket        | as the line                      |
 *
 * The channel `kit:inbox:<uuid>` belongs to core: one per client, for what is pushed to its waiters.
 */
export interface SemaphoreKeys {
  readonly permits: string;
  readonly meta: string;
  readonly line: string;
  readonly heads: string;
  readonly waiters: string;
}

/** The keys of one semaphore. */
export const semaphoreKeys = (prefix: string, name: string): SemaphoreKeys => {
  const head = keyspace("semaphore", prefix).base(name);
  return {
    permits: `${head}permits`,
    meta: `${head}meta`,
    line: `${head}line`,
    heads: `${head}heads`,
    waiters: `${head}waiters`,
  };
};
