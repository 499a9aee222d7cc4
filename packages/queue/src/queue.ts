import { type KitError, type RedisLike } from "@kit/core";
import {
  type CloseOptions,
  type Deadline,
  type ObjectLife,
  resolve,
  traceCarrier,
  TypedEmitter,
} from "@kit/core/toolkit";
import { Calls } from "./call/calls.js";
import { QueueCommands } from "./commands.js";
import type {
  AnyJobs,
  CalledResult,
  Handlers,
  JobData,
  JobName,
  JobSchemas,
  JobTypes,
  Received,
} from "./work/handlers.js";
import { type DeadLetter, readLetters } from "./manage/letters.js";
import {
  type AddedOnce,
  type AddOnceOptions,
  type AddOptions,
  type CallOptions,
  type DeadLetterOptions,
  idsOption,
  resolveAdd,
  resolveCall,
  letterRules,
  type RedriveOptions,
  redriveRules,
  type ResolvedAdd,
  type QueueOptions,
  type QueueSettings,
  queueSettings,
  type WorkOptions,
} from "./options.js";
import { encodePayload, headOf, type Payload, readPayload } from "./add/payload.js";
import { type Added, idOf, type NewJob, parseOp, Producer } from "./add/producer.js";
import { assertFits } from "./add/schemas.js";
import { keyWordOf } from "./add/unique.js";
import { maxRedriven, redrive } from "./scripts/index.js";
import type { Turn } from "./work/turn.js";
import { Worker, type WorkerOf } from "./work/worker.js";

/** Events of a queue object. */
export interface QueueEvents {
  /** A background operation failed. No caller waits for it. */
  readonly error: readonly [error: KitError];
  /**
   * The server may evict keys when its memory is full. Under a `volatile-…` policy these are the records of repeated adds, late
   * ends and ended jobs, and what handlers noted, which have an expiry; no job. Under `allkeys-…`, with `allowEviction`, they are any keys. Emitted once for each policy.
   */
  readonly evictable: readonly [event: { readonly policy: string }];
}

/** One of several jobs that are added together. Data that may be undefined may be left out. */
export type JobToAdd<Jobs> = {
  readonly [Name in JobName<Jobs>]: Omit<AddOptions, "op" | "signal"> & { readonly name: Name } & DataOf<
      JobData<Jobs, Name>
    >;
}[JobName<Jobs>];

type DataOf<Data> = undefined extends Data ? { readonly data?: Data } : { readonly data: Data };

/** The data and the options of one job. Data that may be undefined may be left out. */
type AddArguments<Data, Options = AddOptions> = undefined extends Data
  ? readonly [data?: Data, options?: Options]
  : readonly [data: Data, options?: Options];

const noOptions: AddOptions = {};
const mostHeads = 1_000;

/**
 * A queue by name, on one Redis: adds jobs, runs workers, and manages dead letters. Made by {@link createQueue}.
 *
 * After the task queues of "Redis in Action" (J. L. Carlson, 2013, section 6.4). Unlike there, a job is never between two keys, delays
 * and leases use the server's clock, and a job that fails is retried or kept.
 *
 * `Handled` are the jobs as handlers get them.
 */
