import { flagged } from "../job/words.js";

/** The minimum time between two looks for due jobs and ended leases, unless there is a reason for one. */
const lookEveryMs = 5;
/** How long an idle worker goes without the server's time, which costs a command. */
const timeEveryMs = 45_000;
/** How late completed jobs are counted. */
const countEveryMs = 1_000;
/** The maximum time until a worker lets the server drop dead letters that are too old. */
const dropEveryMs = 60_000;

/**
 * Decides what a worker's step does in addition to ending and taking jobs. It looks for due jobs and ended leases, replies with the
 * server's time, wakes the idle workers, and counts completed jobs.
 */
export class Maintenance {
  readonly #leaseMs: number;
  readonly #onDue: () => void;
  /** The next step must look for due jobs and ended leases. */
  mustLook = true;
  /** The next step must leave its time in the queue, see `contact.lua`. */
  mustContact = false;
  #lookedAt = -Infinity;
  /** When a reply last had the server's time. */
  #timedAt = -Infinity;
  /** When a step last woke the idle workers, so that they watch this worker's leases. */
  #announcedAt = -Infinity;
  /** Completed jobs that the server has not counted yet. */
  completed = 0;
  #countedAt = 0;
  #countTimer: NodeJS.Timeout | undefined;

  /** `onDue`: a step is due, even though there is nothing to end or to take. */
  constructor(leaseMs: number, onDue: () => void) {
    this.#leaseMs = leaseMs;
    this.#onDue = onDue;
  }

  /** The server's time came with a reply. */
  timed(): void {
    this.#timedAt = performance.now();
  }

  /** The idle workers were woken. */
  announced(): void {
    this.#announcedAt = performance.now();
  }

  /**
   * The flags of the next step, see `step.lua`. `isWoken`: it follows a wait. `isWaiting`: the worker waits meanwhile, so a marker or its
   * timer wakes it for due jobs and ended leases. `startsWork`: the step takes jobs while the worker has none. `isClockKnown`: the server's
   * clock has a bound on this connection.
   */
  flags(isWoken: boolean, isWaiting: boolean, startsWork: boolean, isClockKnown: boolean): string {
    const now = performance.now();
    const looks = isWoken || this.mustLook || (!isWaiting && now - this.#lookedAt >= lookEveryMs);
    if (looks) {
      this.#lookedAt = now;
      this.mustLook = false;
    }
    const isTimed = now - this.#timedAt >= timeEveryMs || !isClockKnown;
    const announces = startsWork && now - this.#announcedAt > this.#leaseMs / 2;
    return (
      flagged("woken", isWoken) + flagged("look", looks) + flagged("time", isTimed) + flagged("announce", announces)
    );
  }

  /**
   * The number of jobs to count with the next step, once a second, or immediately while the worker closes. Such a step also drops old dead
   * letters and makes contact. Empty: none of these is due.
   */
  take(isClosing: boolean): string {
    const now = performance.now();
    const isDue = isClosing
      ? this.completed > 0
      : this.mustContact || now - this.#countedAt >= (this.completed > 0 ? countEveryMs : dropEveryMs);
    if (!isDue) return "";
    this.mustContact = false;
    this.#countedAt = now;
    const text = String(this.completed);
    this.completed = 0;
    return text;
  }

  /** If no step counts the completed jobs within a second, a step is due. */
  schedule(): void {
    if (this.completed > 0)
      this.#countTimer ??= setTimeout(() => {
        this.#countTimer = undefined;
        this.mustLook = true;
        this.#onDue();
      }, countEveryMs).unref();
  }

  close(): void {
    clearTimeout(this.#countTimer);
  }
}
