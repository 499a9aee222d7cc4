// Controls: the API of a lock with one lie. The query of the import's URL names the lie.
import { createLock as createTrueLock } from "@kit/lock";
import { late, lying } from "../../lab/lies.mjs";

const firstTokens = new Map();
const firstTokenOf = ({ name, fencingToken }) => {
  if (!firstTokens.has(name)) firstTokens.set(name, fencingToken);
  return firstTokens.get(name);
};

/** Lies about a lease, by name. */
const lies = {
  "late-abort": (lease) => ({ signal: late(lease.signal) }),
  "release-denies": (lease) => ({ release: () => lease.release().then(() => "not-held") }),
  "fence-stands-still": (lease) => ({ fencingToken: firstTokenOf(lease) }),
};
const lie = lies[new URL(import.meta.url).search.slice(1)];

const lyingLease = (lease) => lease && lying(lease, lie(lease));

export const createLock = (...args) => {
  const lock = createTrueLock(...args);
  return lying(lock, {
    acquire: async (...call) => lyingLease(await lock.acquire(...call)),
    tryAcquire: async (...call) => lyingLease(await lock.tryAcquire(...call)),
    resume: async (...call) => lyingLease(await lock.resume(...call)),
    using: (name, routine, options) => lock.using(name, (lease) => routine(lyingLease(lease)), options),
  });
};
