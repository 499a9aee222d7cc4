import { acquireCalls, conforming, leaseCalls, wakesByRelease } from "@tooling/vitest/conformance";
import {
  type CompatibleAcquireOptions,
  type CompatibleLease,
  type CompatibleLock,
  type CompatibleLockOptions,
  type CompatibleTryOptions,
  createCompatibleLock,
} from "../src/compatible/index.js";
import { compatibleAcquireRules, compatibleRules, compatibleTryRules } from "../src/compatible/options.js";

const name = "chest";
/** A value that nobody of ours wrote is another holder, without an end. */
const waitMs = 2_000;
const bounded = (options: CompatibleAcquireOptions | undefined): CompatibleAcquireOptions | undefined =>
  options === undefined || options?.constructor === Object ? { waitMs, ...options } : options;
const hold = (lock: CompatibleLock): Promise<CompatibleLease> => lock.acquire(name);

/** Its names are whole keys: in a test they begin with the prefix of that test, as the keys of others do. */
const apart = (options: CompatibleLockOptions | undefined): CompatibleLockOptions | undefined => {
  if (typeof options !== "object" || !Object.hasOwn(options, "prefix") || typeof options.prefix !== "string")
    return options;
  // The suites pollute prototypes.
  const given = Object.hasOwn(options, "keyPrefix") ? options.keyPrefix : undefined;
  return { ...options, keyPrefix: given === undefined ? `${options.prefix.slice(0, 60)}:` : given };
};

/** A compatible lock, for the conformance suites. */
export const compatible: ReturnType<typeof conforming> = conforming<CompatibleLock>({
  what: "a compatible lock",
  make: (client, options) => createCompatibleLock(client, apart(options)),
  options: compatibleRules,
  uses: (lock) => lock.using("used", () => 1),
  wakes: { acquire: wakesByRelease(hold) },
  calls: {
    ...acquireCalls<CompatibleLock>({
      name,
      what: "compatible-lock",
      options: compatibleAcquireRules,
      tryOptions: compatibleTryRules,
      waitMs,
      hold,
      acquire: (lock, options: CompatibleAcquireOptions, own) => lock.acquire(own, options),
      acquireSoon: (lock, options: CompatibleAcquireOptions, own) => lock.acquire(own, bounded(options)),
      tryAcquire: (lock, options: CompatibleTryOptions, own) => lock.tryAcquire(own, options),
      using: (lock, options: CompatibleAcquireOptions, own) => lock.using(own, () => 1, bounded(options)),
    }),
    ...leaseCalls<CompatibleLock>({ what: "compatible-lock", name, lostCode: "KIT_LOCK_LOST", hold }),
  },
});
