import { rmSync } from "node:fs";
import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Cluster, ClusterOptions, Redis, RedisOptions } from "ioredis";

import { findServer, type ServerBinary } from "./binary.js";
import { atProcessEnd } from "./cleanup.js";
import { formCluster } from "./cluster.js";
import { PortTakenError, ServerNode, type RedisNode } from "./node.js";
import { freePort, returnPort } from "./ports.js";

/** One server, or a Cluster. */
export type RedisMode = "single" | "cluster";

/** The ioredis client that fits the mode. */
export type RedisClient<M extends RedisMode = RedisMode> = M extends "cluster" ? Cluster : Redis;

/** What kind of server `startRedis` starts. */
export interface StartRedisOptions<M extends RedisMode = RedisMode> {
  /**
   * One server, or a Cluster of masters that covers all slots. A Cluster takes about two seconds to be ready.
   * @default "single"
   */
  readonly mode?: M;
  /**
   * What survives `kill()` and `start()`: nothing; a snapshot after each second with a write; the append-only file,
   * synced each second or before each reply.
   * @default "none"
   */
  readonly persistence?: "none" | "snapshot" | "everysec" | "always";
  /**
   * More arguments for every server process, last, so that they win: `["--maxmemory", "10mb"]`.
   * @default []
   */
  readonly args?: readonly string[];
  /**
   * More environment variables for every server process: `LD_PRELOAD` of a library that lies about the time.
   * @default {}
   */
  readonly env?: Readonly<Record<string, string>>;
  /**
   * Masters of a Cluster, at least 3 (fewer cannot agree on a failure). Not for a single server.
   * @default 3
   */
  readonly masters?: number;
  /** Password of the default user; any process on this machine can see it. No password without it. */
  readonly password?: string;
}

/** A real Redis or Valkey of one's own, on loopback, with a data folder that goes with it. */
export interface RedisServer<M extends RedisMode = RedisMode> extends AsyncDisposable {
  readonly mode: M;
  /** `redis://127.0.0.1:16390`, or `redis+cluster://127.0.0.1:16391,127.0.0.1:16392,127.0.0.1:16393`. */
  readonly url: string;
  /** The server processes: one, or the masters of the Cluster in the order of their slots. */
  readonly nodes: readonly RedisNode[];
  readonly version: { readonly server: "redis" | "valkey"; readonly version: string };
  /**
   * A new ioredis client for this server, a `Cluster` in cluster mode; `stop()` disconnects it. In cluster mode
   * `options` holds for the connection to each node and `clusterOptions` for the client around them.
   */
  client(options?: RedisClientOptions, clusterOptions?: RedisClusterOptions): RedisClient<M>;
  /** One raw command on the first node, over the test kit's own connection; see {@link RedisNode.call}. */
  call(...command: string[]): Promise<unknown>;
  /** Kills the processes, waits until they are gone, and removes their data. A second call changes nothing. */
  stop(): Promise<void>;
}

/** Options of ioredis for one connection. Replies keep their usual shape: their mapping is part of a client's type. */
export type RedisClientOptions = Omit<RedisOptions, "replyMapping">;

/** Options of ioredis' `Cluster`, without those for the single connections. */
export type RedisClusterOptions = Omit<ClusterOptions, "redisOptions">;

type Ioredis = Pick<typeof import("ioredis"), "Redis" | "Cluster">;

const LAUNCH_TRIES = 10;

const PERSISTENCE: Record<NonNullable<StartRedisOptions["persistence"]>, readonly string[]> = {
  none: ["--save", "", "--appendonly", "no"],
  snapshot: ["--save", "1 1", "--appendonly", "no"],
  everysec: ["--save", "", "--appendonly", "yes", "--appendfsync", "everysec"],
  always: ["--save", "", "--appendonly", "yes", "--appendfsync", "always"],
};

/**
 * Starts a real server on free loopback ports and resolves when it answers (in a Cluster: when all nodes agree that
 * all slots are served).
 *
 * The program is `REDIS_SERVER_BIN`, else `redis-server`, else `valkey-server` on PATH. Nothing is left behind by
 * `stop()`, nor when this process exits, throws, or is ended by SIGINT, SIGTERM or SIGHUP. If this process is ended by
 * SIGKILL, the servers live on.
 *
 * @throws {TypeError | RangeError} an option is not one of the values above.
 * @throws {Error} no server program was found, or it did not start: the message carries its last log lines.
 *
 * @example
 * await using redis = await startRedis({ persistence: "always" });
 * await redis.client().set("greeting", "hello");
 */
export async function startRedis<M extends RedisMode = "single">(
  options: StartRedisOptions<M> = {},
): Promise<RedisServer<M>> {
  // The one mode that M can be without being given.
  const { mode = "single" as M, persistence = "none", args = [], env = {}, masters = 3, password } = options;
  checkOptions(mode, persistence, masters);
  const [binary, ioredis] = await Promise.all([findServer(), import("ioredis")]);
  const dir = await mkdtemp(join(await realpath(tmpdir()), "kit-redis-"));
  const nodes: ServerNode[] = [];
  const forget = atProcessEnd(() => {
    for (const node of nodes) node.killNow();
    rmSync(dir, { recursive: true, force: true, maxRetries: 10, retryDelay: 10 });
  });
  const server = new LocalRedis(mode, dir, nodes, password, ioredis, forget);
  try {
    const count = mode === "cluster" ? masters : 1;
    const launched = await Promise.all(
      Array.from({ length: count }, (_, index) =>
        launchNode(binary, join(dir, `node-${index}`), serverArgs(binary, mode, persistence, password, args), {
          password,
          env,
          withBus: mode === "cluster",
          track: (node) => nodes.push(node),
          untrack: (node) => nodes.splice(nodes.indexOf(node), 1),
        }),
      ),
    );
    // Launches end in any order; slots are given out in the order of the data folders.
    nodes.splice(0, nodes.length, ...launched);
    if (mode === "cluster") await formCluster(nodes);
    await server.readVersion();
    return server;
  } catch (error) {
    await server.stop();
    throw error;
  }
}

