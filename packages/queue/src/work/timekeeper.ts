import type { StepReply } from "../store/scripts/index.js";
import type { Marker } from "./waiter.js";

/** How much longer the other workers wait, in case the timekeeper has died. */
const backupMs = { least: 50, spread: 200 };
/** The same for the time at which a rate lets the next job start. */
const startBackupMs = { least: 500, spread: 1_000 };
const longestTimerMs = 1_000_000_000;
/**
 * The share of a lease before its end at which a worker first makes contact with the queue. A longer silence looks like an outage, see
 * `contact.lua`. A little more than the time that the server then grants the holders of leases.
 */
const contactShare = 0.4;

/**
 * Wakes its worker when the next delayed job is due, or the next lease ends. One worker of a queue is the timekeeper, and wakes at exactly
 * that time. The others wait 50 to 250 ms longer.
 */
export class Timekeeper {
  readonly #leaseMs: number;
  readonly #onDue: (makesContact: boolean) => void;
  #isExact = false;
  #timer: NodeJS.Timeout | undefined;
  #isForDueJob = false;
  /** The timer for a due job has fired, and since then no reply has come from a step that looked for due jobs. */
  #hasFired = false;
  #startTimer: NodeJS.Timeout | undefined;
  /** The timer for the next start is exact, and has not fired. */
  #isStarter = false;
  /** The time of the last exact timer, in epoch ms of the server. */
  #startAt = 0;

  constructor(leaseMs: number, onDue: (makesContact: boolean) => void) {
    this.#leaseMs = leaseMs;
    this.#onDue = onDue;
  }

  /** Receives the next times from a step. `marker`: the marker that woke the worker for this step. */
  observe(reply: StepReply, marker: Marker | undefined): void {
    this.#judge(reply, marker);
    this.#arm(reply, marker === "timer" || marker === "backup");
  }

  /**
   * Receives the time at which the next job can start. If this worker's own step found that no job can start yet, it wakes at that time,
   * and again if a timer fired too early. A worker that only looked wakes later, in case the others have died.
   */
  observeStart({ nextStart = Infinity, nowMicros }: StepReply, isTaker: boolean): void {
    if (nextStart === Infinity || (this.#isStarter && !isTaker)) return;
    clearTimeout(this.#startTimer);
    this.#isStarter = isTaker || nextStart <= this.#startAt;
    if (this.#isStarter) this.#startAt = nextStart;
    const later = this.#isStarter ? 0 : startBackupMs.least + Math.random() * startBackupMs.spread;
    const waitMs = Math.min(longestTimerMs, Math.max(0, nextStart - nowMicros / 1_000) + later);
    this.#startTimer = setTimeout(() => {
      this.#isStarter = false;
      this.#onDue(false);
    }, Math.ceil(waitMs));
    this.#startTimer.unref();
  }

  stop(): void {
    clearTimeout(this.#timer);
    clearTimeout(this.#startTimer);
    this.#isStarter = false;
  }

  /** A worker that popped the marker `timer`, or found due work, becomes the timekeeper. A worker that came too late loses the role. */
  #judge({ promoted, nextDue = 0, nowMicros }: StepReply, marker: Marker | undefined): void {
    if (marker === "timer" || promoted > 0) this.#isExact = true;
    else if (this.#hasFired && nextDue - nowMicros / 1_000 > backupMs.least) this.#isExact = false;
    if (nextDue > 0) this.#hasFired = false;
  }

  #arm({ nextDue, nextEnd, nowMicros }: StepReply, isWoken: boolean): void {
    if (nextDue === undefined || nextEnd === undefined) return;
    clearTimeout(this.#timer);
    const now = nowMicros / 1_000;
    // The worker was woken to watch a lease that has already ended: any lease that replaces it ends no sooner than this.
    const woken = isWoken ? now + this.#leaseMs : Infinity;
    const contact = nextEnd - contactShare * this.#leaseMs;
    const isEarly = contact > now;
    const at = Math.min(nextDue, isEarly ? contact : nextEnd, woken);
    this.#isForDueJob = nextDue === at;
    if (at === Infinity) return;
    const later = this.#isExact ? 0 : backupMs.least + Math.random() * backupMs.spread;
    const waitMs = Math.min(longestTimerMs, Math.max(0, Math.ceil(at - now)) + later);
    this.#timer = setTimeout(() => {
      this.#hasFired = this.#isForDueJob;
      this.#onDue(isEarly && at === contact);
    }, waitMs);
    this.#timer.unref();
  }
}
