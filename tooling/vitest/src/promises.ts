import { once } from "node:events";

/** A promise with a readable state. */
export interface Watched<T> {
  readonly promise: Promise<T>;
  readonly isSettled: boolean;
}

export const watched = <T>(promise: Promise<T>): Watched<T> => {
  const watch = { promise, isSettled: false };
  const settled = (): void => {
    watch.isSettled = true;
  };
  promise.then(settled, settled);
  return watch;
};

/** Resolves with the reason of a rejected promise. Throws if the promise is fulfilled. */
export const rejection = async (promise: Promise<unknown>): Promise<unknown> =>
  await promise.then(
    (value) => {
      throw new Error("the promise was not rejected", { cause: value });
    },
    (error: unknown) => error,
  );

/** Resolves with the reason for which a signal aborts. */
export const aborted = async (signal: AbortSignal): Promise<unknown> => {
  if (!signal.aborted) await once(signal, "abort");
  return signal.reason;
};
