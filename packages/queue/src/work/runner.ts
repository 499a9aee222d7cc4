import type { StandardSchema } from "@kit/core/config";
import { ownContext, traceCarrier } from "@kit/core/toolkit";
import { decodePayload } from "../job/payload.js";
import { check, isThenable, type SchemaMap } from "../job/schemas.js";
import { JobLeaseLostError, JobRefusedError, JobTimeoutError } from "../job/errors.js";
import type { Fates } from "./fate.js";
import type { Job } from "../job/job.js";
import type { Pace } from "./pace.js";
import type { TakenJob } from "./taken.js";
import { realTimers, type Turn } from "./turn.js";

type Handler = (job: Job) => unknown;
type HandlerOf = (name: string) => ((job: TakenJob) => unknown) | undefined;

/** The name of the handler for jobs of all other names. */
const anyName = "*";

/**
 * Finds the handler of a job by its name. The handler of a name with a schema first checks the data of its job.
 *
 * @throws {TypeError} `handlers` is not a plain object with at least one function.
 */
export const handlerOf = (handlers: unknown, schemas: SchemaMap): HandlerOf => {
  const own = isPlain(handlers) ? Object.entries(handlers) : [];
  // Methods of a class and entries of a Map are not properties of the object: their jobs would have no handler.
  if (own.length === 0)
    throw new TypeError(
      "Expected `handlers` to be a plain object with at least one function, such as { email: (job) => mailer.email(job) }",
    );
  let any: Handler | undefined;
  const named = new Map<string, (job: TakenJob) => unknown>();
  for (const [name, handler] of own) {
    if (typeof handler !== "function")
      throw new TypeError(`Expected the handler of ${JSON.stringify(name)} to be a function, got ${typeof handler}`);
    if (name === anyName) any = handler as Handler;
    else named.set(name, handler as Handler);
  }
  for (const [name, schema] of schemas) {
    const handler = named.get(name) ?? any;
    if (handler) named.set(name, checked(schema, handler as Handler));
  }
  return (name) => named.get(name) ?? any;
};

/** Whether it is a module or an object literal, including an object literal of another realm. */
const isPlain = (value: unknown): value is Readonly<Record<string, unknown>> => {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
};

const checked =
  (schema: StandardSchema, handler: Handler) =>
  async (job: TakenJob): Promise<unknown> => {
    const pending = check(schema, job.data);
    const verdict = pending instanceof Promise ? await pending : pending;
    // In the meantime the job timed out, lost its lease or was aborted.
    if (job.stopReason) throw job.stopReason;
    if (!verdict.isValid) {
      job.refusal = new JobRefusedError(job.name, `the stored data ${verdict.reason}`);
      throw job.refusal;
    }
    job.data = verdict.value;
    return await handler(job);
  };

/** Runs the handlers of one worker. What a handler returns or throws decides the outcome of its job. */
export class Runner {
  readonly #queue: string;
  readonly #handlerOf: HandlerOf;
  readonly #turn: Turn | undefined;
  readonly #pace: Pace;
  readonly #fates: Fates;
  readonly #onFreed: () => void;
  /** The context of the call that created the worker. The reply or timer that starts a job can belong to another call. */
  readonly #inOwnContext = ownContext();
  #running = 0;

  /** `onFreed`: a handler has finished. */
  constructor(
    queue: string,
    findHandler: HandlerOf,
    turn: Turn | undefined,
    pace: Pace,
    fates: Fates,
    onFreed: () => void,
  ) {
    this.#queue = queue;
    this.#handlerOf = findHandler;
    this.#turn = turn;
    this.#pace = pace;
    this.#fates = fates;
    this.#onFreed = onFreed;
  }

  /** How many handlers run. */
  get running(): number {
    return this.#running;
  }

  run(job: TakenJob): void {
    this.#inOwnContext(() => this.#run(job));
  }

  #run(job: TakenJob): void {
    const now = performance.now();
    // This process was paused: another process may have the job by now.
    if (this.#fates.isOver(job)) return;
    let isReadable = !job.isDamaged;
    try {
      if (isReadable) job.data = decodePayload(job.blob, job);
    } catch {
      isReadable = false;
    }
    if (job.isExpired) return this.#fates.expired(job);
    const handler = this.#handlerOf(job.name);
    if (!isReadable || !handler) {
      const reason = isReadable ? "this worker has no handler with this name" : "the stored data cannot be read";
      return this.#fates.refused(job, new JobRefusedError(job.name, reason));
    }
    job.state = "running";
    job.hasHandler = true;
    job.startedAt = now;
    this.#running++;
    this.#turn?.began();
    const { timeoutMs } = job.header;
    if (timeoutMs !== undefined)
      job.cancelTimer = (this.#turn?.timers ?? realTimers)(() => this.#onTimeout(job, timeoutMs), timeoutMs);
    let result: unknown;
    let isPending: boolean;
    try {
      const tracer = traceCarrier();
      const { id, attempt, traceparent } = job;
      result = tracer
        ? tracer.consume("queue.run", { queue: this.#queue, job: job.name, id, attempt }, traceparent, () =>
            handler(job),
          )
        : handler(job);
      isPending = isThenable(result);
    } catch (error) {
      this.#onFailed(job, error);
      return;
    }
    // A foreign promise may throw in `then`, or call back twice; a native one does not.
    if (isPending)
      void Promise.resolve(result).then(
        (value: unknown) => this.#onReturned(job, value),
        (error: unknown) => this.#onFailed(job, error),
      );
    else this.#onReturned(job, result);
  }

  #onReturned(job: TakenJob, result: unknown): void {
    this.#leave(job);
    if (job.state === "running") this.#fates.done(job, result);
    this.#onFreed();
  }

  #onFailed(job: TakenJob, error: unknown): void {
    this.#leave(job);
    if (job.state === "running") this.#fates.failed(job, error);
    this.#onFreed();
  }

  #onTimeout(job: TakenJob, timeoutMs: number): void {
    // A job that must stop anyway goes back only when its handler has ended. A job that was cut off may still be leased.
    const { stopReason } = job;
    if (job.state !== "running" || (stopReason && !(stopReason instanceof JobLeaseLostError))) return;
    const error = new JobTimeoutError(job.name, timeoutMs);
    job.stop(error);
    // The attempt has failed; its handler occupies a slot until it ends.
    this.#fates.failed(job, error);
  }

  #leave(job: TakenJob): void {
    this.#running--;
    job.hasHandler = false;
    job.cancelTimer?.();
    job.ranMs = performance.now() - job.startedAt;
    this.#pace.note(job.name, job.ranMs);
  }
}
