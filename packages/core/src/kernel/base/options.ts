import { prefixRule } from "./keyspace.js";
import { boolean, integer, resolve, type RulesOf, wrong } from "./rules.js";

const dayMs = 86_400_000;

/** How a package attaches to a client. */
export interface AttachOptions {
  /**
   * The start of all keys and channels. Objects with different prefixes share nothing.
   *
   * @default "kit"
   */
  readonly prefix?: string | undefined;
  /**
   * Uses a duplicate of your client, which opens one more connection. kit replaces the duplicate's connection if it goes silent,
   * but never your client's connection. When your client ends, the duplicate ends permanently.
   *
   * @default false
   */
  readonly isolate?: boolean | undefined;
}

/** The client options of every package. */
export interface ClientOptions extends AttachOptions {
  /**
   * The time within which each command settles, in milliseconds: 1 to 86,400,000 (a day). If the event loop was blocked when this
   * time ended, the command gets extra time: another `deadlineMs`, up to one second.
   *
   * @default 2000
   */
  readonly deadlineMs?: number | undefined;
}

export const clientRules = {
  prefix: prefixRule,
  isolate: boolean(false),
  deadlineMs: integer(1, dayMs, 2_000),
} satisfies RulesOf<ClientOptions>;

/** How long `close()` may take. */
export interface CloseOptions {
  /**
   * How long to wait for running work, in milliseconds: 0 to 86,400,000 (a day). After that kit ends the work, which may take one
   * more command.
   *
   * @default 10000
   */
  readonly timeoutMs?: number | undefined;
}

const closeRules = { timeoutMs: integer(0, dayMs, 10_000) } satisfies RulesOf<CloseOptions>;

/**
 * Checks the options passed to `close(options)` and returns the timeout.
 *
 * @throws {TypeError | RangeError} an option is invalid.
 */
export const closeTimeoutMs = (options: CloseOptions): number => resolve("options", options, closeRules).timeoutMs;

/** @throws {TypeError} the value is not a client that kit can use. */
export const assertClient = (name: string, value: unknown): void => {
  const client = value as { call?: unknown; duplicate?: unknown; on?: unknown } | null | undefined;
  if (typeof client?.call !== "function" || typeof client.duplicate !== "function" || typeof client.on !== "function")
    throw wrong(
      name,
      `an ioredis Redis or Cluster, or fromNodeRedis(client)${typeof value === "string" ? ", as the first argument" : ""}`,
      value,
    );
};
