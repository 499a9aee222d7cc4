import { eventually, type RedisMode, type RedisNode, type TestRedis } from "@kit/testing";
import { clientsOf, type Login, nodeOf, Peer } from "@tooling/vitest/helpers";
import type { Redis } from "ioredis";
import {
  type AnyJobs,
  createQueue,
  type Job,
  type Queue,
  type QueueOptions,
  type Worker,
  type WorkOptions,
} from "../src/index.js";
import { type QueueAddress, type QueueKeys, endlessParts, keyHead, queueKeys, takenKey } from "../src/job/keys.js";
import * as scripts from "../src/store/scripts/index.js";

/** The queue of a test, unless it has several. */
export const name = "mail";

/** Keys of a queue that have no expiry. */
export const permanentKeys: readonly string[] = endlessParts.map((part) => `queue:{*}:${part}`);

type MadeWith = QueueOptions & { readonly name?: string };

/** The jobs that handlers got, in order. */
export class Runs {
  readonly jobs: Job[] = [];

  readonly handler = (job: Job): void => {
    this.jobs.push(job);
  };

  get data(): unknown[] {
    return this.jobs.map(({ data }) => data);
  }

  async until(count: number, timeoutMs = 15_000): Promise<void> {
    await eventually(
      () => {
        if (this.jobs.length < count) throw new Error(`${String(this.jobs.length)} of ${String(count)} ran`);
      },
      { timeoutMs },
    );
  }
}

/** The server of a queue test, and what tests do with it. */
export interface QueueFixture {
  connect: TestRedis<RedisMode>["connect"];
  /** A queue on the shared client under the test's prefix, closed after the test. */
  make(options?: MadeWith): Queue;
  on(client: Parameters<typeof createQueue>[0], options?: MadeWith): Queue;
  /** A worker that gives every job of the name `job` to `handler`. */
  work(queue: Queue, handler: (job: Job) => unknown, options?: WorkOptions): Worker;
  keysOf(name?: string): QueueKeys;
  /** Of the queue, for what manages it. */
  readonly address: QueueAddress;
  /** Commands for the keys; on a Cluster they are routed. */
  readonly db: Redis;
  nodeOf(name?: string): Promise<RedisNode>;
  /** Another process with a worker; see `programs/worker.mjs` for what its jobs do. */
  spawn(
    options?: Omit<WorkOptions, "name"> & { readonly name?: string; readonly diesRecording?: boolean },
  ): Promise<WorkerPeer>;
  /** Lines that jobs of other processes have logged. */
  logged(): Promise<string[]>;
  /** How many jobs stand in each place. */
  counts(
    name?: string,
  ): Promise<Record<"jobs" | "waiting" | "prioritised" | "delayed" | "leases" | "failures" | "dead", number>>;
  /** Waits until nothing of the queue is left but dead letters. */
  untilEmpty(name?: string): Promise<void>;
  /** Waits until so many workers wait for work. */
  untilIdle(workers: number): Promise<void>;
  /** Lets a job have been added in 1970. */
  age(id: string): Promise<unknown>;
  /** Ends all leases now, on the server. */
  expireLeases(name?: string): Promise<void>;
  /** Ends all leases, and lets another worker find that the jobs have crashed; a heartbeat may come between. */
  crash(maxCrashes: number): Promise<void>;
}

