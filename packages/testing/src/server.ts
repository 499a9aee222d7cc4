import { rmSync } from "node:fs";
import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Cluster, ClusterOptions, Redis, RedisOptions } from "ioredis";

import { findServer, type ServerBinary } from "./binary.js";
import { atProcessEnd } from "./cleanup.js";
import { checkCluster, formCluster } from "./cluster.js";
import { eventually } from "./eventually.js";
import { PortTakenError, ServerNode, type NodeOptions, type RedisNode } from "./node.js";
import { freePort, returnPort } from "./ports.js";
import { checkReplication } from "./replication.js";
import { checkSentinels, currentMaster, introduce, MASTER_NAME, sentinelConfig, SENTINELS } from "./sentinel.js";

/** One server, a Cluster, or a master with replicas and the Sentinels that watch them. */
export type RedisMode = "single" | "cluster" | "sentinel";

/** The ioredis client that fits the mode. */
export type RedisClient<M extends RedisMode = RedisMode> = M extends "cluster" ? Cluster : Redis;

/** The kind of server that `startRedis` starts. */
export interface StartRedisOptions<M extends RedisMode = RedisMode> {
  /**
   * One server, a Cluster whose masters cover all slots, or a master that three Sentinels watch. A Cluster is ready in about two
   * seconds, a master with Sentinels in half a second.
   *
   * @default "single"
   */
  readonly mode?: M;
  /**
   * The data that survives `kill()` and `start()`: nothing; a snapshot, taken after each second with a write; or the append-only
   * file, synced every second or before each reply.
   *
   * @default "none"
   */
  readonly persistence?: "none" | "snapshot" | "everysec" | "always";
  /**
   * Further arguments for every server process. They come last, so they win: `["--maxmemory", "10mb"]`.
   *
   * @default []
   */
  readonly args?: readonly string[];
  /**
   * Further environment variables for every server process, such as `LD_PRELOAD` of a library that changes the time.
   *
   * @default {}
   */
  readonly env?: Readonly<Record<string, string>>;
  /**
   * Masters of a Cluster, at least 3 (fewer cannot agree on a failure). Not for a single server.
   * @default 3
   */
  readonly masters?: number;
  /**
   * Replicas of the server, or of each master of a Cluster. `startRedis` waits until they are in step.
   * @default 2 with Sentinels, else 0
   */
  readonly replicas?: number;
  /**
   * With Sentinels: how long a server may stay silent before a Sentinel counts it as down, in milliseconds. A failover takes
   * about one second more.
   *
   * @default 2000
   */
  readonly downAfterMs?: number;
  /** The default user's password. Any process on this machine can see it. If you leave it out, there is no password. */
  readonly password?: string;
}

/** A real Redis or Valkey on loopback, with its own data folder, which is removed with it. */
export interface RedisServer<M extends RedisMode = RedisMode> extends AsyncDisposable {
  readonly mode: M;
  /**
   * `redis://127.0.0.1:16390`, `redis+cluster://127.0.0.1:16391,127.0.0.1:16392,127.0.0.1:16393`, or
   * `redis+sentinel://127.0.0.1:16394,127.0.0.1:16395,127.0.0.1:16396/kit`.
   */
  readonly url: string;
  /** The servers that started as masters: one, or the masters of the Cluster in the order of their slots. */
  readonly nodes: readonly RedisNode[];
  /** The servers that started as replicas. In a Cluster, the replicas of the first master come first. */
  readonly replicas: readonly RedisNode[];
  /** The Sentinels; none without `mode: "sentinel"`. */
  readonly sentinels: readonly RedisNode[];
  readonly version: { readonly server: "redis" | "valkey"; readonly version: string };
  /**
   * Creates an ioredis client for this server, which `stop()` disconnects. In cluster mode it is a `Cluster`; in sentinel mode it
   * finds its master through the Sentinels. In cluster mode, `options` applies to the connection to each node, and
   * `clusterOptions` to the client around them.
   */
  client(options?: RedisClientOptions, clusterOptions?: RedisClusterOptions): RedisClient<M>;
  /** Sends one raw command to the first node, over the test kit's own connection; see {@link RedisNode.call}. */
  call(...command: string[]): Promise<unknown>;
  /**
   * Returns the current master, according to the running Sentinels.
   *
   * @throws {Error} there are no Sentinels.
   */
  master(): Promise<RedisNode>;
  /** Kills the processes, waits until they have exited, and removes their data. Idempotent. */
  stop(): Promise<void>;
}

