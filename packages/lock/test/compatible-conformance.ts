import { conforming } from "@tooling/vitest/conformance";
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
      options: compatibleAcquireRules,
      run: (lock, options: CompatibleAcquireOptions) => lock.acquire(name, bounded(options)),
      named: (lock, named) => lock.acquire(named),
      trace: ["kit:compatible-lock.acquire", { name, waitMs }],
    },
    "acquire, waiting": {
      options: compatibleAcquireRules,
      prepare: hold,
      run: (lock, options: CompatibleAcquireOptions) => lock.acquire(name, options),
      waits: true,
    },
    tryAcquire: {
      options: compatibleTryRules,
      run: (lock, options: CompatibleTryOptions) => lock.tryAcquire(name, options),
      named: (lock, named) => lock.tryAcquire(named),
      trace: ["kit:compatible-lock.acquire", { name, waitMs: 0 }],
    },
    using: {
      options: compatibleAcquireRules,
      run: (lock, options: CompatibleAcquireOptions) => lock.using(name, () => 1, bounded(options)),
      named: (lock, named) => lock.using(named, () => 1),
    },
    resume: {
      prepare: async (lock) => (await hold(lock)).serialise(),
      run: (lock, _options, text: string) => lock.resume(text),
    },
    "lease.extend": {
      prepare: hold,
      run: (_lock, _options, lease: CompatibleLease) => lease.extend(),
      closed: "KIT_LOCK_LOST",
    },
    "lease.release": {
      prepare: hold,
      run: (_lock, _options, lease: CompatibleLease) => lease.release(),
      closed: "not-held",
      trace: ["kit:compatible-lock.release", { name }],
    },
  },
});
