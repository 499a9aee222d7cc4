import { connect } from "@kit/core";
import * as testing from "@kit/testing";
import type { Leaser, Leasing } from "@tooling/vitest/conformance";
import type { Login } from "@tooling/vitest/helpers";
import { createSemaphore, type Permit, type Semaphore, type SemaphoreOptions } from "../src/index.js";
import { enqueue, fixtureOf, name, works } from "./harness.js";

type Client = Parameters<typeof createSemaphore>[0];

/** With `common` options of each of its acquires. */
const leaserOf = (semaphore: Semaphore, common: object = {}): Leaser => ({
  acquire: (options) => semaphore.acquire({ ...common, ...options }),
  tryAcquire: (options) => semaphore.tryAcquire({ ...common, ...options }),
  enqueue: (options) => enqueue(semaphore, { ...common, ...options }),
  inspect: () => semaphore.inspect(),
  using: (routine, options) => semaphore.using(routine, { ...common, ...options }),
  resume: (text) => semaphore.resume(text),
  close: (options) => semaphore.close(options),
  on: semaphore.on.bind(semaphore) as Leaser["on"],
  once: semaphore.once.bind(semaphore) as Leaser["once"],
});

/** A semaphore with one permit, for the leasing suites; with a `login` it is that user's. */
export const leasingOf = (redis: testing.TestRedis, login?: Login): Leasing => {
  const fixture = fixtureOf(redis, login);
  const { keysOf } = fixture;
  return {
    ground: { connect, ...testing, redis },
    login,
    what: "semaphore",
    name,
    create: (client, own, options) => {
      const semaphore = createSemaphore(client as Client, own, options as SemaphoreOptions);
      redis.defer(() => semaphore.close({ timeoutMs: 0 }));
      return leaserOf(semaphore);
    },
    required: { permits: 1 },
    make: (options) => leaserOf(fixture.make({ permits: 1, ...options })),
    on: (client, options) => leaserOf(fixture.on(client as Client, { permits: 1, ...options })),
    labelled: (text, own = name) =>
      leaserOf(fixture.make({ name: own, permits: 9, permitsPerTenant: 1, holder: text }), { tenant: text }),
    label: (text) => ({ holder: text, tenant: text }),
    connect: fixture.connect,
    shown: ({ holder }) => ({ holder, weight: 1 }),
    facts: (permit) => ({ weight: (permit as Permit).weight, tenant: (permit as Permit).tenant }),
    waitingBehind: () => ({ position: 0, used: 1, permits: 1 }),
    working: (client, own = name) => {
      const group = fixture.on(client as Client, { name: own, permits: 5, permitsPerTenant: 3 });
      return { works: () => works(group), close: () => group.close() };
    },
    spawn: () => fixture.spawn({ permits: 1 }),
    untilWaiting: (waiters) => fixture.untilWaiting(name, waiters),
    keysOf,
    heldKey: (own) => keysOf(own).permits,
    lastingKey: (own) => keysOf(own).meta,
    expire: fixture.expire,
    msLeft: async (own = name, node) => {
      const { permits } = keysOf(own);
      const range = ["0", "0", "WITHSCORES"] as const;
      const [now, found] = await Promise.all([
        fixture.now(node),
        node ? node.call("ZRANGE", permits, ...range) : fixture.db.zrange(permits, ...range),
      ]);
      const [, ending = 0] = found as string[];
      return Number(ending) - now;
    },
    setMsLeft: async (ms) => {
      const { permits } = keysOf(name);
      const [permitRecord = ""] = await fixture.db.zrange(permits, "0", "0");
      await fixture.db.zadd(permits, "XX", (await fixture.now()) + ms, permitRecord);
    },
    used: fixture.used,
    scriptCalls: fixture.scriptCalls,
    timeoutOf: () => ({ code: "KIT_SEMAPHORE_TIMEOUT" }),
    fullCode: "KIT_SEMAPHORE_QUEUE_FULL",
    lostCode: "KIT_PERMIT_LOST",
    takenReason: "expired",
    lastSeen: "1 of 1 permits in use",
    acquired: { weight: 1 },
    spoilt: { "a weight that is none": { weight: "1" }, "a tenant that is none": { tenant: 7 } },
    module: new URL("programs/leaser.mjs", import.meta.url),
  };
};
