/** How much work is taken ahead, in milliseconds of handlers' time; and at most this many jobs. */
const aheadMs = 50;
const maxAhead = 500;
/** Jobs that wait for a free handler longer than this go back: another worker may have one. */
export const prefetchedMs: number = 2 * aheadMs;

interface Named {
  readonly name: string;
}

/** How long the handlers of one worker take, by name, and how many jobs it may take ahead. */
export class Pace {
  readonly #averagesMs = new Map<string, number>();
  /** The names of the jobs that were taken last, with how many: the next ones are expected to be like them. */
  readonly #lastTaken = new Map<string, number>();

  /** A handler took this long; `share` is its part in the average. */
  note(name: string, tookMs: number, share: number = 1 / 16): void {
    const before = this.#averagesMs.get(name) ?? tookMs;
    this.#averagesMs.set(name, before + (tookMs - before) * share);
  }

  taken(jobs: readonly Named[]): void {
    this.#lastTaken.clear();
    for (const { name } of jobs) this.#lastTaken.set(name, (this.#lastTaken.get(name) ?? 0) + 1);
  }

  /** How many jobs to take ahead: none while the last ones had a name of which no handler has ended yet. */
  ahead(concurrency: number): number {
    let [sum, count] = [0, 0];
    for (const [name, taken] of this.#lastTaken) {
      sum += taken * (this.#averagesMs.get(name) ?? Infinity);
      count += taken;
    }
    const averageMs = count === 0 ? Infinity : Math.max(sum / count, 0.001);
    return Math.min(maxAhead, Math.floor((aheadMs / averageMs) * concurrency));
  }

  /** The index of the first job that would wait for a handler for too long, or has an unknown name; -1 if there is none. */
  firstLate(jobs: readonly Named[], concurrency: number): number {
    let sum = 0;
    return jobs.findIndex(({ name }) => {
      const isLate = sum > prefetchedMs * concurrency;
      sum += this.#averagesMs.get(name) ?? Infinity;
      return isLate || sum === Infinity;
    });
  }
}
