import { late, leasing, made } from "../../lab/lies.mjs";

const firstTokens = new Map();
const firstTokenOf = ({ name, fencingToken }) => {
  if (!firstTokens.has(name)) firstTokens.set(name, fencingToken);
  return firstTokens.get(name);
};

const aLease =
  (lie) =>
  ({ createLock }) => ({ createLock: leasing(createLock, lie) });

const keptMs = 3_000;

/** Half of the names stay with the holder of a set that was lost or not granted, for a while. */
const keepingHalf = (lock) => {
  const keep = (names, { holder }) => {
    for (const name of names.slice(0, Math.ceil(names.length / 2)))
      lock.tryAcquire(name, { holder }).then(
        (lease) => lease && setTimeout(() => lease.release().catch(() => undefined), keptMs).unref(),
        () => undefined,
      );
  };
  const told = (names, options, set) => {
    if (set) set.signal.addEventListener("abort", () => keep(names, options), { once: true });
    else keep(names, options);
    return set;
  };
  return {
    tryAcquireAll: async (names, options) => told(names, options, await lock.tryAcquireAll(names, options)),
    acquireAll: async (names, options) => told(names, options, await lock.acquireAll(names, options)),
  };
};

export const lies = {
  "set-keeps-half": ({ createLock }) => ({ createLock: made(createLock, keepingHalf) }),
  "late-abort": aLease((lease) => ({ signal: late(lease.signal) })),
  "release-denies": aLease((lease) => ({ release: () => lease.release().then(() => "not-held") })),
  "fence-stands-still": aLease((lease) => ({ fencingToken: firstTokenOf(lease) })),
  /** The lock is right, and the worker's register accepts everything. */
  unfenced: () => ({}),
};
