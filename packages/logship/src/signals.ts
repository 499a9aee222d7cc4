import { onAbort, OwnAbortController } from "@kit/core/toolkit";

/** A signal that aborts with any of several others or through its controller, and a function that removes its listeners. */
export interface LinkedSignal {
  readonly controller: AbortController;
  readonly signal: AbortSignal;
  unlink(): void;
}

/** Runs a task `count` times in parallel. If one run fails, the others are aborted, and its error is thrown when all have finished. */
export const inParallel = async (
  count: number,
  controller: AbortController,
  work: () => Promise<void>,
): Promise<void> => {
  let first: { readonly error: unknown } | undefined;
  const all = Array.from({ length: count }, async () => {
    try {
      await work();
    } catch (error) {
      first ??= { error };
      controller.abort(error);
    }
  });
  await Promise.all(all);
  if (first) throw first.error;
};

/** Lets several loops consume one generator. A loop that stops does not end it for the others. */
export const shared = <T>(values: AsyncGenerator<T, void, undefined>): AsyncIterable<T> => ({
  [Symbol.asyncIterator]: () => ({ next: () => values.next() }),
});

export const linkedSignal = (signals: readonly (AbortSignal | undefined)[]): LinkedSignal => {
  const controller = new OwnAbortController();
  const stops = signals.map((signal) => onAbort(signal, () => controller.abort(signal?.reason)));
  return { controller, signal: controller.signal, unlink: () => stops.forEach((stop) => stop()) };
};

/**
 * Waits for promises one after another, with a time limit, or until a failure elsewhere. `Promise.race` with a long-lived promise would
 * keep all other results in its list of listeners.
 */
export class Watch {
  #failure: { readonly error: unknown } | undefined;
  #reject: (error: unknown) => void = () => undefined;

  /** Rejects the current wait and all later ones. */
  fail(error: unknown): void {
    this.#failure ??= { error };
    this.#reject(error);
  }

  /** Settles like `next`, or after `ms` with `late`. A time limit that has passed is negative, of which Node 24 prints a warning. */
  async of<T>(next: Promise<T>, ms: number = Infinity): Promise<T | "late"> {
    let timer: NodeJS.Timeout | undefined;
    try {
      return await new Promise<T | "late">((resolve, reject) => {
        this.#reject = reject;
        if (this.#failure) reject(this.#failure.error as Error);
        if (ms < Infinity) timer = setTimeout(() => resolve("late"), Math.max(0, ms));
        next.then(resolve, reject);
      });
    } finally {
      clearTimeout(timer);
    }
  }
}
