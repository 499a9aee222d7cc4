import { connect } from "@kit/core";
import * as testing from "@kit/testing";
import type { Leaser, Leasing } from "@tooling/vitest/conformance";
import { lapse, type Login } from "@tooling/vitest/helpers";
import { createLock, type Lease, type Lock } from "../src/index.js";
import { enqueue, fixtureOf, name, works } from "./harness.js";

type Client = Parameters<typeof createLock>[0];

const leaserOf = (lock: Lock, own = name): Leaser => ({
  acquire: (options) => lock.acquire(own, options),
  tryAcquire: (options) => lock.tryAcquire(own, options),
  enqueue: (options) => enqueue(lock, own, options),
  inspect: async () => {
    const { state, holder, fencingToken, msLeft, queue } = await lock.inspect(own);
    return { holders: state === "held" ? [{ holder, fencingToken, msLeft }] : [], queue };
  },
  using: (routine, options) => lock.using(own, routine, options),
  resume: (text) => lock.resume(text),
  close: (options) => lock.close(options),
  on: lock.on.bind(lock) as Leaser["on"],
  once: lock.once.bind(lock) as Leaser["once"],
});

/** A lock, for the leasing suites; with a `login` it is that user's. */
export const leasingOf = (redis: testing.TestRedis, login?: Login): Leasing => {
  const fixture = fixtureOf(redis, login);
  const { keysOf } = fixture;
  return {
    ground: { connect, ...testing, redis },
    login,
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
    connect: fixture.connect,
    shown: (lease) => ({ holder: lease.holder, fencingToken: (lease as Lease).fencingToken }),
    facts: (lease) => ({ name: lease.name, fencingToken: (lease as Lease).fencingToken }),
    waitingBehind: (holder) => ({ name, position: 0, holder }),
    working: (client, own = name) => {
      const lock = fixture.on(client as Client);
      return { works: () => works(lock, own), close: () => lock.close() };
    },
    spawn: () => fixture.spawn(),
    untilWaiting: (waiters) => fixture.untilWaiting(name, waiters),
    keysOf,
    heldKey: (own) => keysOf(own).lease,
    lastingKey: (own) => keysOf(own).fence,
    expire: () => lapse(fixture.db, keysOf(name).lease),
    msLeft: async (own = name, node) => {
      const { lease } = keysOf(own);
      return Number(await (node ? node.call("PTTL", lease) : fixture.db.pttl(lease)));
    },
    setMsLeft: async (ms) => void (await fixture.db.pexpire(keysOf(name).lease, ms)),
    used: () => fixture.db.exists(keysOf(name).lease),
    scriptCalls: fixture.scriptCalls,
    timeoutOf: (holder) => ({ code: "KIT_LOCK_TIMEOUT", holder }),
    fullCode: "KIT_LOCK_QUEUE_FULL",
    lostCode: "KIT_LOCK_LOST",
    takenReason: "taken",
    lastSeen: "ms left",
    acquired: { name },
    spoilt: {
      "a fencing token that is none": { fencingToken: "x" },
      "a fencing token that is a number": { fencingToken: 1 },
    },
    module: new URL("programs/leaser.mjs", import.meta.url),
  };
};
