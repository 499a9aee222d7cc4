import { connect } from "@kit/core";
import * as testing from "@kit/testing";
import type { Leaser, Leasing } from "@tooling/vitest/conformance";
import { createReadWriteLock, type ReadWriteLease, type ReadWriteLock } from "../src/read-write/index.js";
import { fixtureOf, type Mode, name, works } from "./read-write-harness.js";

type Client = Parameters<typeof createReadWriteLock>[0];

/**
 * A read/write lock, for the leasing suites. It is held by a writer. In each test the first that `enqueue` queues waits in the
 * first mode, and so on by turns.
 */
export const leasingOf = (redis: testing.TestRedis, ...modes: readonly [Mode, ...Mode[]]): Leasing => {
  const fixture = fixtureOf(redis);
  let [test, waiters] = ["", 0];
  const nextMode = (): Mode => {
    if (test !== redis.prefix) [test, waiters] = [redis.prefix, 0];
    return modes[waiters++ % modes.length] ?? modes[0];
  };
  const leaserOf = (lock: ReadWriteLock, own = name): Leaser => ({
    acquire: (options) => lock.write.acquire(own, options),
    tryAcquire: (options) => lock.write.tryAcquire(own, options),
    enqueue: (options) => fixture.enqueue(lock, nextMode(), own, options),
    inspect: async () => {
      const { holders, fencingToken, queue } = await lock.inspect(own);
      return { holders: holders.map((each) => ({ ...each, fencingToken })), queue };
    },
    using: (routine, options) => lock.write.using(own, routine, options),
    resume: (text) => lock.resume(text),
    close: (options) => lock.close(options),
    on: lock.on.bind(lock) as Leaser["on"],
    once: lock.once.bind(lock) as Leaser["once"],
  });
  const leases = (own: string): string => fixture.keysOf(own).leases;
  /** A test may shift this process's clock. */
  const serverMs = async (): Promise<number> => {
    const [seconds, micros] = (await fixture.db.time()).map(Number);
    return seconds! * 1_000 + micros! / 1_000;
  };
  return {
    ground: { connect, ...testing, redis },
    what: "read-write-lock",
    name,
    create: (client, own, options) => {
      const lock = createReadWriteLock(client as Client, options);
      redis.defer(() => lock.close({ timeoutMs: 0 }));
      return leaserOf(lock, own);
    },
    required: {},
    make: ({ name: own, ...options } = {}) => leaserOf(fixture.make(options), own),
    on: (client, { name: own, ...options } = {}) => leaserOf(fixture.on(client as Client, options), own),
    labelled: (text, own) => leaserOf(fixture.make({ holder: text }), own),
    label: (text) => ({ holder: text }),
    connect: fixture.connect,
    shown: (lease) => ({ holder: lease.holder, fencingToken: (lease as ReadWriteLease).fencingToken }),
    facts: (lease) => {
      const { name: own, mode, fencingToken } = lease as ReadWriteLease;
      return { name: own, mode, fencingToken };
    },
    waitingBehind: (holder) => ({ name, position: 0, holder }),
    working: (client, own = name) => {
      const lock = fixture.on(client as Client);
      return { works: () => works(fixture, lock, own), close: () => lock.close() };
    },
    spawn: () => fixture.spawn(),
    untilWaiting: (waiters) => fixture.untilWaiting(name, waiters),
    keysOf: fixture.keysOf,
    heldKey: leases,
    lastingKey: (own) => fixture.keysOf(own).fence,
    expire: (held) => fixture.end(held as ReadWriteLease),
    msLeft: async (own = name, node) => {
      const args = [leases(own), "-1", "-1", "WITHSCORES"] as const;
      const [, end] = (await (node ? node.call("ZRANGE", ...args) : fixture.db.zrange(...args))) as string[];
      return end === undefined ? 0 : Number(end) - (await serverMs());
    },
    setMsLeft: async (ms) => {
      const [record = ""] = await fixture.db.zrange(leases(name), "0", "0");
      await fixture.db.zadd(leases(name), "XX", (await serverMs()) + ms, record);
    },
    used: async () => await fixture.db.zcount(leases(name), await serverMs(), "+inf"),
    scriptCalls: fixture.scriptCalls,
    timeoutOf: (holder) => ({ code: "KIT_LOCK_TIMEOUT", holder }),
    fullCode: "KIT_LOCK_QUEUE_FULL",
    lostCode: "KIT_LOCK_LOST",
    takenReason: "expired",
    lastSeen: "ms left",
    acquired: { name },
    spoilt: {
      "a mode that is none": { mode: "both" },
      "a fencing token that is a number": { fencingToken: 1 },
      "a writer without a fencing token": { mode: "write", fencingToken: null },
    },
    module: new URL("programs/read-write-leaser.mjs", import.meta.url),
  };
};
