import { type KitError, type RedisLike } from "@kit/core";
import { type CloseOptions, type Deadline, type ObjectLife, resolve, TypedEmitter } from "@kit/core/toolkit";
import { Calls } from "./call/calls.js";
import { QueueCommands } from "./store/commands.js";
import type { AnyJobs, CalledResult, Handlers, JobData, JobName, JobSchemas, JobTypes, Received } from "./job/types.js";
import type { DeadLetter } from "./dead/facts.js";
import type { AddedOnce } from "./job/added.js";
import {
  type AddDefaults,
  addDefaults,
  type AddOnceOptions,
  type AddOptions,
  resolveAdd,
  type ResolvedAdd,
} from "./add/options.js";
import { type CallDefaults, callDefaults, type CallOptions, resolveCall } from "./call/options.js";
import { type DeadLetterOptions, idsOption, letterRules, type RedriveOptions, redriveRules } from "./dead/options.js";
import { type QueueOptions, type QueueSettings, queueSettings } from "./store/options.js";
import { keepParts, partsOf } from "./add/parts.js";
import type { WorkOptions } from "./work/options.js";
import type { QueueHealth } from "./presence/index.js";
import { encodePayload, type Payload, readPayload } from "./job/payload.js";
import { JobMaker } from "./add/maker.js";
import { type Added, idOf, type NewJob, Producer } from "./add/producer.js";
import { assertFits } from "./job/schemas.js";
import type { Turn } from "./work/turn.js";
import { Worker, type WorkerOf } from "./work/worker.js";

/** Events of a queue object. */
export interface QueueEvents {
  /** A background operation failed. No caller waits for it. */
  readonly error: readonly [error: KitError];
  /**
   * The server can evict keys when its memory is full. Under a `volatile-…` policy it evicts only keys with an expiry, never jobs. These
   * keys only record repeated adds, ended leases and jobs, and the notes of handlers. Under `allkeys-…` (with `allowEviction`) it can evict
   * any key. Emitted once for each policy.
   */
  readonly evictable: readonly [event: { readonly policy: string }];
}

/** One of several jobs to add together. You can omit data that may be undefined. */
export type JobToAdd<Jobs> = {
  readonly [Name in JobName<Jobs>]: Omit<AddOptions, "op" | "signal"> & { readonly name: Name } & DataOf<
      JobData<Jobs, Name>
    >;
}[JobName<Jobs>];

type DataOf<Data> = undefined extends Data ? { readonly data?: Data } : { readonly data: Data };

/** The data and the options of one job. You can omit data that may be undefined. */
type AddArguments<Data, Options = AddOptions> = undefined extends Data
  ? readonly [data?: Data, options?: Options]
  : readonly [data: Data, options?: Options];

const noOptions: AddOptions = {};

/**
 * A named queue on one Redis. It adds jobs, runs workers, and manages dead letters. Create it with {@link createQueue}.
 *
 * Based on the task queues of "Redis in Action" (J. L. Carlson, 2013, section 6.4), with three differences. A job is never between two
 * keys. Delays and leases use the server's clock. A failed job is retried or kept.
 *
 * `Handled` are the jobs as handlers receive them.
 */
