/** The one end of a call, on the monotonic clock: `Date` may step, this does not. */
export class Deadline {
  /** The instant, as `performance.now()` counts. */
  readonly at: number;

  constructor(at: number) {
    this.at = at;
  }

  static in(ms: number): Deadline {
    return new Deadline(performance.now() + ms);
  }

  get remainingMs(): number {
    return this.at - performance.now();
  }
}

// setTimeout takes 31 bits; anything longer would fire at once.
const longestTimer = 2 ** 31 - 1;

/**
 * Calls `late` at `deadline`, but never before the replies that are already in the socket were read: after a blocked
 * event loop timers fire first, and would take a deaf client for a silent server. Returns what cancels it.
 */
export const atDeadline = (deadline: Deadline, late: () => void): (() => void) => {
  let immediate: NodeJS.Immediate | undefined;
  let timer: NodeJS.Timeout;
  const arm = (): void => {
    timer = setTimeout(look, Math.min(Math.max(Math.ceil(deadline.remainingMs), 0), longestTimer));
  };
  const look = (): void => {
    if (deadline.remainingMs > 1) arm();
    else immediate = setImmediate(late);
  };
  arm();
  return () => {
    clearTimeout(timer);
    if (immediate) clearImmediate(immediate);
  };
};

const listeners = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Calls `listener` when `signal` aborts (at once if it has). However many wait on one signal, it carries one listener of
 * ours: long-lived signals would otherwise warn of a leak. Returns what takes the listener off again.
 */
export const onAbort = (signal: AbortSignal | undefined, listener: () => void): (() => void) => {
  if (!signal) return () => undefined;
  if (signal.aborted) {
    listener();
    return () => undefined;
  }
  const known = listeners.get(signal);
  const waiting = known ?? new Set();
  const own = (): void => listener();
  waiting.add(own);
  if (!known) {
    listeners.set(signal, waiting);
    signal.addEventListener("abort", notify);
  }
  return () => {
    waiting.delete(own);
    if (waiting.size === 0 && listeners.get(signal) === waiting) {
      listeners.delete(signal);
      signal.removeEventListener("abort", notify);
    }
  };
};

function notify(this: AbortSignal): void {
  const waiting = listeners.get(this);
  listeners.delete(this);
  this.removeEventListener("abort", notify);
  for (const listener of waiting ?? []) listener();
}
