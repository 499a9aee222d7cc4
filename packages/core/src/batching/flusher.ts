import { type Deadline, detachedTimeout, inTime } from "../toolkit/index.js";

/** When a local aggregate is written. */
export interface FlusherOptions {
  /** Writes the aggregate. On failure it keeps the rest, and rejects. */
  readonly flush: () => Promise<void>;
  /** How long after its first change the aggregate is written, in milliseconds; after a failure, how long until the next try. */
  readonly everyMs: number;
  /** A flush failed that no caller waits for. */
  readonly onError: (error: unknown) => void;
}

/**
 * Decides when an aggregate in local memory is written: one flush at a time, some time after the first change, at once on
 * request. Its timer does not keep a process alive: call `close()` so that no change is lost.
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

  /** The aggregate changed: it is flushed within `everyMs`, with all changes until then. */
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
   * Flushes once more, and ends the timer. Later changes are flushed only by `now()`.
   *
   * Resolves at `deadline` at the latest, with whether everything was written.
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
