import { acquireCalls, type Conformance, conforming, leaseCalls, wakesByRelease } from "@tooling/vitest/conformance";
import { type AcquireOptions, createLock, type Lease, type Lock, type TryOptions } from "../src/index.js";
import { acquireRules, lockRules, tryRules } from "../src/options.js";
import { works } from "./harness.js";
import { compatible } from "./compatible-conformance.js";
import { readWrite } from "./read-write-conformance.js";

const name = "chest";
const hold = (lock: Lock): Promise<Lease> => lock.acquire(name);
const acquiring = { options: acquireRules, tryOptions: tryRules, hold };

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
      wakes: { acquire: wakesByRelease(hold) },
      calls: {
        ...acquireCalls<Lock>({
          ...acquiring,
          name,
          what: "lock",
          acquire: (lock, options: AcquireOptions, own) => lock.acquire(own, options),
          tryAcquire: (lock, options: TryOptions, own) => lock.tryAcquire(own, options),
          using: (lock, options: AcquireOptions, own) => lock.using(own, () => 1, options),
        }),
        ...acquireCalls<Lock>({
          ...acquiring,
          name: "lamp",
          method: (plain) => `${plain}All`,
          acquire: (lock, options: AcquireOptions, own) => lock.acquireAll([name, own], options),
          tryAcquire: (lock, options: TryOptions, own) => lock.tryAcquireAll([name, own], options),
          using: (lock, options: AcquireOptions, own) => lock.usingAll([name, own], () => 1, options),
        }),
        inspect: { prepare: hold, run: (lock) => lock.inspect(name), named: (lock, named) => lock.inspect(named) },
        forceRelease: {
          prepare: hold,
          run: (lock) => lock.forceRelease(name),
          named: (lock, named) => lock.forceRelease(named),
        },
        ...leaseCalls<Lock>({ what: "lock", name, lostCode: "KIT_LOCK_LOST", hasFencingToken: true, hold }),
      },
    }),
    readWrite,
    compatible,
  ],
};
