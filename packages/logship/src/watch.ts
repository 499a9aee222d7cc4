/**
 * Waits for promises one after another, and for what may come in between: the time, or a failure elsewhere. `Promise.race` with a promise that lives
 * long would keep, in that one's list of listeners, whatever all the others resolved with.
 */
export class Watch {
  #failure: { readonly error: unknown } | undefined;
  #reject: (error: unknown) => void = () => undefined;

  /** Rejects what is waited for, and all that is later. */
  fail(error: unknown): void {
    this.#failure ??= { error };
    this.#reject(error);
  }

  /** Settles as `next` does; after `ms` with `late`. */
  async of<T>(next: Promise<T>, ms: number = Infinity): Promise<T | "late"> {
    let timer: NodeJS.Timeout | undefined;
    try {
      return await new Promise<T | "late">((resolve, reject) => {
        this.#reject = reject;
        if (this.#failure) reject(this.#failure.error as Error);
        if (ms < Infinity) timer = setTimeout(() => resolve("late"), ms);
        next.then(resolve, reject);
      });
    } finally {
      clearTimeout(timer);
    }
  }
}
