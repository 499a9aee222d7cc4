import { conforming } from "@tooling/vitest/conformance";
import { expect } from "vitest";
import type { AcquireOptions, TryOptions } from "../src/index.js";
import { acquireRules, readWriteLockRules, tryRules } from "../src/options.js";
import { createReadWriteLock, type ReadWriteLock, type WriteLease } from "../src/read-write/index.js";

const name = "prices";
const hold = (lock: ReadWriteLock): Promise<WriteLease> => lock.write.acquire(name);

type Calls = Parameters<typeof conforming<ReadWriteLock>>[0]["calls"];

const callsOf = (mode: "read" | "write"): Calls => ({
  [`${mode}.acquire`]: {
    options: acquireRules,
    run: (lock, options: AcquireOptions) => lock[mode].acquire(name, options),
    named: (lock, named) => lock[mode].acquire(named),
    trace: ["kit:read-write-lock.acquire", { name, waitMs: Infinity }],
  },
  [`${mode}.acquire, waiting`]: {
    options: acquireRules,
    prepare: hold,
    run: (lock, options: AcquireOptions) => lock[mode].acquire(name, options),
    waits: true,
  },
  [`${mode}.tryAcquire`]: {
    options: tryRules,
    run: (lock, options: TryOptions) => lock[mode].tryAcquire(name, options),
    named: (lock, named) => lock[mode].tryAcquire(named),
    trace: ["kit:read-write-lock.acquire", { name, waitMs: 0 }],
  },
  [`${mode}.using`]: {
    options: acquireRules,
    run: (lock, options: AcquireOptions) => lock[mode].using(name, () => 1, options),
    named: (lock, named) => lock[mode].using(named, () => 1),
  },
});

/** A read/write lock, for the conformance suites. */
export const readWrite: ReturnType<typeof conforming> = conforming<ReadWriteLock>({
  what: "a read/write lock",
  make: (client, options) => createReadWriteLock(client, options),
  options: readWriteLockRules,
  refused: { durable: [true, { replicas: 0 }, { fsync: "always" }, { waitMs: 5 }] },
  uses: (lock) => lock.read.using("used", () => 1),
  wakes: {
    "write.acquire": async (lock, settle) => {
      const held = await lock.read.acquire(name);
      const waiting = lock.write.acquire(name);
      await settle();
      await held.release();
      return await (await waiting).release();
    },
  },
  calls: {
    ...callsOf("read"),
    ...callsOf("write"),
    inspect: { prepare: hold, run: (lock) => lock.inspect(name), named: (lock, named) => lock.inspect(named) },
    resume: {
      prepare: async (lock) => (await hold(lock)).serialise(),
      run: (lock, _options, text: string) => lock.resume(text),
    },
    "lease.extend": {
      prepare: hold,
      run: (_lock, _options, lease: WriteLease) => lease.extend(),
      closed: "KIT_LOCK_LOST",
    },
    "lease.downgrade": {
      prepare: hold,
      run: (_lock, _options, lease: WriteLease) => lease.downgrade(),
      closed: "KIT_LOCK_LOST",
    },
    "lease.tryUpgrade": {
      prepare: (lock) => lock.read.acquire(name),
      run: (_lock, _options, lease: WriteLease) => lease.tryUpgrade(),
      closed: "KIT_LOCK_LOST",
    },
    "lease.release": {
      prepare: hold,
      run: (_lock, _options, lease: WriteLease) => lease.release(),
      closed: "not-held",
      trace: ["kit:read-write-lock.release", { name, fencingToken: expect.any(String) as string }],
    },
  },
});