function checkOptions(mode: string, persistence: string, masters: number): void {
  const refuse = (Kind: typeof TypeError, name: string, wanted: string, value: unknown): never => {
    throw new Kind(`Expected \`${name}\` to be ${wanted}, got \`${String(value)}\` (${typeof value})`);
  };
  if (mode !== "single" && mode !== "cluster") refuse(TypeError, "mode", `"single" or "cluster"`, mode);
  if (!Object.hasOwn(PERSISTENCE, persistence)) {
    refuse(TypeError, "persistence", `"none", "snapshot", "everysec" or "always"`, persistence);
  }
  if (!Number.isInteger(masters) || masters < 3) refuse(RangeError, "masters", "an integer from 3", masters);
}

function serverArgs(
  binary: ServerBinary,
  mode: string,
  persistence: keyof typeof PERSISTENCE,
  password: string | undefined,
  args: readonly string[],
): string[] {
  const all = [...PERSISTENCE[persistence]];
  if (binary.canEnableDebug) all.push("--enable-debug-command", "local");
  if (mode === "cluster") all.push("--cluster-enabled", "yes", "--cluster-node-timeout", "1000");
  if (password !== undefined) all.push("--requirepass", password, "--masterauth", password);
  return [...all, ...args];
}

interface LaunchOptions {
  readonly password: string | undefined;
  readonly env: Readonly<Record<string, string>>;
  readonly withBus: boolean;
  readonly track: (node: ServerNode) => void;
  readonly untrack: (node: ServerNode) => void;
}

async function launchNode(
  binary: ServerBinary,
  dir: string,
  args: readonly string[],
  { password, env, withBus, track, untrack }: LaunchOptions,
): Promise<ServerNode> {
  for (let tries = 1; ; tries += 1) {
    const port = await freePort(withBus);
    const node = new ServerNode({ binary: binary.path, port, dir, args, env, password });
    track(node);
    try {
      await node.launch();
      return node;
    } catch (error) {
      if (!(error instanceof PortTakenError) || tries === LAUNCH_TRIES) throw error;
      node.close();
      untrack(node);
      returnPort(port);
    }
  }
}

class LocalRedis<M extends RedisMode> implements RedisServer<M> {
  readonly mode: M;
  readonly nodes: readonly ServerNode[];
  readonly #dir: string;
  readonly #password: string | undefined;
  readonly #ioredis: Ioredis;
  readonly #forget: () => void;
  readonly #clients: Set<Redis | Cluster> = new Set();
  #version: RedisServer["version"] | undefined;
  #stopped: Promise<void> | undefined;

  constructor(
    mode: M,
    dir: string,
    nodes: readonly ServerNode[],
    password: string | undefined,
    ioredis: Ioredis,
    forget: () => void,
  ) {
    this.mode = mode;
    this.nodes = nodes;
    this.#dir = dir;
    this.#password = password;
    this.#ioredis = ioredis;
    this.#forget = forget;
  }

  get url(): string {
    const scheme = this.mode === "cluster" ? "redis+cluster" : "redis";
    const login = this.#password === undefined ? "" : `:${encodeURIComponent(this.#password)}@`;
    return `${scheme}://${login}${this.nodes.map(({ host, port }) => `${host}:${port}`).join(",")}`;
  }

  get version(): RedisServer["version"] {
    if (!this.#version) throw new Error("The server did not start");
    return this.#version;
  }

  async readVersion(): Promise<void> {
    const info = String(await this.call("INFO", "server"));
    const valkey = /^valkey_version:(\S+)/m.exec(info)?.[1];
    const version = valkey ?? /^redis_version:(\S+)/m.exec(info)?.[1] ?? "unknown";
    this.#version = { server: valkey ? "valkey" : "redis", version };
  }

  client(options: RedisClientOptions = {}, clusterOptions: RedisClusterOptions = {}): RedisClient<M> {
    if (this.#stopped) throw new Error("The server was stopped");
    const login = this.#password === undefined ? {} : { password: this.#password };
    const redisOptions = { ...login, ...options };
    const { Redis, Cluster } = this.#ioredis;
    const client =
      this.mode === "cluster"
        ? new Cluster(
            this.nodes.map(({ host, port }) => ({ host, port })),
            { ...clusterOptions, redisOptions },
          )
        : new Redis({ host: "127.0.0.1", port: this.nodes[0]?.port ?? 0, ...redisOptions });
    // Without a listener ioredis prints each failed connection, and tests kill servers.
    client.on("error", () => {});
    client.once("end", () => this.#clients.delete(client));
    this.#clients.add(client);
    return client as RedisClient<M>;
  }

  call(...command: string[]): Promise<unknown> {
    const [first] = this.nodes;
    return first ? first.call(...command) : Promise.reject(new Error("The server did not start"));
  }

  stop(): Promise<void> {
    return (this.#stopped ??= this.#stop());
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  async #stop(): Promise<void> {
    for (const client of this.#clients) client.disconnect();
    this.#clients.clear();
    await Promise.all(this.nodes.map((node) => node.kill()));
    for (const node of this.nodes) {
      node.close();
      returnPort(node.port);
    }
    await rm(this.#dir, { recursive: true, force: true, maxRetries: 10, retryDelay: 10 });
    this.#forget();
  }
}
