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
  /** How many calls, and other work, are under way. */
  #calls = 0;
  #onIdle: (() => void) | undefined;
  readonly #undo: (() => unknown)[] = [];
  #closed: Promise<void> | undefined;

  /**
   * Attaches to `redis`. `what` is the object in errors, as the beginning of a sentence: `The lock`.
   *
   * @throws {TypeError | RangeError} an option or the client is not what it should be.
   */
  constructor(redis: RedisLike, options: AttachOptions, what: string) {
    this.context = attach(redis, options);
    this.#what = what;
  }

  /** Whether `close()` was called. */
  get isClosed(): boolean {
    return this.#closed !== undefined;
  }

  /** Aborts with `closedError()` at `cancel()`; at the latest when `close()` ends. */
  get signal(): AbortSignal {
    return this.#cancelled.signal;
  }

  /** The error of what begins after `close()`, or is ended by it. */
  closedError(): KitClosedError {
    return new KitClosedError(this.#what);
  }

  /** @throws {KitClosedError} `close()` was called. */
  assertOpen(): void {
    if (this.#closed) throw this.closedError();
  }

  /**
   * Runs one call of a user in the tracing channel `kit:<name>`, with `facts()`. It is under way until its promise settles.
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

  /** As `call`, for a result that no trace may show. */
  async privateCall<T>(name: string, facts: () => object, run: () => Promise<T>): Promise<T> {
    let result: T | undefined;
    await this.call(name, facts, async () => void (result = await run()));
    return result as T;
  }

  /**
   * Counts `work` as under way until it settles, and settles as it does. For work that is no call, or may begin after
   * `close()`. Work that undoes a call is tracked before the call settles.
   */
  track<T>(work: Promise<T>): Promise<T> {
    this.#calls++;
    // Not a second reaction to `work`: then the stack of an error would not lead to the caller.
    return work.finally(() => this.#ended());
  }

  /** Makes the end of `close()` call each of these functions before it detaches. They remove listeners of this object. */
  onClosed(...undo: readonly (() => unknown)[]): void {
    this.#undo.push(...undo);
  }

  /** Aborts `signal`: `close()` of an object whose calls end at once begins with it. */
  cancel(): void {
    this.#cancelled.abort(this.closedError());
  }

  /** Resolves when nothing is under way, or at the deadline. Never rejects. */
  async untilIdle(deadline: Deadline): Promise<void> {
    if (this.#calls > 0) await inTime(new Promise<void>((resolve) => (this.#onIdle = resolve)), { deadline });
  }

  /**
   * Closes the object once: no call begins any more, `end` waits or ends what is under way by its deadline, then the signal
   * aborts, the listeners are taken off, and the context is detached. Later calls give the promise of the first, whose options hold.
   *
   * @throws {TypeError | RangeError} an option is not what it should be; the object stays open.
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
