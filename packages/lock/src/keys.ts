import { keyspace } from "@kit/core";

/**
 * Every key that this package writes. All keys of one lock share the hash tag `{name}`, so they lie in one slot. Braces, colons,
 * percent signs and control characters of a name are percent-encoded: `{` is `%7B`.
 *
 * | Key                       | Type   | Content                                                                                   | Life                             |
 * | ------------------------- | ------ | ----------------------------------------------------------------------------------------- | -------------------------------- |
 * | `kit:lock:{name}:lease`   | string | `token\|holder`                                                                           | the lease                        |
 * | `kit:lock:{name}:fence`   | string | `1:` (the layout), the last fencing token, `:` and the call that handed the lock on       | 7 days after the last grant      |
 * | `kit:lock:{name}:queue`   | zset   | waiter's token → ticket                                                                   | 16 s after the last sign of life |
 * | `kit:lock:{name}:waiters` | hash   | waiter's token → `aliveUntil watched grantMs inbox holder`; `#` → the last ticket          | as the queue                     |
 *
 * The channel `kit:inbox:<uuid>` belongs to core: each client has one, on which its waiters are notified. If somebody changed the
 * fencing token by hand (`KIT_LAYOUT`), delete the key `…:fence`: the tokens then continue from the clock.
 */
export interface LockKeys {
  readonly lease: string;
  readonly fence: string;
  readonly queue: string;
  readonly waiters: string;
}

const mostKnown = 4_096;

/** Builds the keys of a lock by its name; caches them, since most callers use few names. */
export const lockKeys = (prefix: string): ((name: string) => LockKeys) => {
  const { base } = keyspace("lock", prefix);
  const known = new Map<string, LockKeys>();
  return (name) => {
    let keys = known.get(name);
    if (!keys) {
      const head = base(name);
      keys = { lease: `${head}lease`, fence: `${head}fence`, queue: `${head}queue`, waiters: `${head}waiters` };
      if (known.size >= mostKnown) known.clear();
      known.set(name, keys);
    }
    return keys;
  };
};
