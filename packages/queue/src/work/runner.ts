import type { StandardSchema } from "@kit/core/config";
import { decodePayload } from "../add/payload.js";
import { check, isThenable, type SchemaMap } from "../add/schemas.js";
import { JobTimeoutError, UnrecoverableError } from "../errors.js";
import type { Fates } from "./fate.js";
import type { Job } from "./job.js";
import type { Pace } from "./pace.js";
import type { TakenJob } from "./taken.js";
import { realTimers, type Turn } from "./turn.js";

/** The part of the worker that its handlers use. */
export interface RunnerHost {
  /** A handler has ended. */
  readonly freed: () => void;
  /** The next step is due soon. */
  readonly schedule: () => void;
}

/** Runs the handlers of one worker. What a handler returns or throws decides the fate of its job. */
export class Runner {
  readonly #handlers: ReadonlyMap<string, (job: Job) => unknown>;
  readonly #schemas: SchemaMap;
  readonly #turn: Turn | undefined;
  readonly #pace: Pace;
  readonly #fates: Fates;
  readonly #host: RunnerHost;
  #running = 0;

  constructor(
    handlers: ReadonlyMap<string, (job: Job) => unknown>,
    schemas: SchemaMap,
    turn: Turn | undefined,
    pace: Pace,
    fates: Fates,
    host: RunnerHost,
  ) {
    this.#handlers = handlers;
    this.#schemas = schemas;
    this.#turn = turn;
    this.#pace = pace;
    this.#fates = fates;
    this.#host = host;
  }

  /** How many handlers run. */
  get running(): number {
    return this.#running;
  }

  run(job: TakenJob): void {
    const now = performance.now();
    // This process was paused: another one may have the job by now.
    if (now >= job.leaseUntil) return this.#fates.lost(job);
    try {
      job.data = decodePayload(job.blob, job);
    } catch {
      return this.#fates.refused(job, "The stored data cannot be read");
    }
    const handler = this.#handlers.get(job.name);
    if (!handler) return this.#fates.refused(job, "There is no handler of this name");
    job.state = "running";
    job.hasHandler = true;
    job.startedAt = now;
    this.#running++;
    this.#turn?.began();
    const { timeoutMs } = job.header;
    if (timeoutMs !== undefined)
      job.cancelTimer = (this.#turn?.timers ?? realTimers)(() => this.#onTimeout(job, timeoutMs), timeoutMs);
    let result: unknown;
    try {
      const schema = this.#schemas.get(job.name);
      result = schema ? this.#checkAndRun(schema, handler, job) : handler(job);
    } catch (error) {
      this.#onFailed(job, error);
      return;
    }
    // A foreign promise may throw in `then`, or call back twice; a native one does not.
    if (isThenable(result))
      void Promise.resolve(result).then(
        (value: unknown) => this.#onReturned(job, value),
        (error: unknown) => this.#onFailed(job, error),
      );
    else this.#onReturned(job, result);
  }

  async #checkAndRun(schema: StandardSchema, handler: (job: Job) => unknown, job: TakenJob): Promise<unknown> {
    const pending = check(schema, job.data);
    const checked = pending instanceof Promise ? await pending : pending;
    // The job timed out, lost its lease or was aborted meanwhile.
    if (job.stopReason) throw job.stopReason;
    if (!checked.isValid) {
      job.isInvalid = true;
      throw new UnrecoverableError(`The stored data ${checked.reason}`);
    }
    job.data = checked.value;
    return await handler(job);
  }

  #onReturned(job: TakenJob, result: unknown): void {
    this.#leave(job);
    if (job.state === "running") this.#fates.done(job, result);
    this.#host.freed();
  }

  #onFailed(job: TakenJob, error: unknown): void {
    this.#leave(job);
    if (job.state === "running") this.#fates.failed(job, error);
    this.#host.freed();
  }

  #onTimeout(job: TakenJob, timeoutMs: number): void {
    if (job.state !== "running") return;
    const error = new JobTimeoutError(job.name, timeoutMs);
    job.stop(error);
    // The attempt has failed; its handler occupies a slot until it ends.
    this.#fates.failed(job, error);
    this.#host.schedule();
  }

  #leave(job: TakenJob): void {
    this.#running--;
    job.hasHandler = false;
    job.cancelTimer?.();
    this.#pace.note(job.name, performance.now() - job.startedAt);
  }
}
