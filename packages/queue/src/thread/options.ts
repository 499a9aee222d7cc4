import type { RedisLike } from "@kit/core";

/** The options of a client, in a form that can be passed to a thread. */
export interface ThreadOptions {
  readonly [name: string]: unknown;
  /** The options of the nodes of a Cluster. */
  readonly redisOptions?: object;
}

/** A connection does not need these: the thread has its own retries, and uses host names as they are. */
const dropped = /Strategy$|^(?:reconnectOnError|dnsLookup|resolveSrv)$/;

/**
 * The options with which the heartbeat thread connects as the client does. Undefined if only the main loop renews the leases. With "auto",
 * if an option cannot be copied, returns the error that the worker emits.
 *
 * @throws {TypeError} a thread was requested, and an option cannot be copied to it.
 */
export const threadOptions = (redis: RedisLike, how: "auto" | "thread" | "loop"): ThreadOptions | Error | undefined => {
  if (how === "loop") return undefined;
  const { options = {} } = redis as { readonly options?: ThreadOptions };
  try {
    const { redisOptions, ...own } = options;
    return { ...copied(own), ...(redisOptions && { redisOptions: copied(redisOptions) }) };
  } catch (error) {
    if (how === "thread") throw error;
    return error as Error;
  }
};

const copied = (options: object): object =>
  Object.fromEntries(
    Object.entries(options)
      .filter(([name]) => !dropped.test(name))
      .map(([name, value]: [string, unknown]) => {
        try {
          if (name !== "sentinels" || !value) return [name, structuredClone(value)];
        } catch {
          // The error below names the option.
        }
        throw new TypeError(`A thread cannot use the client's \`${name}\`. Set \`heartbeat\` to "loop"`);
      }),
  );
