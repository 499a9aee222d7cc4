import { KitClosedError, KitError, type RedisLike } from "@kit/core";
import type { StandardSchema } from "@kit/core/config";
import {
  asKitError,
  backoffMs,
  type CloseOptions,
  Deadline,
  type ObjectLife,
  OutageReporter,
  pause,
  TypedEmitter,
} from "@kit/core/toolkit";
import { type BackoffFunction, checkedWait, waitAfter } from "../add/backoff.js";
import { QueueCommands } from "../commands.js";
import { Condition } from "./condition.js";
import { JobBackoffError, JobLeaseLostError, JobTimeoutError, UnrecoverableError } from "../errors.js";
import { recordOf, storedError } from "../failure.js";
import { type AnyJob, type AnyJobs, handlerMap, type Handlers } from "./handlers.js";
import { partsOf } from "../add/ids.js";
import { type Demand, type Ending, Intake, nothing } from "./fetcher.js";
import type { Job } from "./job.js";
import { type QueueSettings, type WorkOptions, workRules, type WorkSettings, workSettings } from "../options.js";
import { hoardMs, Pace } from "./pace.js";
import { decodePayload, encodePayload } from "../add/payload.js";
import { check, isThenable } from "../add/schemas.js";
import { begin } from "../scripts/index.js";
import { takeIdWidth } from "./take-id.js";
import type { TakenJob } from "./taken.js";

/** Events of a worker. Each is emitted once the server has recorded it. */
export interface WorkerEvents<Jobs = AnyJobs> {
  readonly completed: readonly [event: { readonly job: AnyJob<Jobs> }];
  /** An attempt failed; it is tried again after `retryInMs`, or given up. */
  readonly failed: readonly [
    event: { readonly job: AnyJob<Jobs>; readonly error: unknown; readonly retryInMs: number | undefined },
  ];
  /** The job is a dead letter now. */
  readonly dead: readonly [event: { readonly job: AnyJob<Jobs>; readonly error: unknown }];
  /** A job was taken back from a worker that died or fell silent: it is ready again, or dead. */
  readonly crashed: readonly [event: { readonly id: string; readonly crashes: number; readonly isDead: boolean }];
  /** The lease of a job ended while its handler ran: another worker may run it, too. */
  readonly lost: readonly [event: { readonly job: AnyJob<Jobs> }];
  /**
   * A background operation failed. The worker tries on until it is closed, whatever the server says: an outage, or a refusal such as a
   * missing right, emits one error when it begins, and one with the code `KIT_RECOVERED` when it is over.
   */
  readonly error: readonly [error: KitError];
}

/** A worker of a queue of these jobs. In `dead` the job may have a name or data that the queue does not declare. */
export type WorkerOf<Jobs = AnyJobs> = Omit<Worker, keyof TypedEmitter<WorkerEvents>> &
  TypedEmitter<WorkerEvents<Jobs>>;

/** Decides which of several workers with common handlers may begin a job. */
export interface Turn {
  /** How many jobs the worker may begin now. */
  free(worker: Worker): number;
  began(worker: Worker): void;
  /** One of the worker's handlers is free, or its queue is known to be empty. */
  changed(): void;
  closed(worker: Worker): void;
  /** The clock of its handlers' time limits; Node's timers by default. */
  readonly timers?: Timers | undefined;
}

/** Calls `run` after this many milliseconds; returns a function that cancels it. */
export type Timers = (run: () => void, ms: number) => () => void;

const realTimers: Timers = (run, ms) => {
  const timer = setTimeout(run, Math.min(ms, 2 ** 31 - 1));
  return () => clearTimeout(timer);
};

/** The worker soon retries an error that passes by itself. Others wait for a person: a right, or a setting of the server. */
const retryMs = ({ retryable }: KitError, attempt: number): number =>
  retryable ? backoffMs(attempt + 1, 50, 2_000) : 250 + backoffMs(attempt + 1, 250, 4_750);

/** How long handlers may take to end after their signal has aborted, on an ended client: no lease can be kept there. */
const endedGraceMs = 100;

/**
 * Runs the jobs of one queue. Made by `queue.work()`.
 *
 * At least once: a job whose worker dies runs again elsewhere once its lease has ended, so handlers must tolerate a repeat. Jobs
 * are taken in order; with several handlers or workers they end in any order.
 */
