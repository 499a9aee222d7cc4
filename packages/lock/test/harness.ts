import { connect, type Connection } from "@kit/core";
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
  createLock,
  type AcquireOptions,
  type Lease,
  type Lock,
  type LockEvents,
  type LockOptions,
} from "../src/index.js";
import { lockKeys, type LockKeys } from "../src/keys.js";

/** The members of its server that a lock test needs. */
export interface LockFixture {
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
  spawn(options?: LockOptions): Promise<LockPeer>;
  /** Waits as long as it takes until the lock has that many waiters. */
  untilWaiting(name: string, waiters: number): Promise<void>;
}

/** With a `login` all locks are that user's, and only the tests' own commands go over the shared client. */
export const fixtureOf = (redis: TestRedis<RedisMode>, login?: Login): LockFixture => {
  const clients = clientsOf(redis, login);
  const on: LockFixture["on"] = (client, options = {}) => {
    const lock = createLock(client, { prefix: redis.prefix, deadlineMs: 10_000, ...options });
    placesOf.set(lock, async (name) => await recordsOf(db(), keysOf(name)));
    redis.defer(() => lock.close({ timeoutMs: 0 }));
    return lock;
  };
  const keysOf = (name: string): LockKeys => lockKeys(redis.prefix)(name);
  // A Cluster has the same commands.
  const db = (): Redis => redis.client as Redis;
  return {
    connect: clients.connect,
    make: (options) => on(clients.shared(), options),
    on,
    keysOf,
    get db() {
      return db();
    },
    nodeOf: (name) => nodeOf(redis.server.nodes, keysOf(name).lease),
    scriptCalls: () => scriptCalls(redis.server.nodes),
    spawn: async (options = {}) => {
      const ports = redis.server.nodes.map(({ port }) => port).join(",");
      const peer = new LockPeer(
        redis.server.mode,
        ports,
        { prefix: redis.prefix, deadlineMs: 10_000, ...options },
        login,
      );
      redis.defer(() => peer.kill());
      await peer.ready;
      return peer;
    },
    untilWaiting: async (name, waiters) => {
      const keys = keysOf(name);
      await eventually(async () => {
        const count = await db().zcard(keys.queue);
        if (count !== waiters) throw new Error(`${String(count)} wait, not ${String(waiters)}`);
        assertListening(await recordsOf(db(), keys));
      });
    },
  };
};

/** The next event of a kind. */
export const next = async <Name extends keyof LockEvents>(lock: Lock, event: Name): Promise<LockEvents[Name][0]> =>
  await new Promise((resolve) => lock.once(event, (...[fact]: LockEvents[Name]) => resolve(fact)));

/** The server's records of those who wait. */
const placesOf = new WeakMap<Lock, (name: string) => Promise<readonly string[]>>();

/** By commands that a lock runs, too: what was run shows what a user needs. */
const recordsOf = async (db: Redis, { queue, waiters }: LockKeys): Promise<string[]> => {
  const tokens = await db.zrange(queue, "0", "-1");
  return tokens.length === 0 ? [] : (await db.hmget(waiters, ...tokens)).map(String);
};

/** At a client's first wait its place comes before its connection for pushes. */
const assertListening = (records: readonly string[]): void => {
  if (records.some((record) => record.includes(" + "))) throw new Error("somebody is not listening yet");
};

/** Asks for a lock, and resolves once that acquire stands in the queue and listens. */
export const enqueue = async (lock: Lock, name: string, options?: AcquireOptions): Promise<Watched<Lease>> => {
  const waiting = next(lock, "waiting");
  const lease = watched(lock.acquire(name, options));
  await Promise.race([waiting, lease.promise]);
  await eventually(async () => lease.isSettled || assertListening((await placesOf.get(lock)?.(name)) ?? []));
  return lease;
};

/** A client that kit made, for one test. */
export const ownClient = async (redis: TestRedis<RedisMode>): Promise<Connection> => {
  const client = await connect({ url: redis.url, deadlineMs: 10_000 });
  redis.defer(() => client.close());
  return client;
};

/** Whether a lease was granted after another. */
export const fenceGrows = (former: object, next: object): boolean =>
  BigInt((next as Lease).fencingToken) > BigInt((former as Lease).fencingToken);

/** The whole life of a lock, with a hand-off and everything that reads a reply. */
export const works = async (lock: Lock, name: string): Promise<void> => {
  const first = await lock.acquire(name, { holder: "first" });
  await first.extend(5_000);
  expect(await lock.tryAcquire(name)).toBeNull();
  const waiter = await enqueue(lock, name, { holder: "second" });
  expect(await lock.inspect(name)).toMatchObject({
    state: "held",
    holder: "first",
    fencingToken: first.fencingToken,
    waiters: 1,
    queue: [{ holder: "second" }],
  });
  expect(await first.release()).toBe("released");
  const { awakeMs, value: second } = await timed(waiter.promise);
  expect(awakeMs).toBeLessThan(promptMs);
  expect(BigInt(second.fencingToken)).toBeGreaterThan(BigInt(first.fencingToken));
  expect(await lock.forceRelease(name)).toBe("second");
  expect(await second.release()).toBe("not-held");
  expect(await lock.using(name, ({ isHeld }) => isHeld)).toBe(true);
  const tokens = await lock.usingAll([name, `${name}-2`], ({ fencingTokens }) => [...fencingTokens.keys()]);
  expect(tokens).toEqual([name, `${name}-2`]);
  expect(await lock.inspect(name)).toMatchObject({ state: "free", msLeft: null });
};

/** A lease that another process holds. */
interface PeerLease {
  readonly id: number;
  readonly token: string;
  readonly fencingToken: string;
}

/** Another process that acquires and releases on command, and can be killed. */
class LockPeer extends Peer {
  constructor(mode: RedisMode, ports: string, options: LockOptions, login: Login | undefined) {
    const program = new URL("programs/peer.mjs", import.meta.url);
    super(program, [mode, ports, JSON.stringify(options), JSON.stringify(login ?? {})]);
  }

  acquire(name: string, options: AcquireOptions = {}): Promise<PeerLease> {
    return this.ask("acquire", name, options);
  }

  release({ id }: Pick<PeerLease, "id">): Promise<string> {
    return this.ask("release", id);
  }

  resume(text: string): Promise<PeerLease> {
    return this.ask("resume", text);
  }
}
