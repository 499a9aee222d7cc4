import { detachedTimeout } from "./async-context.js";

/** A timer that fires this late shows that the event loop was blocked. */
const stallMs = 50;
/** Shorter stalls are normal on a busy machine, so messages don't mention them. */
const namedMs = 250;
/**
 * The maximum extension of a deadline that passed during a stall. The first turn of the event loop reads replies that have arrived
 * and sends commands that were held up.
 */
const longestExtensionMs = 1_000;

/** The latest stall of the event loop that was noticed. It may still last. */
let stalledFrom = Infinity;
let stalledTo = -Infinity;

/** The end of a call, on the monotonic clock, which never jumps like `Date` can. */
export class Deadline {
  #at: number;
  readonly #extensionMs: number;
  /** How long the event loop was blocked after the deadline, in milliseconds; 0 if it was not. */
  #stalledMs = 0;

  /** `extensionMs`: the extra time if the event loop was blocked when the deadline passed; 0 for none. */
  constructor(at: number, extensionMs = 0) {
    this.#at = at;
    this.#extensionMs = extensionMs;
    // The timer shows whether the loop turns at that instant.
    if (extensionMs > 0 && at < timerAt) arm(at);
  }

  /**
   * The end of a wait for another process. If the event loop is blocked when the deadline passes, the wait gets extra time after it
   * is free again: as long as the whole wait, up to one second. This happens once.
   */
  static in(ms: number): Deadline {
    return new Deadline(performance.now() + ms, Math.min(ms, longestExtensionMs));
  }

  /** The instant, in the time of `performance.now()`. */
  get at(): number {
    return this.#at;
  }

  get remainingMs(): number {
    const now = performance.now();
    // A timer may fire a moment early.
    if (this.#at <= now + 1 && this.#extensionMs > 0 && this.#stalledMs === 0) {
      noticeStall(now);
      if (this.#at >= stalledFrom && this.#at <= stalledTo + 1) {
        this.#stalledMs = stalledTo - stalledFrom;
        this.#at = stalledTo + this.#extensionMs;
      }
    }
    return this.#at - now;
  }

  /** The part of a message that reports the stall in which the deadline passed. Empty if there was none. */
  get stall(): string {
    const seconds = (this.#stalledMs / 1_000).toFixed(1);
    return this.#stalledMs > namedMs ? `; the event loop was blocked for at least ${seconds} s` : "";
  }
}

// setTimeout accepts 31 bits; a longer time would fire immediately.
const longestTimer = 2 ** 31 - 1;

// One timer for all deadlines, set for the nearest. Nearly every call ends long before its own deadline, and setting and
// clearing a timer would cost more than the rest of the call.
const waiting: Timed[] = [];
let holders = 0;
let timer: NodeJS.Timeout | undefined;
let timerAt = Infinity;

/** An object with a deadline. `late()` is called when the deadline has passed. */
export abstract class Timed {
  readonly deadline: Deadline;
  /** Its index in the heap, or -1 when it no longer waits. */
  #index: number = waiting.length;
  readonly #holdsProcess: boolean;
  #immediate: NodeJS.Immediate | undefined;

  /**
   * `holdsProcess`: keeps the process alive until the deadline. A wait on a socket does not need this, because the socket keeps the
   * process alive.
   */
  constructor(deadline: Deadline, holdsProcess: boolean) {
    this.deadline = deadline;
    this.#holdsProcess = holdsProcess;
    if (holdsProcess && holders++ === 0) timer?.ref();
    waiting.push(this);
    if (deadline.at < timerAt) arm(deadline.at);
  }

  /** Called once, at the deadline, unless `forget()` was called before. */
  protected abstract late(): void;

  forget(): void {
    clearImmediate(this.#immediate);
    if (this.#index < 0) return;
    const last = waiting.pop();
    if (last && last !== this) {
      waiting[this.#index] = last;
      last.#index = this.#index;
    }
    this.#index = -1;
    if (this.#holdsProcess && --holders === 0) timer?.unref();
  }

  /**
   * Called when the timer has fired. Replies that are already in the socket are read first. After a blocked event loop, timers fire
   * before those replies are read, and a busy client would look like a silent server.
   */
  isDue(): boolean {
    if (this.deadline.remainingMs > 1) return false;
    this.#immediate ??= setImmediate(() => {
      this.#immediate = undefined;
      this.forget();
      this.late();
    });
    return true;
  }
}

const arm = (at: number): void => {
  clearTimeout(timer);
  const now = performance.now();
  timerAt = Math.max(at, now);
  timer = detachedTimeout(look, Math.min(Math.ceil(timerAt - now), longestTimer));
  if (holders === 0) timer.unref();
};

/** Records a stall if the timer should already have fired. */
const noticeStall = (now: number): void => {
  if (now - timerAt <= stallMs) return;
  stalledFrom = timerAt;
  stalledTo = now;
};

const look = (): void => {
  noticeStall(performance.now());
  timer = undefined;
  timerAt = Infinity;
  let nearest = Infinity;
  for (const timed of waiting) if (!timed.isDue()) nearest = Math.min(nearest, timed.deadline.at);
  if (nearest < Infinity) arm(nearest);
};

class Alarm extends Timed {
  readonly #ring: () => void;

  constructor(deadline: Deadline, ring: () => void) {
    super(deadline, true);
    this.#ring = ring;
  }

  protected override late(): void {
    this.#ring();
  }
}

/**
 * Calls `late` at `deadline`, but only after replies that are already in the socket were read. Returns a function that cancels it.
 */
export const atDeadline = (deadline: Deadline, late: () => void): (() => void) => {
  const alarm = new Alarm(deadline, late);
  return () => alarm.forget();
};

const listeners = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Calls `listener` when `signal` aborts, or immediately if it already has. All waits on a signal share one listener, because
 * long-lived signals would otherwise warn of a leak. Returns a function that removes the listener.
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
