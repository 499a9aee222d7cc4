import { acquireCalls, conforming, leaseCalls, wakesByRelease } from "@tooling/vitest/conformance";
import type { AcquireOptions, TryOptions } from "../src/index.js";
import { acquireRules, readWriteLockRules, tryRules } from "../src/options.js";
import { createReadWriteLock, type ReadWriteLock, type WriteLease } from "../src/read-write/index.js";

const name = "prices";
const hold = (lock: ReadWriteLock): Promise<WriteLease> => lock.write.acquire(name);

const callsOf = (mode: "read" | "write"): ReturnType<typeof acquireCalls<ReadWriteLock>> =>
  acquireCalls<ReadWriteLock>({
    name,
    what: "read-write-lock",
    options: acquireRules,
    tryOptions: tryRules,
    hold,
    method: (plain) => `${mode}.${plain}`,
    acquire: (lock, options: AcquireOptions, own) => lock[mode].acquire(own, options),
    tryAcquire: (lock, options: TryOptions, own) => lock[mode].tryAcquire(own, options),
    using: (lock, options: AcquireOptions, own) => lock[mode].using(own, () => 1, options),
  });

/** A read/write lock, for the conformance suites. */
export const readWrite: ReturnType<typeof conforming> = conforming<ReadWriteLock>({
  what: "a read/write lock",
  make: (client, options) => createReadWriteLock(client, options),
  options: readWriteLockRules,
  refused: { durable: [true, { replicas: 0 }, { fsync: "always" }, { waitMs: 5 }] },
  uses: (lock) => lock.read.using("used", () => 1),
  wakes: { "write.acquire": wakesByRelease((lock) => lock.read.acquire(name), hold) },
  calls: {
    ...callsOf("read"),
    ...callsOf("write"),
    inspect: { prepare: hold, run: (lock) => lock.inspect(name), named: (lock, named) => lock.inspect(named) },
    ...leaseCalls<ReadWriteLock>({
      what: "read-write-lock",
      name,
      lostCode: "KIT_LOCK_LOST",
      hasFencingToken: true,
      hold,
    }),
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
  },
});
