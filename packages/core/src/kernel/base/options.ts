import { prefixRule } from "./keyspace.js";
import { boolean, integer, resolve, type Resolved, type RulesOf, wrong } from "./rules.js";

const dayMs = 86_400_000;

/** How a package attaches to a client. */
export interface AttachOptions {
  /**
   * The beginning of all keys and channels. Objects with different prefixes share nothing.
   *
   * @default "kit"
   */
  readonly prefix?: string | undefined;
  /**
   * Works on a duplicate of the client instead of the client itself. That costs a connection; in return a connection that
   * goes silent is replaced, which core never does to the caller's own client. The duplicate ends for good when the client
   * is ended.
   *
   * @default false
   */
  readonly isolate?: boolean | undefined;
}

/** How an object works on its client: the options that every package has. */
export interface ClientOptions extends AttachOptions {
  /**
   * Every single command settles within this many milliseconds, whatever the network does: 1 to 86,400,000 (a day). If
   * the event loop stands still at that instant, the command has up to the same time again when it turns, at most a second.
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

export type ClientSettings = Resolved<typeof clientRules>;

/** How long `close()` may take. */
export interface CloseOptions {
  /**
   * How long to wait for what is under way, in milliseconds: 0 to 86,400,000 (a day). Then it is ended, which may take one
   * more command.
   *
   * @default 10000
   */
  readonly timeoutMs?: number | undefined;
}

const closeRules = { timeoutMs: integer(0, dayMs, 10_000) } satisfies RulesOf<CloseOptions>;

/**
 * The options given to `close(options)`.
 *
 * @throws {TypeError | RangeError} it is not what it should be.
 */
export const closeTimeoutMs = (options: CloseOptions): number => resolve("options", options, closeRules).timeoutMs;

/** @throws {TypeError} it is not a client that kit can use. */
export const assertClient = (name: string, value: unknown): void => {
  const client = value as { call?: unknown; duplicate?: unknown; on?: unknown } | null | undefined;
  if (typeof client?.call !== "function" || typeof client.duplicate !== "function" || typeof client.on !== "function")
    throw wrong(
      name,
      `an ioredis Redis or Cluster, or fromNodeRedis(client)${typeof value === "string" ? ", as the first argument" : ""}`,
      value,
    );
};