/** Options of ioredis for one connection. Replies keep their usual shape: their mapping is part of a client's type. */
export type RedisClientOptions = Omit<RedisOptions, "replyMapping">;

/** Options of ioredis' `Cluster`, without those for the single connections. */
export type RedisClusterOptions = Omit<ClusterOptions, "redisOptions">;

type Ioredis = Pick<typeof import("ioredis"), "Redis" | "Cluster">;

const LAUNCH_TRIES = 10;
// Ten times what a quiet machine needs.
const IN_STEP_TIMEOUT_MS = 20_000;
// A Cluster accepts a restarted node within two seconds; new servers take at most four.
const COME_BACK_MS = 3_000;
const MODES = ["single", "cluster", "sentinel"];

const PERSISTENCE: Record<NonNullable<StartRedisOptions["persistence"]>, readonly string[]> = {
  none: ["--save", "", "--appendonly", "no"],
  snapshot: ["--save", "1 1", "--appendonly", "no"],
  everysec: ["--save", "", "--appendonly", "yes", "--appendfsync", "everysec"],
  always: ["--save", "", "--appendonly", "yes", "--appendfsync", "always"],
};

/**
 * Starts a real server on free loopback ports, and resolves when it answers. A Cluster is ready when all nodes agree that all
 * slots are served. With replicas and Sentinels, it waits until all are in step and know each other.
 *
 * The program is `REDIS_SERVER_BIN`, else `redis-server`, else `valkey-server` on PATH. `stop()` leaves nothing behind. The
 * servers also end when this process exits, throws, or is ended by SIGINT, SIGTERM or SIGHUP. If SIGKILL ends this process, the
 * servers keep running.
 *
 * @throws {TypeError | RangeError} an option is invalid.
 * @throws {Error} no server program was found, or it did not start: the message has its last log lines.
 *
 * @example
 * await using redis = await startRedis({ persistence: "always" });
 * await redis.client().set("greeting", "hello");
 */
export async function startRedis<M extends RedisMode = "single">(
  options: StartRedisOptions<M> = {},
): Promise<RedisServer<M>> {
  return launchRedis(options);
}