export const fixtureOf = (redis: TestRedis<RedisMode>, login?: Login): QueueFixture => {
  const clients = clientsOf(redis, login);
  const db = (): Redis => redis.client as Redis;
  const keysOf = (own = name): QueueKeys => queueKeys(redis.prefix, own);
  const logKey = (): string => `${redis.prefix}:queue:{log}:ran`;
  const on: QueueFixture["on"] = (client, { name: own = name, ...options } = {}) => {
    const queue = createQueue<AnyJobs>(client, own, { prefix: redis.prefix, deadlineMs: 10_000, ...options });
    redis.defer(() => queue.close({ timeoutMs: 0 }));
    return queue;
  };
  const counts: QueueFixture["counts"] = async (own = name) => {
    const keys = keysOf(own);
    const [jobs, waiting, prioritised, delayed, leases, failures, dead] = await Promise.all([
      db().hlen(keys.jobs),
      db().llen(keys.waiting),
      db().zcard(keys.prioritised),
      db().zcard(keys.delayed),
      db().zcard(keys.leases),
      db().hlen(keys.failures),
      db().zcard(keys.dead),
    ]);
    return { jobs, waiting, prioritised, delayed, leases, failures, dead };
  };
  const expireLeases: QueueFixture["expireLeases"] = async (own) => {
    const { leases } = keysOf(own);
    for (const member of await db().zrange(leases, "0", "-1")) await db().zadd(leases, "XX", 1, member);
  };
  return {
    connect: clients.connect,
    make: (options) => on(clients.shared(), options),
    on,
    // Handlers that never end would hold up each test's end.
    work: (queue, handler, options) => queue.work({ job: handler }, { abortGraceMs: 100, ...options }),
    keysOf,
    address: {
      queue: name,
      // It is made for each test.
      get prefix() {
        return redis.prefix;
      },
    },
    get db() {
      return db();
    },
    nodeOf: (own = name) => nodeOf(redis.server.nodes, keysOf(own).jobs),
    spawn: async ({ name: own = name, ...options } = {}) => {
      const ports = redis.server.nodes.map(({ port }) => port).join(",");
      const args = [redis.server.mode, ports, redis.prefix, own, JSON.stringify(options), JSON.stringify(login ?? {})];
      const peer = new WorkerPeer(new URL("programs/worker.mjs", import.meta.url), args);
      redis.defer(() => peer.kill());
      await peer.ready;
      return peer;
    },
    logged: () => db().lrange(logKey(), 0, -1),
    counts,
    untilEmpty: async (own) => {
      await eventually(
        async () => {
          const { jobs, dead, ...places } = await counts(own);
          const left = Object.values({ ...places, failures: 0 }).reduce((sum, count) => sum + count, 0);
          if (left > 0 || jobs !== dead) throw new Error(`left: ${JSON.stringify({ jobs, dead, ...places })}`);
        },
        { timeoutMs: 20_000 },
      );
    },
    untilIdle: async (workers) => {
      await eventually(async () => {
        const lists = await Promise.all(redis.server.nodes.map((node) => node.call("CLIENT", "LIST")));
        const waiting = lists.join("").match(/cmd=bzpopmin/g)?.length ?? 0;
        if (waiting !== workers) throw new Error(`${String(waiting)} wait, not ${String(workers)}`);
      });
    },
    age: async (id) => {
      const { jobs } = keysOf();
      return await db().hset(jobs, id, (await db().hget(jobs, id))!.replace(/^\w+/, "k1"));
    },
    expireLeases,
    crash: async (maxCrashes) => {
      const takeId = "other00" + "00000";
      const keys = { ...keysOf(), taken: takenKey(keyHead(redis.prefix, name), takeId), replies: [] };
      const taken = { takeId, count: 0, sure: 0, room: "", leaseMs: 60_000, maintenance: "", done: "", others: [] };
      await expireLeases();
      const bounds = `${String(maxCrashes)} 10000 1209600000 67108864`;
      await scripts.step.run(redis.client, keys, { ...taken, flags: "look", bounds });
    },
  };
};

/** Another process with a worker, which can be killed. */
class WorkerPeer extends Peer {
  get isAlive(): boolean {
    try {
      return process.kill(this.pid, 0);
    } catch {
      return false;
    }
  }

  pause(): void {
    process.kill(this.pid, "SIGSTOP");
  }

  resume(): void {
    process.kill(this.pid, "SIGCONT");
  }
}

/** A promise and the function that resolves it. */
export const latch = (): { readonly promise: Promise<void>; readonly open: () => void } => {
  let open: () => void = () => undefined;
  const promise = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { promise, open };
};