export class Worker extends TypedEmitter<WorkerEvents> implements AsyncDisposable {
  readonly #settings: WorkSettings;
  readonly #handlers: ReadonlyMap<string, (job: Job) => unknown>;
  readonly #commands: QueueCommands;
  readonly #life: ObjectLife;
  readonly #intake: Intake;
  readonly #turn: Turn | undefined;
  readonly #queue: QueueSettings;
  #buffer: TakenJob[] = [];
  #isStarting = false;
  /** Handlers that run. */
  #running = 0;
  /** Jobs that wait for the server's permission to begin, or for the caller's `backoff` to decide. */
  #asking = 0;
  readonly #pace = new Pace();
  /** The suspect: a running job that a further crash would make a dead letter. No other such job runs beside it. */
  #suspect: TakenJob | undefined;
  /** The last take had such a job. The worker then takes one job at a time until one comes that has crashes left. */
  #isCareful = false;
  /** The suspect during which another suspect was handed back: nothing more is taken until it has ended. */
  #barredBy: TakenJob | undefined;
  #hoardTimer: NodeJS.Timeout | undefined;
  /** Its queue could not be opened: the server is away, or the data has a newer layout. */
  #isShut = false;
  readonly #outage: OutageReporter;
  readonly #rest = new Condition(() => this.#isAtRest);

