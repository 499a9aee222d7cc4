import { type Ending, takeFrom } from "./endings.js";

/** The ended jobs of a worker that the server has not confirmed yet, in the order in which they ended. */
export class EndedJobs {
  /** The jobs that wait for the next step. */
  readonly #waiting: Ending[] = [];
  readonly #onAdded: () => void;
  unconfirmed = 0;

  /** `onAdded`: a job can be sent. */
  constructor(onAdded: () => void) {
    this.#onAdded = onAdded;
  }

  /** How many jobs wait to be sent. */
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

  /** A job that another call ends, once its notes are written. */
  async by<Reply>(ending: Ending, send: () => Promise<Reply>): Promise<Reply> {
    this.unconfirmed++;
    try {
      await ending.job.notes?.settled;
      return await send();
    } catch (error) {
      this.unconfirmed--;
      throw error;
    }
  }

  /** Takes the jobs of the next step. */
  take(): readonly Ending[] {
    return takeFrom(this.#waiting);
  }

  /** The step failed. If it may have arrived, the next step is a repeat. */
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