export class Queue<Jobs extends JobTypes<Jobs> = AnyJobs, Handled = Received<Jobs>>
  extends TypedEmitter<QueueEvents>
  implements AsyncDisposable
{
  readonly name: string;
  readonly #redis: RedisLike;
  readonly #settings: QueueSettings;
  readonly #commands: QueueCommands;
  readonly #life: ObjectLife;
  readonly #producer: Producer;
  readonly #calls: Calls;
  readonly #workers = new Set<Worker>();
  /** The headers of jobs without options, by name. The cache is bounded, since names may come from user input. */
  readonly #heads = new Map<string, string>();
  readonly #usual: ResolvedAdd;

  /** Only this package calls it. */
  constructor(redis: RedisLike, name: string, options: QueueOptions) {
    super();
    this.name = name;
    this.#redis = redis;
    this.#settings = queueSettings(options);
    this.#usual = resolveAdd(noOptions, this.#settings);
    const onError = (error: KitError): void => this.emit("error", error);
    const events = { error: onError, evictable: (policy: string) => this.emit("evictable", { policy }) };
    this.#commands = new QueueCommands(redis, name, this.#settings, events, `Queue ${JSON.stringify(name)}`);
    this.#life = this.#commands.life;
    this.#producer = new Producer(name, this.#commands, this.#settings);
    this.#calls = new Calls(this.#commands, onError);
  }

  /**
   * Adds a job, and resolves with its id once the server has it. From then on the job runs at least once, or becomes a dead
   * letter, as long as the server keeps its data.
   *
   * Adds made while another is under way travel together in the next call, in order. Data is stored as JSON, a Uint8Array as its
   * bytes.
   *
   * @throws {JobPayloadError} the data cannot be stored, is larger than `maxPayloadBytes`, or does not fit its schema.
   * @throws {KitUnavailableError} no server answered within `deadlineMs`; nothing was added.
   * @throws {KitUnknownOutcomeError} the reply was lost, or the job was not replicated as `durable` requires. The same call with
   * `{ op: error.op }` settles the outcome. Without it the same call may add a second job, unless it has `unique` with `ttlMs`.
   * @throws {QueueFullError} `maxPending` adds wait already.
   * @throws {QueueEvictionError} the server may evict jobs.
   * @throws `signal.reason`.
   * @throws {TypeError | RangeError} an option is not what it should be.
   *
   * @example
   * const id = await queue.add("email", { to: "ann@example.org" }, { delayMs: 5_000 });
   */
  async add<Name extends JobName<Jobs>>(
    name: Name,
    ...[data, options]: AddArguments<JobData<Jobs, Name>>
  ): Promise<string> {
    const resolved = options === undefined ? this.#usual : resolveAdd(options, this.#settings);
    return idOf(await this.#add(name, data, resolved));
  }

  /**
   * Adds a job with an `id` of your own or a `unique` key, as {@link add} does, and resolves with whether this call added it. If not,
   * `state` is where the job of this id or key was at that moment. Of several callers with one id exactly one adds.
   *
   * A call that is sent again after a lost reply gets the answer of the first. The server keeps an answer for ten minutes. A call with an
   * `op` after that rejects with a KitUnknownOutcomeError that has no `op`.
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
    const resolved = resolveAdd(options, this.#settings, true);
    return (await this.#add(name, data, resolved, true)) as AddedOnce;
  }

  /**
   * Adds a job and waits for what its handler returns, as JSON leaves it; a Uint8Array arrives as a Buffer.
   *
   * The server records the outcome together with the end of the job, and pushes it to this object. The outcome survives lost connections
   * on both sides, and is deleted once this object has received it. Failed attempts are retried like those of any job; only the last one
   * rejects. If this process dies, the job still runs, and its outcome expires after ten minutes. A call that times out or is aborted
   * leaves its job in the queue.
   *
   * @throws {JobFailedError} the job is a dead letter.
   * @throws {JobResultError} the job is done, and the result of its handler cannot be sent.
   * @throws {CallTimeoutError} no outcome within `waitMs`.
   * @throws {JobOutcomeLostError} the job is gone, and so is its outcome.
   * @throws {KitUnknownOutcomeError} the reply to the add was lost, and `waitMs` was over before that was settled. {@link add} with its
   *   `op` adds the job only if this call did not; another call may add a second one.
   * @throws {KitClosedError} this object was closed meanwhile.
   * @throws the other errors of {@link add}.
   *
   * @example
   * const bytes = await queue.call("resize", { url }, { waitMs: 10_000 });
   */
  async call<Name extends JobName<Jobs>>(
    name: Name,
    ...[data, options = {}]: AddArguments<JobData<Jobs, Name>, CallOptions>
  ): Promise<CalledResult<Jobs, Name>> {
    const { waitMs, resolved } = resolveCall(options, this.#settings);
    const payload = encodePayload(name, data, this.#settings.maxPayloadBytes);
    await this.#fits(name, payload);
    const add = (replyTo: string, op: string | undefined): Promise<string> =>
      this.#producer.add(this.#newJob(name, payload, { ...resolved, op }, replyTo), resolved.signal) as Promise<string>;
    const call = { job: name, waitMs, signal: resolved.signal, add };
    return await this.#privateCall(
      "queue.call",
      { job: name },
      async () => this.#calls.run(call) as Promise<CalledResult<Jobs, Name>>,
    );
  }

  /**
   * Adds many jobs in order, all or none of them, and resolves with their ids. Beyond 1 MiB (a job counts as at least 1 KiB) or
   * `maxPending` jobs they travel in several calls. If a call fails, the jobs of the earlier calls stay, and no further call is made.
   *
   * @throws every error of {@link add}. A KitUnknownOutcomeError has no `op`: it is retryable if each job has `unique` with `ttlMs`. It also
   *   comes, with the failure as its `cause`, when some of the calls added their jobs.
   *
   * @example
   * await queue.addAll([{ name: "resize", data: { url } }, { name: "resize", data: { url: other }, priority: -1 }]);
   */
  async addAll(jobs: readonly JobToAdd<Jobs>[]): Promise<string[]> {
    if (!Array.isArray(jobs)) throw new TypeError("Expected `jobs` to be an array");
    const checks: Promise<void>[] = [];
    const made = jobs.map((job) => {
      const { name, data, ...options } = job as Omit<AddOptions, "op" | "signal"> & { name: string; data: unknown };
      const resolved = Object.keys(options).length === 0 ? this.#usual : resolveAdd(options, this.#settings);
      const payload = encodePayload(name, data, this.#settings.maxPayloadBytes);
      const fits = this.#fits(name, payload);
      if (fits) checks.push(fits);
      return (): NewJob => this.#newJob(name, payload, resolved);
    });
    await Promise.all(checks);
    return await this.#call("queue.addAll", { jobs: made.length }, () =>
      this.#producer.addAll(made.map((make) => make())),
    );
  }

  /**
   * Starts a worker, which has two connections of its own: one for commands, one on which it waits. It works until `close()`.
   *
   * Jobs of a name without a handler become dead letters.
   *
   * @throws {TypeError | RangeError} a handler or an option is not what it should be.
   *
   * @example
   * const worker = queue.work({ email: async ({ data, signal }) => send(data.to, signal) }, { concurrency: 20 });
   */
  work(handlers: Handlers<Handled>, options: WorkOptions = {}): WorkerOf<Handled> {
    return this.workInTurn(handlers, options, undefined) as WorkerOf<Handled>;
  }

  /** @internal */
  workInTurn(handlers: Handlers<Handled>, options: WorkOptions, turn: Turn | undefined): Worker {
    this.#life.assertOpen();
    const onClosed = (): void => {
      this.#workers.delete(worker);
      turn?.closed();
    };
    const worker: Worker = new Worker(this.#redis, this.name, this.#settings, handlers, options, onClosed, turn);
    this.#workers.add(worker);
    return worker;
  }

  /**
   * Reads dead letters, the youngest first. `before` is the last letter of the page before, so a page does not shift when letters are
   * moved, deleted or added. With `job` it reads only letters of jobs of this name; the server then looks through all, 50 per call.
   *
   * @throws {KitUnavailableError} no server answered in time.
   * @throws {TypeError | RangeError} an option is not what it should be.
   *
   * @example
   * const older = await queue.deadLetters({ before: page.at(-1), job: "email", count: 50 });
   */
  async deadLetters(options: DeadLetterOptions = {}): Promise<DeadLetter[]> {
    const { before, count, job: name } = resolve("options", options, letterRules);
    return await this.#privateCall("queue.deadLetters", {}, () => readLetters(this.#commands, before, count, name));
  }

  /**
   * Moves dead letters to the end of the queue, with all their attempts and no crashes: the letters with these ids, or all that are
   * dead now. Resolves with their number. An id that is not of a dead letter is ignored. With `spreadMs` each becomes ready at a random
   * instant within this time, which spares the service that they failed at.
   *
   * @throws {TypeError | RangeError} `ids` is not an array of ids, or an option is not what it should be.
   * @throws {KitUnavailableError | KitUnknownOutcomeError} as every command. The call can be repeated safely.
   */
  async redrive(ids?: readonly string[], options: RedriveOptions = {}): Promise<number> {
    const { spreadMs: spread } = resolve("options", options, redriveRules);
    return await this.#eachLetter("redrive", ids === undefined ? undefined : idsOption(ids), spread);
  }

  /**
   * Deletes the dead letters with these ids. Resolves with their number. An id that is not of a dead letter is ignored.
   *
   * @throws {TypeError | RangeError} `ids` is not an array of ids; nothing was deleted.
   * @throws {KitUnavailableError | KitUnknownOutcomeError} as every command. The call can be repeated safely.
   */
  async dropDeadLetters(ids: readonly string[]): Promise<number> {
    return await this.#eachLetter("drop", idsOption(ids));
  }

  /**
   * Closes this object. Waiting adds are sent and its workers close, each within `timeoutMs`. After that handlers are aborted, and have
   * their worker's `abortGraceMs`. The client stays open. Idempotent: the options of the first call hold.
   *
   * @throws {TypeError | RangeError} an option is not what it should be; nothing else.
   */
  async close(options: CloseOptions = {}): Promise<void> {
    await this.#life.close(options, (deadline) => this.#close(deadline, options));
  }

  /** As `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Its callers are asynchronous: what it throws becomes a rejection. */
  #add(name: string, data: unknown, resolved: ResolvedAdd, isOnce = false): Promise<Added> {
    const payload = encodePayload(name, data, this.#settings.maxPayloadBytes);
    const send = (): Promise<Added> => {
      const job = (): NewJob => this.#newJob(name, payload, resolved, undefined, isOnce);
      return this.#call("queue.add", { job: name }, () => this.#producer.add(job(), resolved.signal));
    };
    const fits = this.#fits(name, payload);
    // Adds without an asynchronous schema keep the order of their calls, even within one turn.
    return fits ? fits.then(send) : send();
  }

  /** Checks the data in the form in which its worker reads it. */
  #fits(name: string, payload: Payload): Promise<void> | undefined {
    const schema = this.#settings.schemas.get(name);
    return schema && assertFits(schema, name, readPayload(payload));
  }

  #newJob(name: string, payload: Payload, resolved: ResolvedAdd, replyTo?: string, isAsked = false): NewJob {
    const { id, unique, op, policy, priority } = resolved;
    const isBytes = typeof payload !== "string";
    const traceparent = resolved.traceparent ?? traceCarrier()?.current();
    const isUsual = resolved === this.#usual && !isBytes && (replyTo ?? traceparent) === undefined;
    const keyWords = unique && [keyWordOf(unique)];
    const head = isUsual
      ? this.#usualHead(name)
      : headOf(name, policy, priority, isBytes, replyTo, keyWords, traceparent);
    const isOnce = isAsked || unique !== undefined;
    const all = isAsked ? `${resolved.words}\t?` : resolved.words;
    const words = id === undefined && op === undefined ? all : `\tu${all}`;
    const job = { head, payload, op, isOnce, isRepeat: op !== undefined };
    if (op === undefined) return { ...job, words, id, isRepeatable: unique?.ttlMs !== undefined };
    const former = parseOp(op);
    if (id !== undefined && id !== former.id) throw new TypeError(`Expected \`op\` to come from an add of \`id\``);
    return { ...job, words: words + former.word, id: former.id, isRepeatable: true };
  }

  #usualHead(name: string): string {
    const known = this.#heads.get(name);
    if (known !== undefined) return known;
    const head = headOf(name, this.#usual.policy, 0, false);
    if (this.#heads.size >= mostHeads) this.#heads.clear();
    this.#heads.set(name, head);
    return head;
  }

  #eachLetter(verb: "redrive" | "drop", ids: readonly string[] | undefined, spreadMs = 0): Promise<number> {
    return this.#call(`queue.${verb}`, {}, async () => {
      let total = 0;
      // Without ids, those that were dead at the first call: with jobs that die again this might never end.
      for (let start = 0, begun = ""; ; start += maxRedriven) {
        const some = ids?.slice(start, start + maxRedriven).join("\n");
        if (some === "") return total;
        const reply = await this.#commands.run(redrive, { verb, ids: some ?? "", begun, spreadMs });
        total += reply.moved;
        ({ begun } = reply);
        if (!ids && reply.moved < maxRedriven) return total;
      }
    });
  }

  async #close(deadline: Deadline, options: CloseOptions): Promise<void> {
    const adding = this.#producer.close(deadline);
    await Promise.all([adding, this.#calls.close(), ...[...this.#workers].map((worker) => worker.close(options))]);
  }

  #call<T>(operation: string, facts: object, run: () => Promise<T>): Promise<T> {
    return this.#life.call(operation, () => ({ queue: this.name, ...facts }), run);
  }

  /** A call whose result contains data of jobs, which traces do not show. */
  #privateCall<T>(operation: string, facts: object, run: () => Promise<T>): Promise<T> {
    return this.#life.privateCall(operation, () => ({ queue: this.name, ...facts }), run);
  }
}

/** A queue with schemas: its handlers get the output of the schemas, which is the data as it was declared. */
export function createQueue<Jobs extends JobTypes<Jobs>>(
  redis: RedisLike,
  name: string,
  options: Omit<QueueOptions, "schemas"> & { readonly schemas: JobSchemas<NoInfer<Jobs>> },
): Queue<Jobs, Jobs>;
/**
 * Makes a queue object. Any number of processes may add to and work on the queue of this name.
 *
 * `redis` is a client of core's `connect()`, of ioredis, or of `fromNodeRedis()`. It is borrowed: never closed, never blocked.
 * Each worker opens two connections of its own; `close()` ends them.
 *
 * @throws {TypeError | RangeError} `redis` or an option is not what it should be.
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