  /** Only this package calls it. */
  constructor(
    redis: RedisLike,
    name: string,
    settings: QueueSettings,
    handlers: object,
    options: WorkOptions,
    onClosed: (worker: Worker) => void,
    turn?: Turn,
  ) {
    super();
    this.#settings = workSettings(options);
    this.#handlers = handlerMap(handlers as Handlers<Record<string, never>>);
    this.#turn = turn;
    this.#queue = settings;
    const emit = (error: KitError): void => this.emit("error", error);
    this.#outage = new OutageReporter(emit);
    const events = { error: emit, evictable: () => undefined };
    const what = `The worker of queue ${JSON.stringify(name)}`;
    this.#commands = new QueueCommands(redis, name, settings, events, what, true);
    this.#life = this.#commands.life;
    this.#intake = new Intake(this.#commands, this.#settings, settings.deadLetters, this.#outage, {
      demand: (pending, ending) => this.#demand(pending, ending),
      deliver: (jobs) => this.#deliver(jobs),
      ended: (ending, isAccepted) => this.#onEnded(ending, isAccepted),
      lost: (job) => this.#onLost(job),
      emptied: () => this.#turn?.changed(),
      reclaimed: (leases) => {
        for (const { member, crashes, isDead, isGone } of leases)
          if (!isGone) this.emit("crashed", { id: partsOf(member.slice(takeIdWidth)).id, crashes, isDead });
      },
    });
    const stopListening = this.#commands.context.executor.onDrop(() => this.#closeIfEnded());
    this.#life.onClosed(stopListening, () => onClosed(this));
    void this.#open();
  }

  /** How many handlers run at a time. */
  get concurrency(): number {
    return this.#settings.concurrency;
  }

  /**
   * Changes how many handlers run at a time. Running handlers continue.
   *
   * @throws {TypeError | RangeError} it is not an integer from 1 to 10,000.
   */
  set concurrency(value: number) {
    this.#settings.concurrency = workRules.concurrency.check("concurrency", value);
    this.#start();
    this.#intake.pump();
  }

  /** How many handlers run now. */
  get running(): number {
    return this.#running;
  }

  /** @internal Its queue was empty at its last look. */
  get isEmpty(): boolean {
    return this.#buffer.length === 0 && this.#intake.isParked;
  }

  /** @internal It has no job to begin: its queue is empty or cannot be reached, or it closes. */
  get isQuiet(): boolean {
    if (this.#life.isClosed || this.#isShut) return true;
    return this.isEmpty || (this.#buffer.length === 0 && this.#intake.isFailing);
  }

  /** @internal The turn may have come to this worker. */
  look(): void {
    this.#start();
    this.#intake.schedule();
  }

  /**
   * Takes no more jobs, hands back those that were not started, and aborts `job.closing` of the others, all at once. Then it waits for
   * the running handlers, at most `timeoutMs`; those that are left have their `signal` aborted. Their jobs stay leased until they
   * end, at most `abortGraceMs`, and are handed back without an attempt: no other worker begins a job while its handler saves its
   * state. Resolves once the server has all results, or could not be reached for another `deadlineMs`. Idempotent: the first
   * call decides.
   *
   * @throws {TypeError | RangeError} an option is not what it should be; nothing else.
   */
  async close(options: CloseOptions = {}): Promise<void> {
    await this.#life.close(options, (deadline) => this.#close(deadline));
  }

  /** As `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #open(): Promise<void> {
    for (let attempt = 1; !this.#life.isClosed; attempt++)
      try {
        await this.#commands.open();
        this.#isShut = false;
        this.#outage.worked("opening");
        if (!this.#life.isClosed) this.#intake.start();
        return;
      } catch (reason) {
        const error = asKitError(reason, "Opening the queue");
        this.#isShut = true;
        this.#closeIfEnded();
        if (this.#life.isClosed) return;
        this.#outage.failed("opening", error);
        this.#turn?.changed();
        await pause(retryMs(error, attempt));
      }
  }

  /** On an ended client no job can be taken or ended: the worker closes, and emits the reason. */
  #closeIfEnded(): void {
    if (!this.#commands.context.executor.isEnded || this.#life.isClosed) return;
    this.emit("error", new KitClosedError("The client"));
    void this.close({ timeoutMs: 0 });
  }

  async #close(deadline: Deadline): Promise<void> {
    this.#intake.stopTaking();
    clearTimeout(this.#hoardTimer);
    const reason = this.#life.closedError();
    const isRunning = ({ state }: TakenJob): boolean => state === "running";
    for (const job of this.#intake.leases.jobs.filter(isRunning)) job.announceClosing(reason);
    // A handler that closes its worker is called while its job is still in the buffer. The server may be silent: `settle` waits for it.
    void this.#handBack(this.#buffer.splice(0).filter(({ state }) => state === "held"));
    this.#turn?.changed();
    await this.#rest.until(deadline);
    if (!this.#isAtRest) {
      for (const job of this.#intake.leases.jobs.filter(isRunning)) job.stop(reason);
      const { isEnded } = this.#commands.context.executor;
      await this.#rest.until(Deadline.in(isEnded ? endedGraceMs : this.#settings.abortGraceMs));
      // All jobs that have not ended yet.
      void this.#intake.handBack(this.#intake.leases.jobs.filter(({ state }) => state !== "ending"));
    }
    await this.#intake.settle(Deadline.in(this.#queue.deadlineMs));
    this.#intake.dispose();
  }

  get #isAtRest(): boolean {
    return this.#running + this.#asking === 0;
  }

  // Taking ----------------------------------------------------------------------------------------------------------

  #demand(pending: number, ending: number): Demand {
    if (this.#life.isClosed) return nothing;
    const { concurrency, strict, ackEach } = this.#settings;
    const unconfirmed = ackEach ? this.#intake.unconfirmed - ending : 0;
    const atHand = this.#buffer.length + pending;
    const most = concurrency - this.#running - unconfirmed;
    const free = Math.min(most, this.#turn?.free(this) ?? most) - atHand;
    if (this.#isCareful) return this.#isBarred || free <= 0 || atHand > 0 ? nothing : { count: 1, sure: 1 };
    const ahead = strict ? 0 : this.#pace.ahead(concurrency);
    // A few jobs to take ahead are not worth a call.
    if (free <= 0 && free + ahead < ahead / 2) return nothing;
    return { count: Math.max(0, free + ahead), sure: Math.max(0, free) };
  }

  get #isBarred(): boolean {
    return this.#suspect !== undefined && (this.#suspect.state === "held" || this.#suspect === this.#barredBy);
  }

  #deliver(jobs: readonly TakenJob[]): void {
    const { maxCrashes } = this.#settings;
    this.#pace.taken(jobs);
    const returned: TakenJob[] = [];
    const held: TakenJob[] = [];
    for (const job of jobs)
      if (job.crashes > 0 && job.crashes >= maxCrashes - 1) {
        this.#isCareful = true;
        if (this.#suspect) {
          returned.push(job);
          this.#barredBy = this.#suspect;
        } else void this.#ask(this.#begin((this.#suspect = job)));
      } else {
        if (jobs.length === 1) this.#isCareful = false;
        held.push(job);
      }
    void this.#intake.handBack(returned);
    this.#hold(held);
  }

  #hold(jobs: readonly TakenJob[]): void {
    for (const job of jobs) this.#buffer.push(job);
    this.#start();
    const late = this.#pace.firstLate(this.#buffer, this.#settings.concurrency);
    if (late >= 0) void this.#handBack(this.#buffer.splice(late));
    if (this.#buffer.length > 0) this.#watchHoard();
  }

  /**
   * The server charges the last crash only to a job that is recorded as begun: this retries until the record is made or the lease
   * is lost.
   */
  async #begin(job: TakenJob): Promise<void> {
    for (let attempt = 2; job.state === "held" && !this.#life.isClosed; attempt++)
      try {
        const isHeld = await this.#commands.run(begin, { member: job.member });
        this.#outage.worked("beginning");
        if (!isHeld) this.#onLost(job);
        else if (!this.#life.isClosed) {
          this.#hold([job]);
          return this.#intake.schedule();
        }
      } catch (error) {
        this.#outage.failed("beginning", asKitError(error, "Beginning a job"));
        await pause(backoffMs(attempt, 50, 2_000));
      }
    this.#outage.worked("beginning");
    if (job.state === "held") return await this.#handBack([job]);
    this.#suspect = undefined;
    this.#intake.schedule();
  }

  #handBack(jobs: readonly TakenJob[]): Promise<void> {
    if (this.#suspect && jobs.includes(this.#suspect)) this.#suspect = undefined;
    return this.#intake.handBack(jobs);
  }

  /** Runs the taken jobs for which handlers are free. */
  #start(): void {
    const { concurrency, ackEach } = this.#settings;
    if (this.#isStarting) return;
    this.#isStarting = true;
    let next = 0;
    while (next < this.#buffer.length) {
      if (this.#running + (ackEach ? this.#intake.unconfirmed : 0) >= concurrency) break;
      if (this.#turn?.free(this) === 0) break;
      const job = this.#buffer[next++];
      if (job?.state === "held") this.#run(job);
    }
    this.#isStarting = false;
    if (next > 0) this.#buffer.splice(0, next);
  }

  /** Jobs that have been waiting for a handler for long go back, since other workers may be free. */
  #watchHoard(): void {
    this.#hoardTimer ??= setTimeout(() => {
      this.#hoardTimer = undefined;
      const [oldest] = this.#buffer;
      if (!oldest) return;
      if (performance.now() - oldest.startedAt < hoardMs) return this.#watchHoard();
      for (const { name, state, startedAt } of this.#intake.leases.jobs)
        if (state === "running") this.#pace.note(name, performance.now() - startedAt, 1);
      void this.#handBack(this.#buffer.splice(0));
    }, hoardMs).unref();
  }

  // Running ---------------------------------------------------------------------------------------------------------

  #run(job: TakenJob): void {
    const now = performance.now();
    // This process was paused: another one may have the job by now.
    if (now >= job.leaseUntil) return this.#onLost(job);
    try {
      job.data = decodePayload(job.blob, job);
    } catch {
      return this.#refuse(job, "The stored data cannot be read");
    }
    const handler = this.#handlers.get(job.name);
    if (!handler) return this.#refuse(job, "There is no handler of this name");
    job.state = "running";
    job.startedAt = now;
    this.#running++;
    this.#turn?.began(this);
    const { timeoutMs } = job.header;
    if (timeoutMs !== undefined)
      job.cancelTimer = (this.#turn?.timers ?? realTimers)(() => this.#onTimeout(job, timeoutMs), timeoutMs);
    let result: unknown;
    try {
      const schema = this.#queue.schemas.get(job.name);
      result = schema ? this.#checkAndRun(schema, handler, job) : handler(job);
    } catch (error) {
      this.#onFailed(job, error);
      return;
    }
    // A foreign promise may throw in `then`, or call back twice; a native one does not.
    if (isThenable(result))
      void Promise.resolve(result).then(
        (value: unknown) => this.#onCompleted(job, value),
        (error: unknown) => this.#onFailed(job, error),
      );
    else this.#onCompleted(job, result);
  }

  async #checkAndRun(schema: StandardSchema, handler: (job: Job) => unknown, job: TakenJob): Promise<unknown> {
    const pending = check(schema, job.data);
    const checked = pending instanceof Promise ? await pending : pending;
    // The job timed out, lost its lease or was aborted meanwhile.
    if (job.stopReason) throw job.stopReason;
    if (!checked.isValid) {
      job.isMisfit = true;
      throw new UnrecoverableError(`The stored data ${checked.reason}`);
    }
    job.data = checked.value;
    return await handler(job);
  }

  /** The job was never run, and becomes a dead letter. */
  #refuse(job: TakenJob, reason: string): void {
    const error = new UnrecoverableError(reason);
    if (this.#suspect === job) this.#suspect = undefined;
    this.#end(job, "dead", error, job.failures);
    this.#intake.schedule();
  }

  #onCompleted(job: TakenJob, result: unknown): void {
    const isOurs = job.state === "running";
    this.#leave(job);
    if (isOurs) {
      job.state = "ending";
      const outcome = job.header.replyTo === undefined ? undefined : this.#outcomeOf(job, result);
      this.#intake.end({ job, verdict: "done", record: "", error: undefined, outcome });
    }
    this.#next();
  }

  /** A result that cannot be sent fails the call, not the job: running it again would not help. */
  #outcomeOf(job: TakenJob, result: unknown): string | Buffer {
    try {
      const payload = encodePayload(job.name, result, this.#queue.maxPayloadBytes, "result");
      return typeof payload === "string" ? `j${payload}` : Buffer.concat([Buffer.from("b"), payload]);
    } catch (error) {
      return `x${recordOf(job.failures, job.crashes, storedError(error))}`;
    }
  }

  #onFailed(job: TakenJob, error: unknown): void {
    const isOurs = job.state === "running";
    this.#leave(job);
    if (isOurs) this.#judge(job, error);
    this.#next();
  }

  #onTimeout(job: TakenJob, timeoutMs: number): void {
    if (job.state !== "running") return;
    const error = new JobTimeoutError(job.name, timeoutMs);
    job.stop(error);
    // The attempt has failed; its handler keeps its place until it ends.
    this.#judge(job, error);
    this.#intake.schedule();
  }

  /** The handler has ended: its place is free. */
  #leave(job: TakenJob): void {
    this.#running--;
    job.cancelTimer?.();
    if (this.#suspect === job) this.#suspect = undefined;
    this.#pace.note(job.name, performance.now() - job.startedAt);
  }

  /** `close()` waits for it. */
  async #ask(asking: Promise<void>): Promise<void> {
    this.#asking++;
    await asking;
    this.#asking--;
    this.#rest.look();
  }

  #next(): void {
    // Handlers that end at once would otherwise start each other, ever deeper.
    if (this.#turn) this.#turn.changed();
    else if (this.#buffer.length > 0) this.#start();
    this.#rest.look();
    this.#intake.schedule();
  }

  #judge(job: TakenJob, error: unknown): void {
    job.state = "ending";
    // A handler that failed after its signal had aborted has made no attempt.
    const { stopReason } = job;
    if (stopReason instanceof KitClosedError || stopReason instanceof JobLeaseLostError || job.isGivenBack(error))
      return void this.#intake.handBack([job]);
    const attempt = job.failures + (job.isMisfit ? 0 : 1);
    const isFinal = attempt >= job.maxAttempts || (KitError.is(error) && error.code === "KIT_JOB_UNRECOVERABLE");
    if (isFinal) return this.#end(job, "dead", error, attempt);
    const { backoff } = this.#settings;
    if (job.header.backoff === undefined && typeof backoff === "function") {
      job.state = "judging";
      return void this.#ask(this.#judgeBy(backoff, job, error, attempt));
    }
    const usual = typeof backoff === "function" ? undefined : backoff;
    this.#end(job, waitAfter(attempt, job.header.backoff ?? usual), error, attempt);
  }

  async #judgeBy(backoff: BackoffFunction, job: TakenJob, error: unknown, attempt: number): Promise<void> {
    let waitMs: number;
    try {
      waitMs = checkedWait(await backoff({ attempt, error, job }));
    } catch (cause) {
      waitMs = waitAfter(attempt);
      this.emit("error", new JobBackoffError(job.name, cause));
    }
    // Handed back meanwhile.
    if (job.state === "ended") return;
    this.#end(job, waitMs === -1 ? "dead" : waitMs, error, attempt);
    this.#intake.schedule();
  }

  #end(job: TakenJob, verdict: Ending["verdict"], error: unknown, attempts: number): void {
    job.state = "ending";
    const record = recordOf(attempts, job.crashes, storedError(error));
    this.#intake.end({ job, verdict, record, error, outcome: verdict === "dead" ? `x${record}` : undefined });
  }

  // Replies of the server --------------------------------------------------------------------------------------------

  #onEnded({ job, verdict, error }: Ending, isAccepted: boolean): void {
    if (!isAccepted) {
      // Even if its end was sent before: that copy did not arrive.
      job.isRepeat = false;
      this.#onLost(job);
    } else if (verdict === "done") {
      if (this.hasListeners("completed")) this.emit("completed", { job });
    } else {
      this.emit("failed", { job, error, retryInMs: verdict === "dead" ? undefined : verdict });
      if (verdict === "dead") this.emit("dead", { job, error });
    }
    if (this.#settings.ackEach) this.#start();
  }

  #onLost(job: TakenJob): void {
    if (job.isRepeat || job.stopReason instanceof JobLeaseLostError) return;
    if (this.#suspect === job && job.state === "held") this.#suspect = undefined;
    job.stop(new JobLeaseLostError(job.name, job.id));
    if (job.state === "held") job.state = "ended";
    else this.emit("lost", { job });
  }
}
