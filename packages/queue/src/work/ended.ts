import { type Ending, takeFrom } from "./endings.js";

/** The ended jobs of a worker that the server has not confirmed yet, in the order in which they ended. */
export class EndedJobs {
  /** Those that wait for the next step. */
  readonly #waiting: Ending[] = [];
  readonly #onAdded: () => void;
  unconfirmed = 0;

  /** `onAdded`: an end can be sent. */
  constructor(onAdded: () => void) {
    this.#onAdded = onAdded;
  }

  /** How many wait to be sent. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** Adds a job. It waits until its notes are written. */
  add(ending: Ending): void {
    this.unconfirmed++;
    const noting = ending.job.notes?.settled;
    if (noting) void noting.then(() => this.#queue(ending));
    else this.#queue(ending);
  }

  /** Those of the next step. */
  take(): readonly Ending[] {
    return takeFrom(this.#waiting);
  }

  /** The step failed. If it may have arrived, the next one is a repeat. */
  putBack(endings: readonly Ending[], isRepeat: boolean): void {
    this.#waiting.unshift(...endings);
    if (isRepeat) for (const { job } of endings) job.isRepeat = true;
  }

  confirm(endings: readonly Ending[]): void {
    this.unconfirmed -= endings.length;
  }

  #queue(ending: Ending): void {
    this.#waiting.push(ending);
    this.#onAdded();
  }
}
