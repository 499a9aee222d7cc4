import { detachedTimeout, type Inbox } from "../kernel/index.js";
import { aliveMs } from "./kind.js";

/** A third of the time for which a waiter counts as alive. */
const heartbeatMs = aliveMs / 3;
/** How often to poll if pushes are forbidden, in milliseconds. */
const pollMs = 150;
/** The same while the inbox is being opened. Every waiter sends a heartbeat once it is open. */
const openingPollMs = 500;
/**
 * The delay for each position in the queue, in milliseconds. If a holder dies, the head's heartbeat comes first, and the others
 * follow one by one, because waiters ahead of them may be dead as well.
 */
const watchStepMs = 5;
const watchStepsMs = 100;
const longestTimerMs = 2 ** 31 - 1;

/**
 * Decides when the waiters of one name send their next heartbeat: about every five seconds, and when the holder's lease is over.
 */
export class HeartbeatTimer {
  readonly #inbox: Inbox;
  readonly #beat: () => void;
  #regular: NodeJS.Timeout | undefined;
  #watch: NodeJS.Timeout | undefined;
  /** When the watch ends, on the local monotonic clock. */
  #watchAt = Infinity;
  #failures = 0;

  constructor(inbox: Inbox, beat: () => void) {
    this.#inbox = inbox;
    this.#beat = beat;
  }

  /** Plans the next regular heartbeat, unless one is planned. */
  start(): void {
    if (!this.#regular) this.restart();
  }

  /** Plans the next regular heartbeat, counted from now. It comes sooner while heartbeats fail. */
  restart(): void {
    clearTimeout(this.#regular);
    const wait =
      this.#failures === 0 ? heartbeatMs * (0.8 + 0.4 * Math.random()) : Math.min(1_000, 50 * 2 ** this.#failures);
    this.#regular = detachedTimeout(this.#beat, wait);
  }

  /** Call this when the last heartbeat had a reply, or failed. */
  answered(isAnswered: boolean): void {
    this.#failures = isAnswered ? 0 : Math.min(this.#failures + 1, 5);
  }

  /**
   * Plans a heartbeat at the end of the holder's lease, unless one is planned earlier. -1: the lease has no end. -2: the lock is
   * free, and no waiter could be notified.
   */
  watch(msLeft: number, position: number): void {
    if (msLeft === -1) return;
    const isPolling = msLeft < 0 || !this.#inbox.isOpen;
    const everyMs = this.#inbox.isOpening ? openingPollMs : pollMs;
    const wait = isPolling ? Math.min(Math.max(msLeft, 0), everyMs) * (0.5 + Math.random()) : msLeft;
    const at = performance.now() + wait + 1 + Math.min(position * watchStepMs, watchStepsMs);
    if (at >= this.#watchAt) return;
    this.unwatch();
    this.#watchAt = at;
    const look = (): void => {
      this.#watchAt = Infinity;
      this.#beat();
    };
    this.#watch = detachedTimeout(look, Math.min(at - performance.now(), longestTimerMs));
  }

  unwatch(): void {
    clearTimeout(this.#watch);
    this.#watchAt = Infinity;
  }

  stop(): void {
    clearTimeout(this.#regular);
    this.#regular = undefined;
    this.unwatch();
  }
}
