import { keyspace } from "@kit/core";

/**
 * Every key that this package writes. All keys of one lock share the hash tag `{name}`, so they are in one slot. Braces, colons,
 * percent signs and control characters of a name are percent-encoded: `{` is `%7B`.
 *
 * | Key                       | Type   | Content                                                                                   | Life                             |
 * | ------------------------- | ------ | ----------------------------------------------------------------------------------------- | -------------------------------- |
 * | `kit:lock:{name}:lease`   | string | `token\|holder`; `\|holder` after a release before `minHoldMs`                               | the lease, and `lockDelayMs`     |
 * | `kit:lock:{name}:fence`   | string | `1:` (the layout), the last fencing token, `:` and the id of the call that handed the lock on | 7 days after the last grant; `keepMs` after a release |
 * | `kit:lock:{name}:queue`   | zset   | waiter's token → ticket                                                                   | 16 s after the last heartbeat    |
 * | `kit:lock:{name}:waiters` | hash   | waiter's token → `aliveUntil watched grantMs inbox holder`; `#` → the last ticket          | as the queue                     |
 * | `kit:lock:{name}:rw-leases`  | zset   | of a read/write lock: `mode\|token\|holder` → server ms at which the lease ends; mode is `r` or `w`             | longer than the longest lease |
 * | `kit:lock:{name}:rw-fence`   | string | `1:` (the layout) and the last fencing token; 0 if there was no writer                    | 7 days after the last grant to a writer; `keepMs` after the last release |
 * | `kit:lock:{name}:rw-queue`   | zset   | waiter's `mode\|token\|holder` → ticket                                                    | 16 s after the last heartbeat    |
 * | `kit:lock:{name}:rw-waiters` | hash   | waiter's `mode\|token\|holder` → `aliveUntil watched grantMs inbox asked`; `#` → the last ticket | as the queue                     |
 * | `kit:lock:{name}:quorum`  | string | of a quorum lock, on each of its servers: `token\|holder` | the lease |
 * | `name`, `mutex:name` …     | string | of a compatible lock: the holder's token. The key is `keyPrefix` plus the name, not encoded | the lease                        |
 *
 * The channel `kit:inbox:<uuid>` belongs to core. Each client has one channel, which notifies its waiters. If someone edited the fencing
 * token (`KIT_LAYOUT`), delete the key `…:fence`. The tokens then continue from the server's clock.
 */
export interface LockKeys {
  readonly lease: string;
  readonly fence: string;
  readonly queue: string;
  readonly waiters: string;
}

/** The keys of a read/write lock. They differ from the keys of a lock with the same name. */
export interface ReadWriteKeys {
  readonly leases: string;
  readonly fence: string;
  readonly queue: string;
  readonly waiters: string;
}

const mostKnown = 4_096;

/** Builds keys by name. They are cached, because most callers use few names. */
const cached =
  <Keys>(build: (head: string) => Keys) =>
  (prefix: string): ((name: string) => Keys) => {
    const { base } = keyspace("lock", prefix);
    const known = new Map<string, Keys>();
    return (name) => {
      let keys = known.get(name);
      if (!keys) {
        keys = build(base(name));
        if (known.size >= mostKnown) known.clear();
        known.set(name, keys);
      }
      return keys;
    };
  };

/** The keys of a lock. */
export const lockKeys: (prefix: string) => (name: string) => LockKeys = /* @__PURE__ */ cached((head) => ({
  lease: `${head}lease`,
  fence: `${head}fence`,
  queue: `${head}queue`,
  waiters: `${head}waiters`,
}));

/** The keys of a read/write lock. */
export const readWriteKeys: (prefix: string) => (name: string) => ReadWriteKeys = /* @__PURE__ */ cached((head) => ({
  leases: `${head}rw-leases`,
  fence: `${head}rw-fence`,
  queue: `${head}rw-queue`,
  waiters: `${head}rw-waiters`,
}));

/** The key of a quorum lock, the same on each of its servers. */
export const quorumKey: (prefix: string) => (name: string) => string = /* @__PURE__ */ cached(
  (head) => `${head}quorum`,
);
