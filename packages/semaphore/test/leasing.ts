import { connect } from "@kit/core";
import * as testing from "@kit/testing";
import type { Leaser, Leasing } from "@tooling/vitest/conformance";
import { createSemaphore, type Semaphore, type SemaphoreOptions } from "../src/index.js";
import { enqueue, fixtureOf, name, works } from "./harness.js";

type Client = Parameters<typeof createSemaphore>[0];

/** With `common` options of each of its acquires. */
const leaserOf = (semaphore: Semaphore, common: object = {}): Leaser => ({
  acquire: (options) => semaphore.acquire({ ...common, ...options }),
  tryAcquire: (options) => semaphore.tryAcquire({ ...common, ...options }),
  enqueue: (options) => enqueue(semaphore, { ...common, ...options }),
  inspect: () => semaphore.inspect(),
  resume: (text) => semaphore.resume(text),
  close: (options) => semaphore.close(options),
  onError: (listener) => semaphore.on("error", listener),
  once: (event, listener) => semaphore.once(event, listener),
});

/** A semaphore with one permit, for the leasing suites. */
export const leasingOf = (redis: testing.TestRedis): Leasing => {
  const fixture = fixtureOf(redis);
  return {
    ground: { connect, ...testing, redis },
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
    shown: ({ holder }) => ({ holder, weight: 1 }),
    working: (client, own = name) => {
      const group = fixture.on(client as Client, { name: own, permits: 5, permitsPerTenant: 3 });
      return { works: () => works(group), close: () => group.close() };
    },
    spawn: async () => {
      const peer = await fixture.spawn({ permits: 1 });
      return { acquire: () => peer.acquire(), kill: () => peer.kill() };
    },
    untilWaiting: (waiters) => fixture.untilWaiting(name, waiters),
    keysOf: fixture.keysOf,
    heldKey: (own) => fixture.keysOf(own).permits,
    lastingKey: (own) => fixture.keysOf(own).meta,
    timeoutOf: () => ({ code: "KIT_SEMAPHORE_TIMEOUT" }),
    lostCode: "KIT_PERMIT_LOST",
    lastSeen: "1 of 1 permits in use",
    acquired: { weight: 1 },
    spoilt: { "a weight that is none": { weight: "1" }, "a tenant that is none": { tenant: 7 } },
    module: new URL("programs/leaser.mjs", import.meta.url),
  };
};