/** The same, with the members that `useRedis` needs. */
export async function launchRedis<M extends RedisMode>(options: StartRedisOptions<M>): Promise<LocalRedis<M>> {
  // The mode if M was not given.
  const { mode = "single" as M, persistence = "none", args = [], env = {}, masters = 3, password } = options;
  const { replicas = mode === "sentinel" ? 2 : 0, downAfterMs = 2_000 } = options;
  checkOptions(mode, persistence, masters, replicas, downAfterMs);
  if (mode === "sentinel" && password !== undefined && /[\s"'\\]/.test(password)) {
    throw new TypeError("Expected `password` to have no space, quote or backslash, which Sentinels store incorrectly");
  }
  const [binary, ioredis] = await Promise.all([findServer(), import("ioredis")]);
  const dir = await mkdtemp(join(await realpath(tmpdir()), "kit-redis-"));
  const all: ServerNode[] = [];
  const forget = atProcessEnd(() => {
    for (const node of all) node.killNow();
    rmSync(dir, { recursive: true, force: true, maxRetries: 10, retryDelay: 10 });
  });
  const server = new LocalRedis({ mode, dir, all, password, ioredis, forget });
  const common = { binary: binary.path, args: serverArgs(binary, mode, persistence, password, args), env, password };
  const launch = (group: string, count: number, special: Partial<NodeOptions> = {}): Promise<ServerNode[]> => {
    const launches = Array.from({ length: count }, (_, index) =>
      launchNode({ ...common, dir: join(dir, `${group}-${index}`), ...special }, mode === "cluster", all),
    );
    // Launches end in any order; slots are assigned in the order of the data folders.
    return Promise.all(launches);
  };
  try {
    if (mode === "cluster") {
      [server.nodes, server.replicas] = await Promise.all([
        launch("master", masters),
        launch("replica", masters * replicas),
      ]);
      await formCluster(server.nodes, server.replicas);
    } else {
      // Sentinels make a server rewrite its configuration file, so that it restarts in its last role.
      const keepsRole = mode === "sentinel";
      server.nodes = await launch("master", 1, keepsRole ? { config: "" } : {});
      const [master] = server.nodes as [ServerNode];
      const follow = `replicaof ${master.host} ${master.port}`;
      const special = keepsRole ? { config: `${follow}\n` } : { args: [...common.args, ...`--${follow}`.split(" ")] };
      server.replicas = await launch("replica", replicas, special);
      if (replicas > 0) {
        await eventually(() => checkReplication(master, server.replicas), {
          timeoutMs: IN_STEP_TIMEOUT_MS,
        });
      }
    }
    if (mode === "sentinel") {
      const [master] = server.nodes as [ServerNode];
      const config = sentinelConfig(master, downAfterMs, password);
      // Only the servers have the password, not the Sentinels themselves.
      const special = { args: [], config, isSentinel: true, password: undefined };
      server.sentinels = await launch("sentinel", SENTINELS, special);
      await introduce(server.sentinels, master);
      await eventually(() => checkSentinels(server.sentinels, master, server.replicas), {
        timeoutMs: IN_STEP_TIMEOUT_MS,
      });
    }
    await server.readVersion();
    return server;
  } catch (error) {
    await server.stop();
    throw error;
  }
}

function checkOptions(mode: string, persistence: string, masters: number, replicas: number, downAfterMs: number): void {
  const refuse = (Kind: typeof TypeError, name: string, wanted: string, value: unknown): never => {
    throw new Kind(`Expected \`${name}\` to be ${wanted}, got \`${String(value)}\` (${typeof value})`);
  };
  const checkInteger = (name: string, least: number, value: number): void => {
    if (!Number.isInteger(value) || value < least) refuse(RangeError, name, `an integer from ${least}`, value);
  };
  if (!MODES.includes(mode)) refuse(TypeError, "mode", `"single", "cluster" or "sentinel"`, mode);
  if (!Object.hasOwn(PERSISTENCE, persistence)) {
    refuse(TypeError, "persistence", `"none", "snapshot", "everysec" or "always"`, persistence);
  }
  checkInteger("masters", 3, masters);
  checkInteger("replicas", 0, replicas);
  checkInteger("downAfterMs", 1, downAfterMs);
}

function serverArgs(
  binary: ServerBinary,
  mode: string,
  persistence: keyof typeof PERSISTENCE,
  password: string | undefined,
  args: readonly string[],
): string[] {
  // A master would wait five seconds for more replicas before it sends the first its data. After a diskless transfer a replica
  // gets no further data before its next report, up to 1 s later, although its link is up.
  const all = [...PERSISTENCE[persistence], "--repl-diskless-sync", "no"];
  if (binary.canEnableDebug) all.push("--enable-debug-command", "local");
  if (mode === "cluster") all.push("--cluster-enabled", "yes", "--cluster-node-timeout", "1000");
  if (password !== undefined) all.push("--requirepass", password, "--masterauth", password);
  return [...all, ...args];
}

async function launchNode(
  options: Omit<NodeOptions, "port">,
  withBus: boolean,
  all: ServerNode[],
): Promise<ServerNode> {
  for (let tries = 1; ; tries += 1) {
    const port = await freePort(withBus);
    const node = new ServerNode({ ...options, port });
    all.push(node);
    try {
      await node.launch();
      return node;
    } catch (error) {
      if (!(error instanceof PortTakenError) || tries === LAUNCH_TRIES) throw error;
      node.close();
      all.splice(all.indexOf(node), 1);
      returnPort(port);
    }
  }
}

interface LocalRedisParts<M extends RedisMode> {
  readonly mode: M;
  readonly dir: string;
  /** Every process, also those that are still being launched. */
  readonly all: readonly ServerNode[];
  readonly password: string | undefined;
  readonly ioredis: Ioredis;
  readonly forget: () => void;
}

export class LocalRedis<M extends RedisMode> implements RedisServer<M> {
  readonly mode: M;
  readonly all: readonly ServerNode[];
  nodes: readonly ServerNode[] = [];
  replicas: readonly ServerNode[] = [];
  sentinels: readonly ServerNode[] = [];
  readonly #dir: string;
  readonly #password: string | undefined;
  readonly #ioredis: Ioredis;
  readonly #forget: () => void;
  readonly #clients: Set<Redis | Cluster> = new Set();
  #version: RedisServer["version"] | undefined;
  #stopped: Promise<void> | undefined;

  constructor({ mode, dir, all, password, ioredis, forget }: LocalRedisParts<M>) {
    this.mode = mode;
    this.all = all;
    this.#dir = dir;
    this.#password = password;
    this.#ioredis = ioredis;
    this.#forget = forget;
  }

  get url(): string {
    const scheme = this.mode === "single" ? "redis" : `redis+${this.mode}`;
    const login = this.#password === undefined ? "" : `:${encodeURIComponent(this.#password)}@`;
    const doors = this.mode === "sentinel" ? this.sentinels : this.nodes;
    const path = this.mode === "sentinel" ? `/${MASTER_NAME}` : "";
    return `${scheme}://${login}${doors.map(({ host, port }) => `${host}:${port}`).join(",")}${path}`;
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
    const client = this.#makeClient(redisOptions, clusterOptions);
    // Without a listener ioredis prints each failed connection, and tests kill servers.
    client.on("error", () => {});
    client.once("end", () => this.#clients.delete(client));
    this.#clients.add(client);
    return client as RedisClient<M>;
  }

  #makeClient(options: RedisClientOptions, clusterOptions: RedisClusterOptions): Redis | Cluster {
    const { Redis, Cluster } = this.#ioredis;
    const addresses = (nodes: readonly ServerNode[]) => nodes.map(({ host, port }) => ({ host, port }));
    if (this.mode === "cluster")
      return new Cluster(addresses(this.nodes), { ...clusterOptions, redisOptions: options });
    const [door] = addresses(this.nodes);
    const way = this.mode === "sentinel" ? { sentinels: addresses(this.sentinels), name: MASTER_NAME } : door;
    return new Redis({ ...way, ...options });
  }

  call(...command: string[]): Promise<unknown> {
    const [first] = this.nodes;
    return first ? first.call(...command) : Promise.reject(new Error("The server did not start"));
  }

  async master(): Promise<RedisNode> {
    if (this.mode !== "sentinel") throw new Error("This server has no Sentinels, so no Sentinel can report the master");
    return currentMaster(this.sentinels, this.servers);
  }

  /** The servers with the data, whatever their initial roles were. */
  get servers(): readonly ServerNode[] {
    return [...this.nodes, ...this.replicas];
  }

  /** The servers that are masters now. */
  async masters(): Promise<readonly RedisNode[]> {
    if (this.mode === "sentinel") return [await this.master()];
    if (this.replicas.length === 0) return this.nodes;
    const roles = await Promise.all(this.servers.map((node) => node.call("ROLE")));
    return this.servers.filter((_, index) => (roles[index] as unknown[])[0] === "master");
  }

  /** Whether all servers have their first roles, or will have them again soon. */
  async isAsBegun(): Promise<boolean> {
    const { mode, nodes, replicas, sentinels } = this;
    if (mode !== "sentinel" && replicas.length === 0) return true;
    const [first] = nodes as [ServerNode];
    const look = () =>
      mode === "cluster"
        ? checkCluster(nodes, replicas)
        : mode === "sentinel"
          ? checkSentinels(sentinels, first, replicas)
          : checkReplication(first, replicas);
    try {
      if ((await this.masters()).some((master) => !nodes.includes(master as ServerNode))) return false;
      await eventually(look, { timeoutMs: COME_BACK_MS });
      return true;
    } catch {
      return false;
    }
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
    await Promise.all(this.all.map((node) => node.kill()));
    for (const node of this.all) {
      node.close();
      returnPort(node.port);
    }
    await rm(this.#dir, { recursive: true, force: true, maxRetries: 10, retryDelay: 10 });
    this.#forget();
  }
}
