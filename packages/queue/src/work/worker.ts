import { KitClosedError, type KitError, type RedisLike } from "@kit/core";
import {
  asKitError,
  backoffMs,
  type CloseOptions,
  Deadline,
  type ObjectLife,
  pause,
  TypedEmitter,
} from "@kit/core/toolkit";
import type { WorkerHealth, WorkerNow } from "../presence/index.js";
import { partsOf } from "../job/ids.js";
import { QueueCommands } from "../store/commands.js";
import type { QueueSettings } from "../store/options.js";
import { type WorkOptions, workRules, type WorkSettings, workSettings } from "./options.js";
import type { Reclaimed } from "../store/scripts/index.js";
import { appear } from "./appear.js";
import { followCancels } from "./cancels.js";
import { Condition } from "./condition.js";
import type { WorkerEvents } from "./events.js";
import { type FateHost, Fates } from "./fate.js";
import { Fetcher, nothing } from "./fetcher.js";
import { startThread } from "./heartbeat-thread.js";
import type { AnyJobs } from "../job/types.js";
import { Isolation } from "./isolation.js";
import { Pace } from "./pace.js";
import { Prefetched } from "./prefetched.js";
import { handlerOf, Runner } from "./runner.js";
import { takeIdWidth } from "../job/take-id.js";
import type { TakenJob } from "./taken.js";
import { threadOptions } from "../thread/options.js";
import type { Turn } from "./turn.js";

/** A worker of a queue with these jobs. In `dead` the job may have a name or data that the queue does not declare. */
export type WorkerOf<Jobs = AnyJobs> = Omit<Worker, keyof TypedEmitter<WorkerEvents>> &
  TypedEmitter<WorkerEvents<Jobs>>;

/** Retryable errors are retried soon. Others need a person, for example to grant a permission or change a setting of the server. */
const retryMs = ({ retryable }: KitError, attempt: number): number =>
  retryable ? backoffMs(attempt + 1, 50, 2_000) : 250 + backoffMs(attempt + 1, 250, 4_750);

/** How long handlers can take to finish after their signal aborts if the client has ended, because no lease can be renewed then. */
const endedGraceMs = 100;

/**
 * Runs the jobs of one queue. Create it with `queue.work()`.
 *
 * Jobs run at least once. If a worker dies, its jobs run again on another worker once their leases have expired, so handlers must tolerate
 * a repeat. Jobs are taken in order. With several handlers or workers they can finish in any order.
 */
export class Worker extends TypedEmitter<WorkerEvents> implements AsyncDisposable {
  readonly #settings: WorkSettings;
  readonly #commands: QueueCommands;
  readonly #life: ObjectLife;
  readonly #turn: Turn | undefined;
  readonly #pace = new Pace();
  readonly #fetcher: Fetcher;
  readonly #isolation: Isolation;
  readonly #prefetched: Prefetched;
  readonly #runner: Runner;
  /** Suspects whose start is being recorded, and failed jobs that wait for the caller's `backoff`. */
  #undecided = 0;
  /** The last try to open the queue failed: the server is unreachable, refuses, or has a newer layout. */
  #isShut = false;
  /** The queue was opened at least once. */
  #isOpen = false;
  #isPaused = false;
  readonly #rest = new Condition(() => this.#isAtRest);

