import { type Deadline, inTime } from "../toolkit/index.js";

/** When what is gathered locally is written. */
export interface FlusherOptions {
  /** Writes all that is gathered. On failure it keeps the rest, and rejects. */
  readonly flush: () => Promise<void>;
  /** How long the first of what is gathered waits, in milliseconds; after a failure, how long until the next try. */
  readonly everyMs: number;
  /** A flush that nobody waits for has failed. */
  readonly onError: (error: unknown) => void;
}

/**
 * Decides when an aggregate in local memory is written: one flush at a time, some time after the first change, at once when
 * asked to. Its timer alone does not keep a process alive: call `close()` so that nothing gathered is lost.
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

  /** Something was gathered: it is flushed within `everyMs`, and what came in the meantime with it. */
  changed(): void {
    if (this.#timer || this.#isClosed) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.now().catch(this.#options.onError);
    }, this.#options.everyMs);
    this.#timer.unref();
  }

  /**
   * Flushes all that was gathered before the call. Calls that come while a flush is under way share the one after it.
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
