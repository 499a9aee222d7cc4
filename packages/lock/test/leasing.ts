import { connect } from "@kit/core";
import * as testing from "@kit/testing";
import type { Leaser, Leasing } from "@tooling/vitest/conformance";
import { createLock, type Lease, type Lock } from "../src/index.js";
import { enqueue, fixtureOf, works } from "./harness.js";

const name = "chest";
type Client = Parameters<typeof createLock>[0];

const leaserOf = (lock: Lock, own = name): Leaser => ({
  acquire: (options) => lock.acquire(own, options),
  tryAcquire: (options) => lock.tryAcquire(own, options),
  enqueue: (options) => enqueue(lock, own, options),
  inspect: async () => {
    const { state, holder, fencingToken, msLeft, queue } = await lock.inspect(own);
    return { holders: state === "held" ? [{ holder, fencingToken, msLeft }] : [], queue };
  },
  resume: (text) => lock.resume(text),
  close: (options) => lock.close(options),
  onError: (listener) => lock.on("error", listener),
  once: (event, listener) => lock.once(event, listener),
});

/** A lock, for the leasing suites. */
export const leasingOf = (redis: testing.TestRedis): Leasing => {
  const fixture = fixtureOf(redis);
  return {
    ground: { connect, ...testing, redis },
    what: "lock",
    name,
    create: (client, own, options) => {
      const lock = createLock(client as Client, options);
      redis.defer(() => lock.close({ timeoutMs: 0 }));
      return leaserOf(lock, own);
    },
    required: {},
    make: ({ name: own, ...options } = {}) => leaserOf(fixture.make(options), own),
    on: (client, { name: own, ...options } = {}) => leaserOf(fixture.on(client as Client, options), own),
    labelled: (text, own) => leaserOf(fixture.make({ holder: text }), own),
    label: (text) => ({ holder: text }),
    shown: (lease) => ({ holder: lease.holder, fencingToken: (lease as Lease).fencingToken }),
    working: (client, own = name) => {
      const lock = fixture.on(client as Client);
      return { works: () => works(lock, own), close: () => lock.close() };
    },
    spawn: async () => {
      const peer = await fixture.spawn();
      return { acquire: () => peer.acquire(name), kill: () => peer.kill() };
    },
    untilWaiting: (waiters) => fixture.untilWaiting(name, waiters),
    keysOf: fixture.keysOf,
    heldKey: (own) => fixture.keysOf(own).lease,
    lastingKey: (own) => fixture.keysOf(own).fence,
    timeoutOf: (holder) => ({ code: "KIT_LOCK_TIMEOUT", holder }),
    lostCode: "KIT_LOCK_LOST",
    lastSeen: "ms left",
    acquired: { name },
    spoilt: {
      "a fencing token that is none": { fencingToken: "x" },
      "a fencing token that is a number": { fencingToken: 1 },
    },
    module: new URL("programs/leaser.mjs", import.meta.url),
  };
};
