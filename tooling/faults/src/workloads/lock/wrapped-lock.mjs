// Controls: the lock as its callers see it, with one lie. Which one says the query of the address it is imported by.
import { createLock as createTrueLock } from "@kit/lock";

const lateMs = 1_000;

/** A signal that aborts with the same reason, later. */
const late = (signal) => {
  const controller = new AbortController();
  const abort = () => setTimeout(() => controller.abort(signal.reason), lateMs);
  if (signal.aborted) abort();
  else signal.addEventListener("abort", abort, { once: true });
  return controller.signal;
};

const firstTokens = new Map();
const firstTokenOf = ({ name, fencingToken }) => {
  if (!firstTokens.has(name)) firstTokens.set(name, fencingToken);
  return firstTokens.get(name);
};

/** What a lease says that is not so. */
const lies = {
  "late-abort": (lease) => ({ signal: late(lease.signal) }),
  "release-denies": (lease) => ({ release: () => lease.release().then(() => "not-held") }),
  "fence-stands-still": (lease) => ({ fencingToken: firstTokenOf(lease) }),
};
const lie = lies[new URL(import.meta.url).search.slice(1)];

/** Methods keep their own `this`: private fields know no proxies. */
const bound = (target, key) => {
  const value = Reflect.get(target, key, target);
  return typeof value === "function" ? value.bind(target) : value;
};

const lying = (target, told) =>
  new Proxy(target, { get: (_, key) => (Object.hasOwn(told, key) ? told[key] : bound(target, key)) });
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
