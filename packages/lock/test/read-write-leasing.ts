import { connect } from "@kit/core";
import * as testing from "@kit/testing";
import type { Leaser, Leasing } from "@tooling/vitest/conformance";
import { createReadWriteLock, type ReadWriteLease, type ReadWriteLock } from "../src/read-write/index.js";
import { Peer } from "@tooling/vitest/helpers";
import { fixtureOf, type Mode, works } from "./read-write-harness.js";

const name = "prices";
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
    resume: (text) => lock.resume(text),
    close: (options) => lock.close(options),
    onError: (listener) => lock.on("error", listener),
    once: (event, listener) => lock.once(event, listener),
  });
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
    shown: (lease) => ({ holder: lease.holder, fencingToken: (lease as ReadWriteLease).fencingToken }),
    working: (client, own = name) => {
      const lock = fixture.on(client as Client);
      return { works: () => works(fixture, lock, own), close: () => lock.close() };
    },
    spawn: async () => {
      const peer = new ReadWritePeer(redis);
      redis.defer(() => peer.kill());
      await peer.ready;
      return peer;
    },
    untilWaiting: (waiters) => fixture.untilWaiting(name, waiters),
    keysOf: fixture.keysOf,
    heldKey: (own) => fixture.keysOf(own).leases,
    lastingKey: (own) => fixture.keysOf(own).fence,
    timeoutOf: (holder) => ({ code: "KIT_LOCK_TIMEOUT", holder }),
    lostCode: "KIT_LOCK_LOST",
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

/** Another process with a read/write lock of the usual name, which can be killed. */
class ReadWritePeer extends Peer {
  constructor({ prefix, server }: testing.TestRedis) {
    const ports = server.nodes.map(({ port }) => port).join(",");
    super(new URL("programs/read-write-peer.mjs", import.meta.url), [server.mode, ports, prefix, name]);
  }

  acquire(): Promise<unknown> {
    return this.ask("acquire");
  }
}
