import {
  type RedisLike,
  addressOf,
  asKitError,
  Deadline,
  reading,
  type KitError,
  integerOption,
  type ClientContext,
  withContext,
} from "../kernel/index.js";

/** The state of the server and of kit's connections to it. */
export interface Health {
  /** Whether the server answered in time. */
  readonly ok: boolean;
  /** Why the check failed. Undefined if `ok`. */
  readonly error: KitError | undefined;
  /**
   * The server's address: `host:port` or a socket path. With Sentinels it is the master's address, or the Sentinels' addresses
   * while there is no master.
   */
  readonly address: string;
  /** The client's view of its connection, as an ioredis status. */
  readonly connection: string;
  /** Milliseconds from sending PING to its reply. */
  readonly roundTripMs: number | undefined;
  /** `redis` or `valkey`. Undefined if INFO is not permitted. */
  readonly server: "redis" | "valkey" | undefined;
  /** The server's version. Undefined if INFO is not permitted. */
  readonly version: string | undefined;
  /** `standalone`, `sentinel` or `cluster`: the server's mode from INFO, whatever address you connect to. */
  readonly mode: string | undefined;
  /** Whether pushed messages arrive. Undefined until something has needed them. */
  readonly pushes: "open" | "forbidden" | "down" | undefined;
}

/**
 * Reports on the server and on kit's connections to it. Resolves within `deadlineMs` (2000 by default), even if no server answers.
 *
 * @example
 * const { ok, roundTripMs } = await health(redis);
 */
export const health = async (redis: RedisLike | ClientContext, deadlineMs = 2_000): Promise<Health> => {
  integerOption("deadlineMs", deadlineMs, 1);
  return withContext(redis, (context) => look(context, deadlineMs));
};

const look = async ({ client, executor, inbox }: ClientContext, deadlineMs: number): Promise<Health> => {
  const deadline = Deadline.in(deadlineMs);
  const facts = {
    address: addressOf(client),
    pushes: inbox.state,
    error: undefined,
    roundTripMs: undefined,
    server: undefined,
    version: undefined,
    mode: undefined,
  };
  const startedAt = performance.now();
  try {
    await executor.run("PING", [], reading("PING", deadline));
    const roundTripMs = performance.now() - startedAt;
    const info = await executor.run("INFO", ["server"], reading("INFO", deadline)).then(String, () => "");
    const field = (name: string): string | undefined => new RegExp(`^${name}:(.*?)\\r?$`, "m").exec(info)?.[1];
    const valkey = field("valkey_version");
    return {
      ...facts,
      ok: true,
      connection: client.status,
      roundTripMs,
      server: info === "" ? undefined : valkey ? "valkey" : "redis",
      version: valkey ?? field("redis_version"),
      mode: field("server_mode") ?? field("redis_mode"),
    };
  } catch (failure) {
    return { ...facts, ok: false, error: asKitError(failure, "PING"), connection: client.status };
  }
};
