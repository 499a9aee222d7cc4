import { detachedTimeout } from "./async-context.js";

/** A timer that fires this much late shows that the event loop stood still. */
const stallMs = 50;
/** A shorter stall is usual on a busy machine, and no message names it. */
const namedMs = 250;
/**
 * The most that a deadline lasts longer after a stall in which it passed. The first turn reads the replies that came, and sends
 * the commands that could not go out.
 */
const longestExtensionMs = 1_000;

/** The latest stall of the event loop that was noticed; it may still last. */
let stalledFrom = Infinity;
let stalledTo = -Infinity;

/** The one end of a call, on the monotonic clock: `Date` may step, this does not. */
export class Deadline {
  #at: number;
  readonly #extensionMs: number;
  /** How long after the deadline the event loop stood still; 0: it did not. */
  #stalledMs = 0;

  /** `extensionMs`: by how much it lasts longer after a stall of the event loop in which it passed; 0: not at all. */
  constructor(at: number, extensionMs = 0) {
    this.#at = at;
    this.#extensionMs = extensionMs;
    // The timer shows whether the loop turns at that instant.
    if (extensionMs > 0 && at < timerAt) arm(at);
  }

  /**
   * The end of a wait for another process. If our event loop stands still when the deadline passes, the wait goes on when it turns
   * again, for as long as the whole wait, and at most for a second. Once.
   */
  static in(ms: number): Deadline {
    return new Deadline(performance.now() + ms, Math.min(ms, longestExtensionMs));
  }

  /** The instant, as `performance.now()` counts. */
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

  /** The part of a message that names the stall in which the deadline passed; else empty. */
  get stall(): string {
    const seconds = (this.#stalledMs / 1_000).toFixed(1);
    return this.#stalledMs > namedMs ? `; the event loop stood still for at least ${seconds} s` : "";
  }
}

// setTimeout takes 31 bits; anything longer would fire at once.
const longestTimer = 2 ** 31 - 1;

// One timer for all deadlines, set for the nearest. Nearly every call ends long before its own deadline, and setting and
// clearing a timer would cost more than the rest of the call.
const waiting: Timed[] = [];
let holders = 0;
let timer: NodeJS.Timeout | undefined;
let timerAt = Infinity;

/** An object with a deadline. Its `late()` is called when that has passed. */
export abstract class Timed {
  readonly deadline: Deadline;
  /** Its index in the heap; -1: it no longer waits. */
  #index: number = waiting.length;
  readonly #holdsProcess: boolean;
  #immediate: NodeJS.Immediate | undefined;

  /** `holdsProcess`: keeps the process alive until then. A wait on a socket does not need it: the socket does the same. */
  constructor(deadline: Deadline, holdsProcess: boolean) {
    this.deadline = deadline;
    this.#holdsProcess = holdsProcess;
    if (holdsProcess && holders++ === 0) timer?.ref();
    waiting.push(this);
    if (deadline.at < timerAt) arm(deadline.at);
  }

  /** Called once, at the deadline, unless `forget()` was before. */
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
   * The timer fired. Replies that are already in the socket are read first: after a blocked event loop timers fire before
   * they are read, and a busy client would be taken for a silent server.
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

/** Records a stall if the timer should have fired. */
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
 * Calls `late` at `deadline`, but never before the replies that are already in the socket were read. Returns a function that
 * cancels it.
 */
export const atDeadline = (deadline: Deadline, late: () => void): (() => void) => {
  const alarm = new Alarm(deadline, late);
  return () => alarm.forget();
};

const listeners = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Calls `listener` when `signal` aborts (at once if it has). However many wait on one signal, it has one listener of ours:
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
