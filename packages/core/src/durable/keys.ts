/**
 * Every key of `@kit/core/durable`. `{tag}` is `{all}`. On a Cluster it is a hash tag in the slot of your `key`.
 *
 * | Key                              | Type   | Content                                    | Life |
 * | -------------------------------- | ------ | ------------------------------------------ | ---- |
 * | `kit:durable:{tag}:mark`         | string | `1`: written after your writes; WAIT confirms it                    | 10 s |
 * | `kit:durable:{tag}:mark:<token>` | string | a random token, which kit reads on replicas if WAIT is forbidden | 10 s |
 *
 * Of the rest of core, only `@kit/core/config` writes keys. Each client has a channel `kit:inbox:<uuid>`, on which packages receive
 * messages. kit subscribes to it only while a package waits for messages.
 */
export const markKey = (prefix: string, tag: string): string => `${prefix}:durable:{${tag}}:mark`;

/** A mark that is read on the replicas. */
export const tokenKey = (mark: string, token: string): string => `${mark}:${token}`;
