import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { keyspace } from "@kit/core";
import { eventually, type RedisMode, type RedisNode, type TestRedis } from "@kit/testing";
import type { Cluster, Redis } from "ioredis";
import {
  createLock,
  type AcquireOptions,
  type Lease,
  type Lock,
  type LockEvents,
  type LockOptions,
} from "../src/index.js";
import { lockKeys, type LockKeys } from "../src/keys.js";
import type { Login } from "./acl.js";

/** The scripts' own view of a lock's four keys. */
export interface KeyState {
  readonly type: string;
  readonly value: unknown;
  readonly ttl: number;
}

/** What a lock test needs of its server. */
export interface LockBench {
  /** A new client of the user whose locks are tested, gone after the test. */
  connect: TestRedis<RedisMode>["connect"];
  /** A lock on the shared client under the test's prefix, closed after the test. */
  make(options?: LockOptions): Lock;
  /** The same on a given client. */
  on(client: Parameters<typeof createLock>[0], options?: LockOptions): Lock;
  keysOf(name: string): LockKeys;
  /** Commands for the keys; on a Cluster they are routed. */
  readonly db: Redis;
  /** The server process that serves a lock. */
  nodeOf(name: string): Promise<RedisNode>;
  /** How often clients had the servers run a script. */
  scriptCalls(): Promise<number>;
  /** Another process with a lock of its own on the same server and prefix. */
  spawn(options?: LockOptions): Promise<Peer>;
  /** Waits as long as it takes until the lock has that many waiters. */
  untilWaiting(name: string, waiters: number): Promise<void>;
}

/** With a `login` all locks are that user's, and only the tests' own commands go over the shared client. */
export const benchOf = (redis: TestRedis<RedisMode>, login?: Login): LockBench => {
  const connect: LockBench["connect"] = (options, clusterOptions) =>
    redis.connect({ ...login, ...options }, clusterOptions);
  const shared = new Map<string, Redis | Cluster>();
  const sharedClient = (): Redis | Cluster => {
    if (login === undefined) return redis.client;
    const client = shared.get(redis.prefix) ?? connect();
    shared.set(redis.prefix, client);
    return client;
  };
  const on: LockBench["on"] = (client, options = {}) => {
    const lock = createLock(client, { prefix: redis.prefix, ...options });
    redis.defer(() => lock.close({ timeoutMs: 0 }));
    return lock;
  };
  const keysOf = (name: string): LockKeys => lockKeys(redis.prefix)(name);
  return {
    connect,
    make: (options) => on(sharedClient(), options),
    on,
    keysOf,
    get db() {
      // A Cluster has the same commands.
      return redis.client as Redis;
    },
    nodeOf: async (name) => {
      for (const node of redis.server.nodes)
        if (await node.call("EXISTS", keysOf(name).lease).then(always(true), always(false))) return node;
      throw new Error("no node serves it");
    },
    scriptCalls: async () => {
      const counts = await Promise.all(redis.server.nodes.map((node) => callsOf(node, "evalsha")));
      return counts.reduce((sum, count) => sum + count, 0);
    },
    spawn: async (options = {}) => {
      const ports = redis.server.nodes.map(({ port }) => port).join(",");
      const peer = new Peer(redis.server.mode, ports, { prefix: redis.prefix, ...options }, login);
      redis.defer(() => peer.kill());
      await peer.ready;
      return peer;
    },
    untilWaiting: async (name, waiters) => {
      const { queue } = keysOf(name);
      await eventually(async () => {
        const count = await (redis.client as Redis).zcard(queue);
        if (count !== waiters) throw new Error(`${String(count)} wait, not ${String(waiters)}`);
      });
    },
  };
};

const always =
  <T>(value: T) =>
  (): T =>
    value;

/** Makes a key run out now, on the server. */
export const lapse = async (db: Redis, key: string): Promise<void> => {
  if ((await db.pexpire(key, 1)) !== 1) throw new Error(`${key} is not there to lapse`);
  await eventually(async () => {
    if ((await db.exists(key)) === 1) throw new Error(`${key} is still there`);
  });
};

/** How often a node ran a command for a client; what scripts call inside is counted under its own name. */
export const callsOf = async (node: Pick<RedisNode, "call">, command: string): Promise<number> => {
  const stats = String(await node.call("INFO", "commandstats"));
  return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
};

/** The next event of a kind. */
export const next = async <Name extends keyof LockEvents>(lock: Lock, event: Name): Promise<LockEvents[Name][0]> =>
  await new Promise((resolve) => lock.once(event, (...[fact]: LockEvents[Name]) => resolve(fact)));

/** Asks for a lock, and resolves once that acquire stands in line. */
export const enqueue = async (lock: Lock, name: string, options?: AcquireOptions): Promise<Watched<Lease>> => {
  const waiting = next(lock, "waiting");
  const lease = watched(lock.acquire(name, options));
  await Promise.race([waiting, lease.promise]);
  return lease;
};

/** A promise whose fate can be looked at. */
export interface Watched<T> {
  readonly promise: Promise<T>;
  readonly isSettled: boolean;
}

