import { type Conformance, conforming } from "@tooling/vitest/conformance";
import { expect } from "vitest";
import { type AcquireOptions, createLock, type Lease, type Lock, type TryOptions } from "../src/index.js";
import { acquireRules, lockRules, tryRules } from "../src/options.js";
import { works } from "./harness.js";
import { compatible } from "./compatible-conformance.js";
import { readWrite } from "./read-write-conformance.js";

const name = "chest";
const hold = (lock: Lock): Promise<Lease> => lock.acquire(name);

/** A lock, for the conformance suites. */
export const conformance: Conformance = {
  name: "lock",
  tracesResults: true,
  hidesTokens: true,
  objects: [
    conforming<Lock>({
      what: "a lock",
      make: (client, options) => createLock(client, options),
      options: lockRules,
      refused: { durable: [true, { replicas: 0 }, { fsync: "always" }, { waitMs: 5 }] },
      uses: (lock) => lock.using("used", () => 1),
      works: (lock) => works(lock, "works"),
      wakes: {
        acquire: async (lock, settle) => {
          const held = await hold(lock);
          const waiting = lock.acquire(name);
          await settle();
          await held.release();
          return await (await waiting).release();
        },
      },
      calls: {
        acquire: {
          options: acquireRules,
          run: (lock, options: AcquireOptions) => lock.acquire(name, options),
          named: (lock, named) => lock.acquire(named),
          trace: ["kit:lock.acquire", { name, waitMs: Infinity }],
        },
        "acquire, waiting": {
          options: acquireRules,
          prepare: hold,
          run: (lock, options: AcquireOptions) => lock.acquire(name, options),
          waits: true,
        },
        tryAcquire: {
          options: tryRules,
          run: (lock, options: TryOptions) => lock.tryAcquire(name, options),
          named: (lock, named) => lock.tryAcquire(named),
          trace: ["kit:lock.acquire", { name, waitMs: 0 }],
        },
        using: {
          options: acquireRules,
          run: (lock, options: AcquireOptions) => lock.using(name, () => 1, options),
          named: (lock, named) => lock.using(named, () => 1),
        },
        acquireAll: {
          options: acquireRules,
          run: (lock, options: AcquireOptions) => lock.acquireAll([name, "lamp"], options),
          named: (lock, named) => lock.acquireAll([name, named]),
        },
        "acquireAll, waiting": {
          options: acquireRules,
          prepare: hold,
          run: (lock, options: AcquireOptions) => lock.acquireAll([name, "bow"], options),
          waits: true,
        },
        tryAcquireAll: {
          options: tryRules,
          run: (lock, options: TryOptions) => lock.tryAcquireAll([name, "lamp"], options),
          named: (lock, named) => lock.tryAcquireAll([name, named]),
        },
        usingAll: {
          options: acquireRules,
          run: (lock, options: AcquireOptions) => lock.usingAll([name, "lamp"], () => 1, options),
          named: (lock, named) => lock.usingAll([name, named], () => 1),
        },
        inspect: { prepare: hold, run: (lock) => lock.inspect(name), named: (lock, named) => lock.inspect(named) },
        forceRelease: {
          prepare: hold,
          run: (lock) => lock.forceRelease(name),
          named: (lock, named) => lock.forceRelease(named),
        },
        resume: {
          prepare: async (lock) => (await hold(lock)).serialise(),
          run: (lock, _options, text: string) => lock.resume(text),
        },
        "lease.extend": {
          prepare: hold,
          run: (_lock, _options, lease: Lease) => lease.extend(),
          closed: "KIT_LOCK_LOST",
        },
        "lease.release": {
          prepare: hold,
          run: (_lock, _options, lease: Lease) => lease.release(),
          closed: "not-held",
          trace: ["kit:lock.release", { name, fencingToken: expect.any(String) as string }],
        },
      },
    }),
    readWrite,
    compatible,
  ],
};
