// The base of controls that wrap a package and tell one lie.

/** Binds methods to the target, since private fields do not work through a proxy. */
const bound = (target, key) => {
  const value = Reflect.get(target, key, target);
  return typeof value === "function" ? value.bind(target) : value;
};

/** A proxy of `target` in which the members of `overrides` replace its own. */
export const lying = (target, overrides) =>
  new Proxy(target, { get: (_, key) => (Object.hasOwn(overrides, key) ? overrides[key] : bound(target, key)) });

/** A factory like `make`, whose objects have the members of `lie(object)` in place of their own. */
export const made =
  (make, lie) =>
  (...call) => {
    const object = make(...call);
    return lying(object, lie(object));
  };

/** A factory of a lock or semaphore like `make`, whose leases have the members of `lie(lease)` in place of their own. */
export const leasing = (make, lie) => {
  const told = (lease) => lease && lying(lease, lie(lease));
  const routine = (given) => (typeof given === "function" ? (lease) => given(told(lease)) : given);
  return made(make, (object) => ({
    acquire: async (...call) => told(await object.acquire(...call)),
    tryAcquire: async (...call) => told(await object.tryAcquire(...call)),
    resume: async (...call) => told(await object.resume(...call)),
    using: (...call) => object.using(...call.map(routine)),
  }));
};

const lateMs = 1_000;

/** A signal that aborts with the same reason a second later. */
export const late = (signal) => {
  const controller = new AbortController();
  const abort = () => setTimeout(() => controller.abort(signal.reason), lateMs);
  if (signal.aborted) abort();
  else signal.addEventListener("abort", abort, { once: true });
  return controller.signal;
};