export const watched = <T>(promise: Promise<T>): Watched<T> => {
  const watch = { promise, isSettled: false };
  const settled = (): void => {
    watch.isSettled = true;
  };
  promise.then(settled, settled);
  return watch;
};

/** What a promise was rejected with; an error of its own if it was not. */
export const rejection = async (promise: Promise<unknown>): Promise<unknown> =>
  await promise.then(
    (value) => {
      throw new Error("it was not rejected", { cause: value });
    },
    (error: unknown) => error,
  );

/** Resolves with the reason for which a signal aborts. */
export const aborted = async (signal: AbortSignal): Promise<unknown> => {
  if (!signal.aborted) await once(signal, "abort");
  return signal.reason;
};

/** How long something took, how much of that this process was awake, and what came of it. */
export const timed = async <T>(
  promise: Promise<T>,
): Promise<{ readonly ms: number; readonly awakeMs: number; readonly value: T }> => {
  const startedAt = performance.now();
  const stalls = watchStalls();
  const value = await promise;
  const ms = performance.now() - startedAt;
  return { ms, awakeMs: ms - stalls.end().sum, value };
};

/** Keeps the event loop busy, as a long computation would. */
export const block = (ms: number): void => {
  const until = performance.now() + ms;
  while (performance.now() < until);
};

/** How late timers of this process fire: on a busy machine not even the best of them is on time. */
export const watchStalls = (): { end(): { readonly worst: number; readonly sum: number } } => {
  const everyMs = 2;
  let worst = 0;
  let sum = 0;
  let last = performance.now();
  const look = (): void => {
    const now = performance.now();
    const late = now - last - everyMs;
    worst = Math.max(worst, late);
    // A millisecond or two are ordinary.
    if (late > 2 * everyMs) sum += late;
    last = now;
  };
  const timer = setInterval(look, everyMs);
  return {
    end: () => {
      clearInterval(timer);
      look();
      return { worst, sum };
    },
  };
};

/** A loopback port on which nothing listens. */
export const closedPort = async (): Promise<number> => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
};

/** Type, value and expiry of all four keys. */
export const stateOf = async (db: Redis, keys: LockKeys): Promise<Record<keyof LockKeys, KeyState>> => {
  const look = async (key: string): Promise<KeyState> => {
    const type = await db.type(key);
    const read: Record<string, () => Promise<unknown>> = {
      string: () => db.get(key),
      zset: () => db.zrange(key, "0", "-1", "WITHSCORES"),
      hash: () => db.hgetall(key),
      list: () => db.lrange(key, "0", "-1"),
    };
    return { type, value: (await read[type]?.()) ?? null, ttl: await db.pttl(key) };
  };
  const [lease, fence, queue, waiters] = await Promise.all([
    look(keys.lease),
    look(keys.fence),
    look(keys.queue),
    look(keys.waiters),
  ]);
  return { lease, fence, queue, waiters };
};

/** Where a package under a prefix keeps a name, without its parts: for names that need escaping. */
export const keyOf = (prefix: string, name: string, part: string): string => keyspace("lock", prefix).key(name, part);

/** What a peer answers. */
interface Answer {
  readonly id: number;
  readonly value?: unknown;
  readonly error?: { readonly name: string; readonly code?: string; readonly reason?: string };
}

/** A lease that another process holds. */
interface PeerLease {
  readonly id: number;
  readonly token: string;
  readonly fencingToken: string;
}

/** Another process that acquires and releases on command, and can be killed. */
class Peer {
  readonly ready: Promise<void>;
  readonly #child: ChildProcess;
  readonly #open = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();
  #last = 0;

  constructor(mode: RedisMode, ports: string, options: LockOptions, login: Login | undefined) {
    const program = new URL("programs/peer.mjs", import.meta.url);
    const args = [mode, ports, JSON.stringify(options), JSON.stringify(login ?? {})];
    this.#child = fork(program, args, { execArgv: [] });
    this.#child.on("message", (answer: Answer) => {
      const asked = this.#open.get(answer.id);
      this.#open.delete(answer.id);
      if (answer.error) asked?.reject(Object.assign(new Error(answer.error.name), answer.error));
      else asked?.resolve(answer.value);
    });
    this.ready = this.#ask("ready") as Promise<void>;
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  acquire(name: string, options: AcquireOptions = {}): Promise<PeerLease> {
    return this.#ask("acquire", name, options) as Promise<PeerLease>;
  }

  release({ id }: PeerLease): Promise<string> {
    return this.#ask("release", id) as Promise<string>;
  }

  resume(text: string): Promise<PeerLease> {
    return this.#ask("resume", text) as Promise<PeerLease>;
  }

  /** SIGKILL: whatever it holds or waits for stays as it is in Redis. */
  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    this.#child.kill("SIGKILL");
    await once(this.#child, "exit");
  }

  #ask(...command: readonly unknown[]): Promise<unknown> {
    const id = ++this.#last;
    const answer = new Promise((resolve, reject) => this.#open.set(id, { resolve, reject }));
    this.#child.send([id, ...command]);
    return answer;
  }
}
