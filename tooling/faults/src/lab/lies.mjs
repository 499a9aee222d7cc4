// The base of modules that wrap a package and tell one lie.

/** Binds methods to the target, since private fields do not work through a proxy. */
const bound = (target, key) => {
  const value = Reflect.get(target, key, target);
  return typeof value === "function" ? value.bind(target) : value;
};

/** A proxy of `target` in which the members of `overrides` replace its own. */
export const lying = (target, overrides) =>
  new Proxy(target, { get: (_, key) => (Object.hasOwn(overrides, key) ? overrides[key] : bound(target, key)) });

const lateMs = 1_000;

/** A signal that aborts with the same reason a second later. */
export const late = (signal) => {
  const controller = new AbortController();
  const abort = () => setTimeout(() => controller.abort(signal.reason), lateMs);
  if (signal.aborted) abort();
  else signal.addEventListener("abort", abort, { once: true });
  return controller.signal;
};
