import { detachedTimeout } from "../kernel/index.js";
import { type Deadline, inTime } from "../toolkit/index.js";

/** When to write a local aggregate. */
export interface FlusherOptions {
  /** Writes the aggregate. On failure, keep what was not written, and reject. */
  readonly flush: () => Promise<void>;
  /**
   * How long after its first change the aggregate is written, in milliseconds. Also the wait before the next try after a failure.
   */
  readonly everyMs: number;
  /** Called when a flush fails and no caller waits for it. */
  readonly onError: (error: unknown) => void;
}

/**
 * Decides when to write an aggregate in local memory: `everyMs` after its first change, or immediately on request. Only one flush
 * runs at a time. The timer does not keep a process alive, so call `close()` to lose no change.
 */
export class Flusher {
  readonly #options: FlusherOptions;
  #timer: NodeJS.Timeout | undefined;
  #current: Promise<void> | undefined;
  #next: Promise<void> | undefined;
  #isClosed = false;

  constructor(options: FlusherOptions) {
    this.#options = options;
  }

  /** Call this when the aggregate has changed. It is flushed within `everyMs`, with all changes until then. */
  changed(): void {
    if (this.#timer || this.#isClosed) return;
    this.#timer = detachedTimeout(() => {
      this.#timer = undefined;
      this.now().catch(this.#options.onError);
    }, this.#options.everyMs);
    this.#timer.unref();
  }

  /**
   * Flushes all changes before the call. Calls during a flush share the next one.
   *
   * @throws what `flush` rejects with.
   */
  now(): Promise<void> {
    if (!this.#current) return this.#start();
    this.#next ??= this.#current
      .catch(() => undefined)
      .then(() => {
        this.#next = undefined;
        return this.#start();
      });
    return this.#next;
  }

  /**
   * Flushes again, and ends the timer. After that, only `now()` flushes changes.
   *
   * Resolves by `deadline`, with whether everything was written.
   */
  async close(deadline: Deadline): Promise<boolean> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const work = this.now().then(
      () => true,
      (error: unknown) => {
        this.#options.onError(error);
        return false;
      },
    );
    return (await inTime(work, { deadline })) ?? false;
  }

  #start(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#current = this.#options
      .flush()
      .finally(() => {
        this.#current = undefined;
      })
      .catch((error: unknown) => {
        this.changed();
        throw error;
      });
    return this.#current;
  }
}
