/**
 * Every key of `@kit/core/durable`. The tag is `all`; on a Cluster it is a tag in the same slot as the caller's key.
 *
 * | Key                              | Type   | Content                                    | Life |
 * | -------------------------------- | ------ | ------------------------------------------ | ---- |
 * | `kit:durable:{tag}:mark`         | string | `1`: the last write of a connection        | 10 s |
 * | `kit:durable:{tag}:mark:<token>` | string | the token, where WAIT is forbidden         | 10 s |
 *
 * No other entry of core writes a key. Each client has a channel `kit:inbox:<uuid>`, to which packages publish. The channel is
 * subscribed only while a package waits for messages.
 */
export const markKey = (prefix: string, tag: string): string => `${prefix}:durable:{${tag}}:mark`;

/** A mark that is read on the replicas. */
export const tokenKey = (mark: string, token: string): string => `${mark}:${token}`;
