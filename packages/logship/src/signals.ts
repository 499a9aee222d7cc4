import { onAbort } from "@kit/core/toolkit";

/** A signal that aborts with any of some others, or by its controller, and what takes its listeners off. */
export interface LinkedSignal {
  readonly controller: AbortController;
  readonly signal: AbortSignal;
  unlink(): void;
}

/** Runs several of the same at once; if one fails the others are aborted, and its error is thrown once all have ended. */
export const together = async (
  count: number,
  controller: AbortController,
  work: () => Promise<void>,
): Promise<void> => {
  const all = Array.from({ length: count }, async () => {
    try {
      await work();
    } catch (error) {
      controller.abort(error);
      throw error;
    }
  });
  await Promise.allSettled(all);
  await Promise.all(all);
};

/** Lets several loops take from one generator; leaving a loop does not end it for the others. */
export const shared = <T>(values: AsyncGenerator<T, void, undefined>): AsyncIterable<T> => ({
  [Symbol.asyncIterator]: () => ({ next: () => values.next() }),
});

export const linkedSignal = (signals: readonly (AbortSignal | undefined)[]): LinkedSignal => {
  const controller = new AbortController();
  const stops = signals.map((signal) => onAbort(signal, () => controller.abort(signal?.reason)));
  return { controller, signal: controller.signal, unlink: () => stops.forEach((stop) => stop()) };
};
