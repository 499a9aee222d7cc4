import { keyspace } from "../index.js";

/**
 * Every key of `@kit/core/config`. Both keys of an entry share the hash tag `{name}`, so they are in the same slot.
 *
 * | Key                         | Type | Content                                                                   | Life      |
 * | --------------------------- | ---- | ------------------------------------------------------------------------- | --------- |
 * | `kit:config:{name}:entry`   | hash | `layout`, `epoch`, `revision`, `at`, `op`, `author`, `value` (JSON)       | no expiry |
 * | `kit:config:{name}:history` | list | the last `maxHistory` writes, newest first: the fields of `entry`, separated by tabs | no expiry |
 *
 * Each write publishes `epoch:revision:at` on the channel `kit:config:{name}:changed`.
 */
export interface ConfigKeys {
  readonly entry: string;
  readonly history: string;
  /** The channel. */
  readonly changed: string;
}

/** The keys of one entry. */
export const configKeys = (prefix: string, name: string): ConfigKeys => {
  const base = keyspace("config", prefix).base(name);
  return { entry: `${base}entry`, history: `${base}history`, changed: `${base}changed` };
};
