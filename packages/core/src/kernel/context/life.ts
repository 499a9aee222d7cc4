import { Deadline } from "../base/deadline.js";
import { KitClosedError, withCaller } from "../base/errors.js";
import { type AttachOptions, type CloseOptions, closeTimeoutMs } from "../base/options.js";
import { inTime } from "../base/settle.js";
import { beginTraced } from "../base/tracing.js";
import type { RedisLike } from "../connection/client.js";
import { attach, type ClientContext } from "./context.js";

/** The life of one public object on a client: attached, open, closing, detached. Each object of a package has one. */
export class ObjectLife {
  readonly context: ClientContext;
  readonly #what: string;
  readonly #cancelled = new AbortController();
  /** The number of calls, and of other work, in progress. */
  #calls = 0;
  #onIdle: (() => void) | undefined;
  readonly #undo: (() => unknown)[] = [];
  #closed: Promise<void> | undefined;

  /**
   * Attaches to `redis`. `what` names the object at the start of error messages: `The lock`.
   *
   * @throws {TypeError | RangeError} an option or the client is invalid.
   */
  constructor(redis: RedisLike, options: AttachOptions, what: string) {
    this.context = attach(redis, options);
    this.#what = what;
  }

  /** Whether `close()` was called. */
  get isClosed(): boolean {
    return this.#closed !== undefined;
  }

  /** Aborts with `closedError()` at `cancel()`, and at the latest when `close()` ends. */
  get signal(): AbortSignal {
    return this.#cancelled.signal;
  }

  /** The error for work that starts after `close()`, or that `close()` ends. */
  closedError(): KitClosedError {
    return new KitClosedError(this.#what);
  }

  /** @throws {KitClosedError} `close()` was called. */
  assertOpen(): void {
    if (this.#closed) throw this.closedError();
  }

  /**
   * Runs one call of a user in the tracing channel `kit:<name>`, with `facts()`. The call is in progress until its promise settles.
   *
   * @throws {KitClosedError} `close()` was called; nothing is traced.
   * @throws what `run` throws.
   */
  async call<T>(name: string, facts: () => object, run: () => Promise<T>): Promise<T> {
    this.assertOpen();
    this.#calls++;
    try {
      return await beginTraced(name, facts, run);
    } catch (error) {
      throw withCaller(error);
    } finally {
      this.#ended();
    }
  }

  /** Like `call`, for a result that must not appear in traces. */
  async privateCall<T>(name: string, facts: () => object, run: () => Promise<T>): Promise<T> {
    let result: T | undefined;
    await this.call(name, facts, async () => void (result = await run()));
    return result as T;
  }

  /**
   * Counts `work` as in progress until it settles, and settles in the same way. For work that is not a call, or may start after
   * `close()`. If work undoes a call, track it before the call settles.
   */
  track<T>(work: Promise<T>): Promise<T> {
    this.#calls++;
    // Not a second reaction to `work`: then the stack of an error would not lead to the caller.
    return work.finally(() => this.#ended());
  }

  /** Registers functions that the end of `close()` calls before it detaches. They remove this object's listeners. */
  onClosed(...undo: readonly (() => unknown)[]): void {
    this.#undo.push(...undo);
  }

  /** Aborts `signal`. If `close()` ends an object's calls immediately, it starts with this. */
  cancel(): void {
    this.#cancelled.abort(this.closedError());
  }

  /** Resolves when no work is in progress, or at the deadline. Never rejects. */
  async untilIdle(deadline: Deadline): Promise<void> {
    if (this.#calls > 0) await inTime(new Promise<void>((resolve) => (this.#onIdle = resolve)), { deadline });
  }

  /**
   * Closes the object once. No new call starts, and `end` waits for or ends work in progress by its deadline. Then the signal
   * aborts, the listeners are removed, and the context is detached. Later calls return the promise of the first call, whose options
   * apply.
   *
   * @throws {TypeError | RangeError} an option is invalid; the object stays open.
   * @throws what `end` throws; the context is detached.
   */
  close(options: CloseOptions, end: (deadline: Deadline) => Promise<void>): Promise<void> {
    const timeoutMs = closeTimeoutMs(options);
    if (this.#closed) return this.#closed;
    let settle!: (ended: Promise<void>) => void;
    // It counts as closed before `end` begins, which may close it again.
    this.#closed = new Promise<void>((resolve) => (settle = resolve)).finally(() => {
      this.cancel();
      for (const undo of this.#undo) undo();
      this.context.detach();
    });
    settle(end(Deadline.in(timeoutMs)));
    return this.#closed;
  }

  #ended(): void {
    if (--this.#calls === 0) this.#onIdle?.();
  }
}
