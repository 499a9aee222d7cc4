import { type Deadline, onAbort, type Settle, settled } from "../toolkit/index.js";

/** How long somebody else's work is waited for. */
export interface Limit {
  /** Undefined: for ever. */
  readonly deadline: Deadline | undefined;
  readonly signals: readonly (AbortSignal | undefined)[];
}

/** As `settled`, with an error at the deadline, and with several signals. */
export const limited = <T>(
  { deadline, signals }: Limit,
  late: () => Error,
  begin: (settle: Settle<T>) => (() => void) | void,
): Promise<T> =>
  settled<T>(
    { deadline },
    ({ reject }) => reject(late()),
    (settle) => {
      const aborts = signals.map((signal) => onAbort(signal, () => settle.reject(signal?.reason)));
      const stops = [begin(settle), ...aborts];
      return () => {
        for (const stop of stops) stop?.();
      };
    },
  );

/**
 * Settles as `work` does, if that is in time. After the deadline it rejects with the error that `late` makes, after an abort
 * with the signal's reason. A later result is dropped.
 */
export const bounded = <T>(work: Promise<T>, limit: Limit, late: () => Error): Promise<T> =>
  limited<T>(limit, late, ({ resolve, reject }) => void work.then(resolve, reject));
