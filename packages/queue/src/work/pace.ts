/** How much work to take ahead: in milliseconds of a handler's time, and in jobs. */
const aheadMs = 50;
const maxAhead = 500;
/** Jobs that wait longer than this for a free handler go back, because another worker may have one. */
export const prefetchedMs: number = 2 * aheadMs;

/** Names can come from user input: beyond this number the oldest name is forgotten. */
const mostNames = 1_000;

interface Named {
  readonly name: string;
}

/** How long the handlers of one worker take, by name, and how many jobs it can take ahead. */
export class Pace {
  readonly #averagesMs = new Map<string, number>();
  /** How many jobs of each name the last take had. The next take is expected to be similar. */
  readonly #lastTaken = new Map<string, number>();

  /** A handler ran for this long. `share`: its weight in the average. */
  note(name: string, tookMs: number, share: number = 1 / 16): void {
    const before = this.#averagesMs.get(name) ?? tookMs;
    if (this.#averagesMs.size >= mostNames && !this.#averagesMs.has(name))
      this.#averagesMs.delete(this.#averagesMs.keys().next().value ?? "");
    this.#averagesMs.set(name, before + (tookMs - before) * share);
  }

  taken(jobs: readonly Named[]): void {
    this.#lastTaken.clear();
    for (const { name } of jobs) this.#lastTaken.set(name, (this.#lastTaken.get(name) ?? 0) + 1);
  }

  /** How many jobs to take ahead. None if the last take had a name whose handler has never finished. */
  ahead(concurrency: number): number {
    let [sum, count] = [0, 0];
    for (const [name, taken] of this.#lastTaken) {
      sum += taken * (this.#averagesMs.get(name) ?? Infinity);
      count += taken;
    }
    const averageMs = count === 0 ? Infinity : Math.max(sum / count, 0.001);
    return Math.min(maxAhead, Math.floor((aheadMs / averageMs) * concurrency));
  }

  /** The index of the first job that would wait too long for a handler, or whose name is unknown. -1 if there is none. */
  firstLate(jobs: readonly Named[], concurrency: number): number {
    let sum = 0;
    return jobs.findIndex(({ name }) => {
      const isLate = sum > prefetchedMs * concurrency;
      sum += this.#averagesMs.get(name) ?? Infinity;
      return isLate || sum === Infinity;
    });
  }
}
