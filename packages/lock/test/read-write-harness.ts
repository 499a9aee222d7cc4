import { eventually, type RedisMode, type RedisNode, type TestRedis } from "@kit/testing";
import { clientsOf, type Login, nodeOf, Peer, promptMs, timed, type Watched, watched } from "@tooling/vitest/helpers";
import type { Redis } from "ioredis";
import { expect } from "vitest";
import type { AcquireOptions, LockOptions } from "../src/index.js";
import { type ReadWriteKeys, readWriteKeys } from "../src/keys.js";
import { createReadWriteLock, type ReadWriteLease, type ReadWriteLock } from "../src/read-write/index.js";

export type Mode = "read" | "write";

/** The members of its server that a test of a read/write lock needs. */
export interface ReadWriteFixture {
  /** A new client of the user whose locks are tested, gone after the test. */
  connect: TestRedis<RedisMode>["connect"];
  /** A lock on the shared client under the test's prefix, closed after the test. */
  make(options?: LockOptions): ReadWriteLock;
  /** The same on a given client. */
  on(client: Parameters<typeof createReadWriteLock>[0], options?: LockOptions): ReadWriteLock;
  keysOf(name: string): ReadWriteKeys;
  /** Commands for the keys; on a Cluster they are routed. */
  readonly db: Redis;
  /** The server process that serves a lock. */
  nodeOf(name: string): Promise<RedisNode>;
  /** Resolves once the lock has that many waiters, and all of them listen. */
  untilWaiting(name: string, waiters: number): Promise<void>;
  /** Acquires, and resolves once that acquire is in the queue and listens. */
  enqueue(lock: ReadWriteLock, mode: Mode, name: string, options?: AcquireOptions): Promise<Watched<ReadWriteLease>>;
  /** The labels of those who hold the lock now. */
  holders(name: string): Promise<string[]>;
  /** Ends a lease on the server, as time does. */
  end(lease: ReadWriteLease): Promise<void>;
}

/** With a `login` all locks are that user's, and only the tests' own commands go over the shared client. */
export const fixtureOf = (redis: TestRedis<RedisMode>, login?: Login): ReadWriteFixture => {
  const clients = clientsOf(redis, login);
  const keysOf = (name: string): ReadWriteKeys => readWriteKeys(redis.prefix)(name);
  // A Cluster has the same commands.
  const db = (): Redis => redis.client as Redis;
  const on: ReadWriteFixture["on"] = (client, options = {}) => {
    const lock = createReadWriteLock(client, { prefix: redis.prefix, deadlineMs: 10_000, ...options });
    redis.defer(() => lock.close({ timeoutMs: 0 }));
    return lock;
  };
  /** At a client's first wait its place comes before its connection for pushes. */
  const areListening = async (name: string): Promise<void> => {
    const { "#": _, ...stands } = await db().hgetall(keysOf(name).waiters);
    if (Object.values(stands).some((stand) => stand.split(" ")[3] === "+"))
      throw new Error("somebody is not listening yet");
  };
  return {
    connect: clients.connect,
    make: (options) => on(clients.shared(), options),
    on,
    keysOf,
    get db() {
      return db();
    },
    nodeOf: (name) => nodeOf(redis.server.nodes, keysOf(name).leases),
    untilWaiting: (name, waiters) =>
      eventually(async () => {
        expect(await db().zcard(keysOf(name).queue)).toBe(waiters);
        await areListening(name);
      }),
    enqueue: async (lock, mode, name, options) => {
      const waiting = new Promise((resolve) => lock.once("waiting", resolve));
      const lease = watched<ReadWriteLease>(lock[mode].acquire(name, options));
      await Promise.race([waiting, lease.promise]);
      await eventually(async () => lease.isSettled || areListening(name));
      return lease;
    },
    holders: async (name) =>
      (await db().zrangebyscore(keysOf(name).leases, `(${String(Date.now())}`, "+inf"))
        .map((record) => record.split("|")[2]!)
        .toSorted(),
    end: async ({ name, mode, token, holder }) => {
      const record = `${mode === "read" ? "r" : "w"}|${token}|${holder}`;
      // As in `lapse`: with the lease goes the key, unless others hold the lock.
      expect(await db().zadd(keysOf(name).leases, "XX", "CH", "1", record)).toBe(1);
    },
  };
};

/** The whole life of a read/write lock, with hand-offs and everything that reads a reply. */
export const works = async (fixture: ReadWriteFixture, lock: ReadWriteLock, name: string): Promise<void> => {
  const first = await lock.read.acquire(name, { holder: "first" });
  const beside = await lock.read.acquire(name, { holder: "beside" });
  await first.extend(5_000);
  expect(await lock.write.tryAcquire(name)).toBeNull();
  // A lease that was waited for lasts its full length from the beginning if it is not renewed.
  const steady = { leaseMs: 60_000, renew: false };
  const writer = await fixture.enqueue(lock, "write", name, { holder: "writer", ...steady });
  const late = await fixture.enqueue(lock, "read", name, { holder: "late", ...steady });
  expect(await lock.inspect(name)).toMatchObject({
    state: "read",
    holding: 2,
    waiters: 2,
    queue: [
      { mode: "write", holder: "writer" },
      { mode: "read", holder: "late" },
    ],
  });
  expect(await first.tryUpgrade()).toBe(false);
  expect(await first.release()).toBe("released");
  expect(await beside.release()).toBe("released");
  const { awakeMs, value: held } = await timed(writer.promise);
  expect(awakeMs).toBeLessThan(promptMs);
  expect(held.fencingToken).toMatch(/^\d{16}$/);
  await held.downgrade();
  const reader = await late.promise;
  expect(await reader.release()).toBe("released");
  expect(await held.tryUpgrade()).toBe(true);
  expect(await held.release()).toBe("released");
  expect(await lock.write.using(name, ({ mode }) => mode)).toBe("write");
  expect(await lock.inspect(name)).toMatchObject({ state: "free", holding: 0, waiters: 0 });
};

/** A lease that another process holds. */
interface PeerLease {
  readonly id: number;
  readonly token: string;
}

/** Another process with a read/write lock of this name, which can be killed. */
export class ReadWritePeer extends Peer {
  constructor({ prefix, server }: TestRedis<RedisMode>, name: string, login?: Login) {
    const ports = server.nodes.map(({ port }) => port).join(",");
    const credentials = login ? [login.username, login.password] : [];
    super(new URL("programs/read-write-peer.mjs", import.meta.url), [server.mode, ports, prefix, name, ...credentials]);
  }

  acquire(options: object = {}): Promise<PeerLease> {
    return this.ask("acquire", options);
  }

  release({ id }: Pick<PeerLease, "id">): Promise<string> {
    return this.ask("release", id);
  }

  resume(text: string): Promise<PeerLease> {
    return this.ask("resume", text);
  }
}