export class Queue<Jobs extends JobTypes<Jobs> = AnyJobs, Handled = Received<Jobs>>
  extends TypedEmitter<QueueEvents>
  implements AsyncDisposable
{
  readonly name: string;
  readonly #redis: RedisLike;
  readonly #settings: QueueSettings;
  readonly #addDefaults: AddDefaults;
  readonly #callDefaults: CallDefaults;
  readonly #commands: QueueCommands;
  readonly #life: ObjectLife;
  readonly #producer: Producer;
  readonly #calls: Calls;
  readonly #workers = new Set<Worker>();
  readonly #usual: ResolvedAdd;
  readonly #maker: JobMaker;

  /** Only this package calls it. */
  constructor(redis: RedisLike, name: string, options: QueueOptions) {
    super();
    this.name = name;
    this.#redis = redis;
    this.#settings = queueSettings(options);
    this.#addDefaults = addDefaults(this.#settings);
    this.#callDefaults = callDefaults(this.#settings);
    this.#usual = resolveAdd(noOptions, this.#addDefaults);
    this.#maker = new JobMaker(this.#usual);
    const onError = (error: KitError): void => this.emit("error", error);
    const events = { error: onError, evictable: (policy: string) => this.emit("evictable", { policy }) };
    this.#commands = new QueueCommands(redis, name, this.#settings, events, `Queue ${JSON.stringify(name)}`);
    this.#life = this.#commands.life;
    this.#producer = new Producer(name, this.#commands, this.#settings);
    this.#calls = new Calls(this.#commands, onError);
    keepParts(this, this.#commands, this.#settings, this.#addDefaults);
  }

  /**
   * Adds a job, and resolves with its id once the server has stored it. The job then runs at least once, or becomes a dead letter, as long
   * as the server keeps its data.
   *
   * Adds that you make while a call is in progress share the next call, in order. Data is stored as JSON, a Uint8Array as its bytes.
   *
   * @throws {JobPayloadError} the data cannot be stored, is larger than `maxPayloadBytes`, or does not fit its schema.
   * @throws {KitUnavailableError} no server answered within `deadlineMs`. Nothing was added.
   * @throws {KitUnknownOutcomeError} the reply was lost, or the job was not replicated as `durable` requires. Repeat the call with
   *   `{ op: error.op }` to settle the outcome. Without `op` a repeated call can add a second job, unless it has `unique` with `ttlMs`.
   * @throws {QueueFullError} `maxPending` adds already wait.
   * @throws {QueueEvictionError} the server can evict jobs.
   * @throws `signal.reason`.
   * @throws {TypeError | RangeError} an option is invalid.
   *
   * @example
   * const id = await queue.add("email", { to: "ann@example.org" }, { delayMs: 5_000 });
   */
  async add<Name extends JobName<Jobs>>(
    name: Name,
    ...[data, options]: AddArguments<JobData<Jobs, Name>>
  ): Promise<string> {
    const resolved = options === undefined ? this.#usual : resolveAdd(options, this.#addDefaults);
    return idOf(await this.#add(name, data, resolved));
  }

  /**
   * Adds a job with your `id` or a `unique` key, as {@link add} does. Resolves with `isAdded`: whether this call added the job. If not,
   * `state` is the state of the job with this id or key at that time. Of several callers with the same id exactly one adds the job.
   *
   * When a call is sent again after a lost reply, it gets the first answer. The server keeps an answer for ten minutes. After that a call
   * with an `op` rejects with a KitUnknownOutcomeError that has no `op`.
   *
   * @throws every error of {@link add}.
   *
   * @example
   * const { isAdded } = await queue.addOnce("invoice", { order }, { id: `invoice ${order}` });
   */
  async addOnce<Name extends JobName<Jobs>>(
    name: Name,
    data: JobData<Jobs, Name>,
    options: AddOnceOptions,
  ): Promise<AddedOnce> {
    const resolved = resolveAdd(options, this.#addDefaults, true);
    return (await this.#add(name, data, resolved, true)) as AddedOnce;
  }

  /**
   * Adds a job and waits for its handler's result. The result arrives after a JSON round trip, a Uint8Array as a Buffer.
   *
   * The server records the outcome when the job ends, and pushes it to this object. The outcome survives lost connections on both sides. It
   * is deleted once this object has received it. Failed attempts are retried as usual; only the last failure rejects the call. If this
   * process dies, the job still runs, and its outcome expires after ten minutes. A call that times out or is aborted leaves its job in the
   * queue.
   *
   * @throws {JobFailedError} the job is a dead letter.
   * @throws {JobResultError} the job is done, but its result cannot be sent.
   * @throws {CallTimeoutError} there was no outcome within `waitMs`.
   * @throws {JobOutcomeLostError} neither the job nor its outcome exists.
   * @throws {KitUnknownOutcomeError} the reply to the add was lost, and `waitMs` ended before the outcome of the add was known. Pass its
   *   `op` to {@link add}: it adds the job only if this call did not. Another `call()` can add a second job.
   * @throws {KitClosedError} this object was closed during the call.
   * @throws the other errors of {@link add}.
   *
   * @example
   * const bytes = await queue.call("resize", { url }, { waitMs: 10_000 });
   */
  async call<Name extends JobName<Jobs>>(
    name: Name,
    ...[data, options = {}]: AddArguments<JobData<Jobs, Name>, CallOptions>
  ): Promise<CalledResult<Jobs, Name>> {
    const { waitMs, resolved } = resolveCall(options, this.#callDefaults);
    const payload = encodePayload(name, data, this.#settings.maxPayloadBytes);
    await this.#fits(name, payload);
    const add = (replyTo: string, op: string | undefined): Promise<string> =>
      this.#producer.add(
        this.#maker.make(name, payload, { ...resolved, op }, replyTo),
        resolved.signal,
      ) as Promise<string>;
    const call = { job: name, waitMs, signal: resolved.signal, add };
    return await this.#privateCall(
      "queue.call",
      { job: name },
      async () => this.#calls.run(call) as Promise<CalledResult<Jobs, Name>>,
    );
  }

  /**
   * Adds many jobs in order, and resolves with their ids. One call adds up to 1 MiB (a job counts as at least 1 KiB) and `maxPending` jobs,
   * all or none. Larger lists use several calls. If a call fails, the jobs of earlier calls stay, and no further call is made.
   *
   * @throws every error of {@link add}. A KitUnknownOutcomeError has no `op`, and is retryable if each job has `unique` with `ttlMs`. It is
   *   also the error if only some calls added their jobs; its `cause` is then the failure.
   *
   * @example
   * await queue.addAll([{ name: "resize", data: { url } }, { name: "resize", data: { url: other }, priority: -1 }]);
   */
  async addAll(jobs: readonly JobToAdd<Jobs>[]): Promise<string[]> {
    if (!Array.isArray(jobs)) throw new TypeError("Expected `jobs` to be an array");
    const checks: Promise<void>[] = [];
    const made = jobs.map((job) => {
      const { name, data, ...options } = job as Omit<AddOptions, "op" | "signal"> & { name: string; data: unknown };
      const resolved = Object.keys(options).length === 0 ? this.#usual : resolveAdd(options, this.#addDefaults);
      const payload = encodePayload(name, data, this.#settings.maxPayloadBytes);
      const fits = this.#fits(name, payload);
      if (fits) checks.push(fits);
      return (): NewJob => this.#maker.make(name, payload, resolved);
    });
    await Promise.all(checks);
    return await this.#call("queue.addAll", { jobs: made.length }, () =>
      this.#producer.addAll(made.map((make) => make())),
    );
  }

  /**
   * Starts a worker, which works until `close()`. It opens two connections: one for commands, one on which it waits.
   *
   * The handler `*` runs the jobs whose names have no handler. If the worker has neither, it passes the job on, see JobRefusedError.
   *
   * @throws {TypeError | RangeError} a handler or an option is invalid.
   *
   * @example
   * const worker = queue.work({ email: async ({ data, signal }) => send(data.to, signal) }, { concurrency: 20 });
   */
  work(handlers: Handlers<Handled>, options: WorkOptions = {}): WorkerOf<Handled> {
    return this.workInTurn(handlers, options) as WorkerOf<Handled>;
  }

  /** @internal */
  workInTurn(handlers: Handlers<Handled>, options: WorkOptions, turnOn?: (redis: RedisLike) => Turn): Worker {
    this.#life.assertOpen();
    const turn = turnOn?.(this.#redis);
    const onClosed = (): void => {
      this.#workers.delete(worker);
      turn?.closed();
    };
    const worker: Worker = new Worker(this.#redis, this.name, this.#settings, handlers, options, onClosed, turn);
    this.#workers.add(worker);
    return worker;
  }

  /**
   * Reads dead letters, newest first. Pass the last letter of the previous page as `before`. Pages don't shift when letters are moved,
   * deleted or added. With `job` it reads only letters of jobs with this name; the server then scans all letters, 50 per call.
   *
   * @throws {KitUnavailableError} no server answered in time.
   * @throws {TypeError | RangeError} an option is invalid.
   *
   * @example
   * const older = await queue.deadLetters({ before: page.at(-1), job: "email", count: 50 });
   */
  async deadLetters(options: DeadLetterOptions = {}): Promise<DeadLetter[]> {
    const { before, count, job: name } = resolve("options", options, letterRules);
    return await this.#privateCall("queue.deadLetters", {}, async () => {
      const { readLetters } = await import("./dead/index.js");
      return await readLetters(this.#commands, before, count, name);
    });
  }

  /**
   * Moves dead letters to the end of the queue: the letters with these ids, or all current ones. The jobs have all their attempts again,
   * and no crashes. Resolves with the number of moved letters. Ids without a dead letter are ignored. With `spreadMs` each job becomes
   * ready at a random time within this period, so that the jobs don't all call the same service at the same time.
   *
   * @throws {TypeError | RangeError} `ids` is not an array of ids, or an option is invalid.
   * @throws {KitUnavailableError | KitUnknownOutcomeError} as for every command. You can safely repeat the call.
   */
  async redrive(ids?: readonly string[], options: RedriveOptions = {}): Promise<number> {
    const { spreadMs: spread } = resolve("options", options, redriveRules);
    const wanted = ids === undefined ? undefined : idsOption(ids);
    return await this.#call("queue.redrive", {}, () => this.#move("redrive", wanted, spread));
  }

  /**
   * Deletes the dead letters with these ids. Resolves with the number of deleted letters. Ids without a dead letter are ignored.
   *
   * @throws {TypeError | RangeError} `ids` is not an array of ids. Nothing was deleted.
   * @throws {KitUnavailableError | KitUnknownOutcomeError} as for every command. You can safely repeat the call.
   */
  async dropDeadLetters(ids: readonly string[]): Promise<number> {
    const wanted = idsOption(ids);
    return await this.#call("queue.drop", {}, () => this.#move("drop", wanted));
  }

  /**
   * Reports whether this object can add jobs, and whether its workers work. Reads once from the server for itself and for each worker.
   * Resolves within `deadlineMs`. Never rejects.
   */
  async health(): Promise<QueueHealth> {
    const { queueHealth } = await import("./presence/index.js");
    return await queueHealth(this.#commands, this.#workers, this.#life.isClosed);
  }

  /**
   * Closes this object: sends waiting adds and closes its workers, each within `timeoutMs`. After that it aborts the handlers, which have
   * their worker's `abortGraceMs` to finish. The client stays open. Idempotent: the options of the first call apply.
   *
   * @throws {TypeError | RangeError} an option is invalid. Nothing else throws.
   */
  async close(options: CloseOptions = {}): Promise<void> {
    await this.#life.close(options, (deadline) => this.#close(deadline, options));
  }

  /** Same as `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Callers are asynchronous: an error thrown here becomes a rejection. */
  #add(name: string, data: unknown, resolved: ResolvedAdd, isOnce = false): Promise<Added> {
    const payload = encodePayload(name, data, this.#settings.maxPayloadBytes);
    const send = (): Promise<Added> => {
      const job = (): NewJob => this.#maker.make(name, payload, resolved, undefined, isOnce);
      return this.#call("queue.add", { job: name }, () => this.#producer.add(job(), resolved.signal));
    };
    const fits = this.#fits(name, payload);
    // Adds without an asynchronous schema keep the order of their calls, even within one turn.
    return fits ? fits.then(send) : send();
  }

  /** Checks the data in the form that its worker reads. */
  #fits(name: string, payload: Payload): Promise<void> | undefined {
    const schema = this.#settings.schemas.get(name);
    return schema && assertFits(schema, name, readPayload(payload));
  }

  async #close(deadline: Deadline, options: CloseOptions): Promise<void> {
    const adding = [this.#producer, ...partsOf(this).producers].map((producer) => producer.close(deadline));
    await Promise.all([...adding, this.#calls.close(), ...[...this.#workers].map((worker) => worker.close(options))]);
  }

  async #move(verb: "redrive" | "drop", ids: readonly string[] | undefined, spreadMs?: number): Promise<number> {
    const { moveLetters } = await import("./dead/index.js");
    return await moveLetters(this.#commands, verb, ids, spreadMs);
  }

  #call<T>(operation: string, facts: object, run: () => Promise<T>): Promise<T> {
    return this.#life.call(operation, () => ({ queue: this.name, ...facts }), run);
  }

  /** A call whose result contains data of jobs. Traces don't show it. */
  #privateCall<T>(operation: string, facts: object, run: () => Promise<T>): Promise<T> {
    return this.#life.privateCall(operation, () => ({ queue: this.name, ...facts }), run);
  }
}

/** Creates a queue with schemas. Its handlers receive the output of the schemas, which is the data as you declared it. */
export function createQueue<Jobs extends JobTypes<Jobs>>(
  redis: RedisLike,
  name: string,
  options: Omit<QueueOptions, "schemas"> & { readonly schemas: JobSchemas<NoInfer<Jobs>> },
): Queue<Jobs, Jobs>;
/**
 * Creates a queue object. Any number of processes can add to the queue of this name and work on it.
 *
 * `redis` is a client from `connect()` of `@kit/core`, from ioredis, or from `fromNodeRedis()`. The queue never closes or blocks this
 * client. Each worker opens two connections, and closes them in its `close()`.
 *
 * @throws {TypeError | RangeError} `redis` or an option is invalid.
 * @throws {KitError} `KIT_NAME`: the name cannot be a key.
 *
 * @example
 * const queue = createQueue<{ email: (data: { to: string }) => void }>(redis, "mail", { maxAttempts: 5 });
 */
export function createQueue<Jobs extends JobTypes<Jobs> = AnyJobs>(
  redis: RedisLike,
  name: string,
  options?: Omit<QueueOptions, "schemas"> & { readonly schemas?: JobSchemas<NoInfer<Jobs>> | undefined },
): Queue<Jobs>;
export function createQueue(redis: RedisLike, name: string, options: QueueOptions = {}): Queue {
  return new Queue(redis, name, options);
}
