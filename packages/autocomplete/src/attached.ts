import { KitClosedError, type RedisLike } from "@kit/core";
import { attach, type AttachOptions, type ClientContext, Deadline, inTime } from "@kit/core/toolkit";

/** An object on a client: its calls are counted, and `close()` waits for them. */
export class Attached {
  readonly context: ClientContext;
  readonly #what: string;
  readonly #ending = new AbortController();
  readonly #calls = new Set<Promise<unknown>>();
  #closed: Promise<void> | undefined;

  constructor(redis: RedisLike, what: string, options: AttachOptions) {
    this.context = attach(redis, options);
    this.#what = what;
  }

  /** Aborts when `close()` no longer waits for the calls under way. */
  get ending(): AbortSignal {
    return this.#ending.signal;
  }

  /** @throws {KitClosedError} `close()` was called. */
  assertOpen(): void {
    if (this.#closed) throw new KitClosedError(this.#what);
  }

  /** Runs a call that `close()` waits for. */
  async run<T>(operation: () => Promise<T>): Promise<T> {
    this.assertOpen();
    const call = operation();
    this.#calls.add(call);
    try {
      return await call;
    } finally {
      this.#calls.delete(call);
    }
  }

  /** Waits for the calls under way, at most `timeoutMs`; the options of the first call hold. */
  close(timeoutMs: number): Promise<void> {
    this.#closed ??= this.#close(timeoutMs);
    return this.#closed;
  }

  async #close(timeoutMs: number): Promise<void> {
    const deadline = Deadline.in(timeoutMs);
    if (this.#calls.size > 0) await inTime(Promise.allSettled(this.#calls), { deadline });
    this.#ending.abort(new KitClosedError(this.#what));
    this.context.detach();
  }
}