  /** Only this package calls it. */
  constructor(
    redis: RedisLike,
    name: string,
    settings: QueueSettings,
    handlers: object,
    options: WorkOptions,
    onClosed: () => void,
    turn?: Turn,
  ) {
    super();
    this.#settings = workSettings(options);
    const thread = threadOptions(redis, this.#settings.heartbeat);
    this.#turn = turn;
    const functions = handlerOf(handlers, settings.schemas);
    const { backoff, maxCrashes, maxSnoozes } = this.#settings;
    const events = { error: (error: KitError): void => this.emit("error", error), evictable: () => undefined };
    const what = `The worker of queue ${JSON.stringify(name)}`;
    this.#commands = new QueueCommands(turn?.client ?? redis, name, settings, events, what, !turn?.client);
    this.#life = this.#commands.life;
    this.#fetcher = new Fetcher(this.#commands, this.#settings, settings, {
      demand: (pending, ending) =>
        this.#life.isClosed ? nothing : this.#prefetched.demand(pending, ending, this.#isolation.most),
      deliver: (jobs) => this.#deliver(jobs),
      wakeups: turn?.wakeups,
      ended: (ending, isAccepted) => {
        fates.ended(ending, isAccepted);
        this.#prefetched.settled(ending.job);
      },
      lost: (job) => fates.lost(job),
      stopped: () => void this.#fetcher.handBack(this.#prefetched.clear()),
      cancelled: (job) => {
        fates.cancelled(job);
        this.#prefetched.settled(job);
      },
      emptied: () => this.#turn?.changed(),
      reclaimed: (leases) => this.#onReclaimed(leases),
      dropped: (count) => this.emit("dropped", { count }),
    });
    const host: FateHost = {
      completed: (job) => this.hasListeners("completed") && this.emit("completed", { job }),
      failed: (job, error, retryInMs) => {
        this.emit("failed", { job, error, retryInMs });
        if (retryInMs === undefined) this.emit("dead", { job, error });
      },
      snoozed: (job, error, retryInMs) => this.emit("snoozed", { job, error, retryInMs }),
      holding: (job) => this.#prefetched.hold(job),
      lost: (job) => this.emit("lost", { job }),
      cancelled: (job) => this.emit("cancelled", { job }),
      expired: (job) => this.emit("expired", { job }),
      error: events.error,
      waitFor: (decision) => void this.#waitFor(decision),
    };
    const fates = new Fates(this.#fetcher, host, backoff, maxSnoozes, settings.maxPayloadBytes);
    this.#isolation = new Isolation(this.#commands, maxCrashes, (job) => this.#fetcher.leases.lose(job));
    this.#runner = new Runner(name, functions, turn, this.#pace, fates, () => this.#onFreed());
    this.#prefetched = new Prefetched(this.#settings, this.#fetcher, this.#runner, this.#pace, turn);
    const stopListening = this.#commands.context.executor.onDrop(() => this.#closeIfEnded());
    this.#life.onClosed(stopListening, onClosed);
    if (this.#settings.cancelBy === "push")
      this.#life.onClosed(followCancels(redis, this.#commands, this.#fetcher.leases));
    void this.#open(redis, thread, Object.keys(handlers));
  }

  /** How many handlers can run at a time. */
  get concurrency(): number {
    return this.#settings.concurrency;
  }

  /**
   * Changes how many handlers can run at a time. Running handlers continue.
   *
   * @throws {TypeError | RangeError} the value is not an integer from 1 to 10,000.
   */
  set concurrency(value: number) {
    this.#settings.concurrency = workRules.concurrency.check("concurrency", value);
    this.#prefetched.start();
    this.#fetcher.pump();
  }

  /** How many handlers are running. */
  get running(): number {
    return this.#runner.running;
  }

  /** Whether the worker is paused, from `pause()` until `resume()`. */
  get isPaused(): boolean {
    return this.#isPaused;
  }

  /**
   * Pauses this worker. It immediately stops taking and starting jobs, and hands jobs that it took ahead back to the front of the queue.
   * Running handlers continue: the worker renews their leases and records their results. This call does not wait for them; `running` counts
   * them. Other workers of the queue continue. A restart ends the pause. To pause a queue for all workers, use `pauseQueue()` of
   * `@kit/queue/manage`.
   *
   * Resolves once all jobs that have not started are back on the server. If the server cannot be reached for `deadlineMs`, the call
   * resolves anyway, and the jobs go back after the outage. Never rejects. Has no effect on a closed worker.
   */
  async pause(): Promise<void> {
    if (this.#life.isClosed) return;
    this.#isPaused = true;
    this.#fetcher.stopTaking();
    void this.#fetcher.handBack(this.#prefetched.clear());
    this.#turn?.changed();
    this.#fetcher.leases.presence?.changed();
    await this.#fetcher.stopped.until(Deadline.in(this.#commands.deadlineMs));
  }

  /** Ends `pause()`: the worker takes jobs again. Has no effect on a closed worker, or without a pause. */
  resume(): void {
    if (!this.#isPaused || this.#life.isClosed) return;
    this.#isPaused = false;
    this.#fetcher.leases.presence?.changed();
    if (this.#isOpen) this.#fetcher.start();
  }

  /**
   * Reports whether the worker works. Reads from the server once, and resolves within `deadlineMs`. Never rejects. Its numbers are no older
   * than the worker's last heartbeat. While the event loop is blocked, a probe gets no reply at all.
   *
   * @example
   * const { isAlive, isReady } = await worker.health();
   */
  async health(): Promise<WorkerHealth> {
    const { workerHealth } = await import("../presence/index.js");
    return await workerHealth(this.#commands, this.#fetcher.leases.presence?.vitals());
  }

  /** @internal Its queue was empty when the worker last looked. */
  get isEmpty(): boolean {
    return this.#prefetched.count === 0 && this.#fetcher.isWaiting;
  }

  /** @internal It has no job to start: its queue is empty or cannot be reached, or the worker is closing or paused. */
  get isQuiet(): boolean {
    if (this.#life.isClosed || this.#isPaused || this.#isShut) return true;
    return this.isEmpty || (this.#prefetched.count === 0 && this.#fetcher.isFailing);
  }

  /** @internal It may be this worker's turn. */
  look(): void {
    this.#prefetched.start();
    this.#fetcher.schedule();
  }

  /**
   * Closes the worker:
   *
   * 1. It immediately stops taking jobs, hands back the jobs that have not started, and aborts `job.closing` of the others.
   * 2. It waits for the running handlers, up to `timeoutMs`, then aborts the `signal` of the remaining ones.
   * 3. It waits for these handlers, up to `abortGraceMs`. Their jobs stay leased, so no other worker starts a job while its handler saves
   *   its state. Then it hands the jobs back without counting an attempt.
   *
   * Resolves once the server has recorded all results. If the server cannot be reached, resolves after another `deadlineMs`. Idempotent:
   * the options of the first call apply.
   *
   * @throws {TypeError | RangeError} an option is invalid. Nothing else throws.
   */
  async close(options: CloseOptions = {}): Promise<void> {
    await this.#life.close(options, (deadline) => this.#close(deadline));
  }

  /** Same as `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #open(redis: RedisLike, thread: ReturnType<typeof threadOptions>, handled: readonly string[]): Promise<void> {
    for (let attempt = 1; !this.#life.isClosed; attempt++)
      try {
        await this.#commands.open();
        this.#isShut = false;
        this.#commands.outage.worked("opening");
        if (thread && !this.#isOpen)
          await startThread(this.#commands, this.#fetcher.leases, this.#settings, redis, thread);
        if (this.#life.isClosed) return;
        void appear(this.#commands, this.#fetcher.leases, handled, () => this.#now());
        this.#isOpen = true;
        if (!this.#isPaused) this.#fetcher.start();
        return;
      } catch (reason) {
        const error = asKitError(reason, "Opening the queue");
        this.#isShut = true;
        this.#closeIfEnded();
        if (this.#life.isClosed) return;
        this.#commands.outage.failed("opening", error);
        this.#turn?.changed();
        await pause(retryMs(error, attempt));
      }
  }

  /** A worker whose client has ended can neither take nor end jobs: it emits the reason, and closes. */
  #closeIfEnded(): void {
    if (!this.#commands.context.executor.isEnded || this.#life.isClosed) return;
    this.emit("error", new KitClosedError("The client of the queue"));
    void this.close({ timeoutMs: 0 });
  }

  async #close(deadline: Deadline): Promise<void> {
    this.#fetcher.stopTaking();
    const reason = this.#life.closedError();
    const isRunning = ({ state }: TakenJob): boolean => state === "running";
    for (const job of this.#fetcher.leases.jobs.filter(isRunning)) job.announceClosing(reason);
    // If a handler closes its worker, its own job is still among the prefetched ones. `settle()` waits for this call.
    void this.#fetcher.handBack(this.#prefetched.clear());
    this.#turn?.changed();
    await this.#rest.until(deadline);
    if (!this.#isAtRest) {
      for (const job of this.#fetcher.leases.jobs.filter(isRunning)) job.stop(reason);
      const { isEnded } = this.#commands.context.executor;
      await this.#rest.until(Deadline.in(isEnded ? endedGraceMs : this.#settings.abortGraceMs));
      // All jobs that have not ended yet.
      void this.#fetcher.handBack(this.#fetcher.leases.jobs.filter(({ state }) => state !== "ending"));
    }
    const end = Deadline.in(this.#commands.deadlineMs);
    await this.#fetcher.settle(end);
    await this.#fetcher.leases.presence?.leave(end);
    this.#fetcher.dispose();
  }

  #now(): WorkerNow {
    const { name, concurrency } = this.#settings;
    return {
      ...{ id: this.#fetcher.workerId, name, concurrency, running: this.running },
      ...{ isOpen: this.#isOpen && !this.#isShut, isWanting: this.#fetcher.isWanting },
      state: this.#life.isClosed ? "closing" : this.#isPaused ? "paused" : "running",
    };
  }

  get #isAtRest(): boolean {
    return this.#runner.running + this.#undecided === 0;
  }

  #deliver(jobs: readonly TakenJob[]): void {
    this.#pace.taken(jobs);
    const returned: TakenJob[] = [];
    const free: TakenJob[] = [];
    for (const job of jobs) {
      const admitted = this.#isolation.admit(job, jobs.length === 1);
      if (admitted === "free") free.push(job);
      else if (admitted === "excluded") returned.push(job);
      else void this.#waitFor(this.#begin(job));
    }
    void this.#fetcher.handBack(returned);
    this.#prefetched.add(free);
  }

  async #begin(suspect: TakenJob): Promise<void> {
    const isRecorded = await this.#isolation.begin(suspect);
    if (suspect.state === "held") {
      if (!isRecorded) return await this.#fetcher.handBack([suspect]);
      this.#prefetched.add([suspect]);
    }
    this.#fetcher.schedule();
  }

  #onFreed(): void {
    if (this.#turn) this.#turn.changed();
    else if (this.#prefetched.count > 0) this.#prefetched.start();
    this.#rest.look();
    this.#fetcher.schedule();
  }

  /** Leases of other workers expired, or a lease that this worker had before it was paused. */
  #onReclaimed(leases: readonly Reclaimed[]): void {
    for (const { member, crashes, isDead, isGone } of leases)
      if (!isGone) this.emit("crashed", { id: partsOf(member.slice(takeIdWidth)).id, crashes, isDead });
  }

  /** `close()` waits until the worker has decided whether a job starts, or when it runs again. */
  async #waitFor(decision: Promise<void>): Promise<void> {
    this.#undecided++;
    await decision;
    this.#undecided--;
    this.#rest.look();
  }
}
