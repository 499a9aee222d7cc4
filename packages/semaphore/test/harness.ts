import { eventually, type RedisMode, type RedisNode, type TestRedis } from "@kit/testing";
import {
  clientsOf,
  type Login,
  nodeOf,
  Peer,
  promptMs,
  scriptCalls,
  timed,
  type Watched,
  watched,
} from "@tooling/vitest/helpers";
import type { Redis } from "ioredis";
import { expect } from "vitest";
import {
  type AcquireOptions,
  createSemaphore,
  type Permit,
  type Semaphore,
  type SemaphoreEvents,
  type SemaphoreOptions,
} from "../src/index.js";
import { type SemaphoreKeys, semaphoreKeys } from "../src/keys.js";

/** The semaphore of a test, unless it has several. */
export const name = "renderer";

/** Options of a semaphore that has two permits, unless it is said otherwise. */
export type MadeWith = Partial<SemaphoreOptions> & { readonly name?: string };

/** The members of its server that a semaphore test needs. */
export interface SemaphoreFixture {
  /** A new client of the user whose semaphores are tested, gone after the test. */
  connect: TestRedis<RedisMode>["connect"];
  /** A semaphore on the shared client under the test's prefix, closed after the test. */
  make(options?: MadeWith): Semaphore;
  /** The same on a given client. */
  on(client: Parameters<typeof createSemaphore>[0], options?: MadeWith): Semaphore;
  keysOf(name: string): SemaphoreKeys;
  /** Commands for the keys; on a Cluster they are routed. */
  readonly db: Redis;
  /** The server process that serves a semaphore. */
  nodeOf(name: string): Promise<RedisNode>;
  /** How often clients had the servers run a script. */
  scriptCalls(): Promise<number>;
  /** Another process with a semaphore of its own on the same server and prefix; its clock is ahead by so much. */
  spawn(options?: MadeWith, aheadMs?: number): Promise<SemaphorePeer>;
  /** Waits as long as it takes until the semaphore has that many waiters. */
  untilWaiting(name: string, waiters: number): Promise<void>;
  /** Ends a permit now, on the server: whoever holds it has not heard of it. */
  expire(permit: { readonly token: string }): Promise<void>;
  /** The time of the server, or of one node, in milliseconds. */
  now(node?: Pick<RedisNode, "call">): Promise<number>;
  /** How much of the semaphore is in use, by the server's clock. */
  used(): Promise<number>;
}

/** With a `login` all semaphores are that user's, and only the tests' own commands go over the shared client. */
export const fixtureOf = (redis: TestRedis<RedisMode>, login?: Login): SemaphoreFixture => {
  const clients = clientsOf(redis, login);
  const on: SemaphoreFixture["on"] = (client, { name: own = name, permits = 2, ...options } = {}) => {
    const semaphore = createSemaphore(client, own, { prefix: redis.prefix, permits, deadlineMs: 10_000, ...options });
    placesOf.set(semaphore, async () => await recordsOf(db(), keysOf(own)));
    redis.defer(() => semaphore.close({ timeoutMs: 0 }));
    return semaphore;
  };
  const keysOf = (own: string): SemaphoreKeys => semaphoreKeys(redis.prefix, own);
  // A Cluster has the same commands.
  const db = (): Redis => redis.client as Redis;
  const now: SemaphoreFixture["now"] = async (node) => {
    const [seconds, micros] = (await (node ? node.call("TIME") : db().time())) as [string, string];
    return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
  };
  return {
    connect: clients.connect,
    make: (options) => on(clients.shared(), options),
    on,
    keysOf,
    get db() {
      return db();
    },
    nodeOf: (own) => nodeOf(redis.server.nodes, keysOf(own).permits),
    scriptCalls: () => scriptCalls(redis.server.nodes),
    spawn: async ({ name: own = name, ...options } = {}, aheadMs = 0) => {
      const ports = redis.server.nodes.map(({ port }) => port).join(",");
      const settings = { permits: 2, prefix: redis.prefix, deadlineMs: 10_000, ...options };
      const peer = new SemaphorePeer([redis.server.mode, ports, own, settings, login ?? {}], aheadMs);
      redis.defer(() => peer.kill());
      await peer.ready;
      return peer;
    },
    untilWaiting: async (own, waiters) => {
      const keys = keysOf(own);
      await eventually(async () => {
        const count = await db().zcard(keys.queue);
        if (count !== waiters) throw new Error(`${String(count)} wait, not ${String(waiters)}`);
        assertListening(await recordsOf(db(), keys));
      });
    },
    expire: async ({ token }) => {
      const { permits } = keysOf(name);
      const permitRecords = await db().zrange(permits, "0", "-1");
      const permitRecord = permitRecords.find((one) => one.startsWith(`${token}|`));
      if (permitRecord === undefined) throw new Error("there is no such permit");
      await db().zadd(permits, "XX", 1, permitRecord);
    },
    now,
    used: async () => {
      const permitRecords = await db().zrangebyscore(keysOf(name).permits, `(${String(await now())}`, "+inf");
      return permitRecords.reduce((sum, permitRecord) => sum + Number(permitRecord.split("|")[1]), 0);
    },
  };
};

/** The next event of a kind. */
export const next = async <Name extends keyof SemaphoreEvents>(
  semaphore: Semaphore,
  event: Name,
): Promise<SemaphoreEvents[Name][0]> =>
  await new Promise((resolve) => semaphore.once(event, (...[fact]: SemaphoreEvents[Name]) => resolve(fact)));

/** The server's records of those who wait. */
const placesOf = new WeakMap<Semaphore, () => Promise<readonly string[]>>();

/** By commands that a semaphore runs, too: what was run shows what a user needs. */
const recordsOf = async (db: Redis, { waiters }: SemaphoreKeys): Promise<string[]> => {
  const permitRecords = await db.hkeys(waiters);
  return permitRecords.length === 0 ? [] : (await db.hmget(waiters, ...permitRecords)).map(String);
};

/** At a client's first wait its place comes before its connection for pushes. */
const assertListening = (records: readonly string[]): void => {
  if (records.some((record) => record.endsWith(" +"))) throw new Error("somebody is not listening yet");
};

/** Asks for a permit, and resolves once that acquire stands in the queue and listens, or has one. */
export const enqueue = async (semaphore: Semaphore, options?: AcquireOptions): Promise<Watched<Permit>> => {
  const waiting = next(semaphore, "waiting");
  const permit = watched(semaphore.acquire(options));
  await Promise.race([waiting, permit.promise]);
  await eventually(async () => permit.isSettled || assertListening((await placesOf.get(semaphore)?.()) ?? []));
  return permit;
};

/** Takes so many permits, one after another. */
export const take = async (semaphore: Semaphore, count: number, options?: AcquireOptions): Promise<Permit[]> => {
  const taken: Permit[] = [];
  for (let index = 0; index < count; index++) taken.push(await semaphore.acquire(options));
  return taken;
};

/** The whole life of a group, with a hand-off and everything that reads a reply. */
export const works = async (semaphore: Semaphore): Promise<void> => {
  const first = await semaphore.acquire({ tenant: "a", weight: 3, holder: "first" });
  // One that finds others holding and nobody waiting is answered in short.
  expect(await (await semaphore.acquire({ tenant: "b" })).release()).toBe("released");
  await first.extend(5_000);
  expect(await semaphore.tryAcquire({ tenant: "a" })).toBeNull();
  const waiter = await enqueue(semaphore, { tenant: "a", weight: 2, holder: "second" });
  expect(await semaphore.inspect()).toMatchObject({
    permits: 5,
    permitsPerTenant: 3,
    used: 3,
    holders: [{ holder: "first", weight: 3, tenant: "a" }],
    waiters: 1,
    queue: [{ holder: "second", weight: 2, tenant: "a" }],
  });
  expect(await first.release()).toBe("released");
  const { awakeMs, value: second } = await timed(waiter.promise);
  expect(awakeMs).toBeLessThan(promptMs);
  await semaphore.setPermits({ permits: 5, permitsPerTenant: 3 });
  const resumed = await semaphore.resume(second.handOver());
  expect(await resumed.release()).toBe("released");
  expect(await second.release()).toBe("not-held");
  expect(await semaphore.using(({ weight }) => weight, { tenant: "b", weight: 2 })).toBe(2);
  expect((await semaphore.inspect()).used).toBe(0);
};

/** A permit that another process holds. */
interface PeerPermit {
  readonly id: number;
  readonly token: string;
  readonly remainingMs: number;
}

/** Another process that acquires and releases on command, and can be killed. */
class SemaphorePeer extends Peer {
  constructor(args: readonly (string | object)[], aheadMs: number) {
    const program = new URL("programs/peer.mjs", import.meta.url);
    const shift = new URL(`programs/shifted-clock.mjs?${String(aheadMs)}`, import.meta.url);
    super(
      program,
      args.map((arg) => (typeof arg === "string" ? arg : JSON.stringify(arg))),
      aheadMs === 0 ? [] : ["--import", shift.href],
    );
  }

  acquire(options: AcquireOptions = {}): Promise<PeerPermit> {
    return this.ask("acquire", options);
  }

  tryAcquire(options: AcquireOptions = {}): Promise<PeerPermit | null> {
    return this.ask("tryAcquire", options);
  }

  release({ id }: Pick<PeerPermit, "id">): Promise<string> {
    return this.ask("release", id);
  }

  resume(text: string): Promise<PeerPermit> {
    return this.ask("resume", text);
  }

  isHeld({ id }: PeerPermit): Promise<boolean> {
    return this.ask("isHeld", id);
  }

  /** The time by that process's clock. */
  now(): Promise<number> {
    return this.ask("now");
  }
}
