import { atDeadline, type Deadline, onAbort } from "../toolkit/index.js";

/** How long somebody else's work is waited for. */
export interface Limit {
  /** Undefined: for ever. */
  readonly deadline: Deadline | undefined;
  readonly signals: readonly (AbortSignal | undefined)[];
}

/**
 * What `work` gives, if it does so in time: after the deadline this rejects with what `late` makes, after an abort with
 * the signal's reason. What comes of it later is nobody's.
 */
export const bounded = <T>(work: Promise<T>, { deadline, signals }: Limit, late: () => Error): Promise<T> =>
  new Promise((resolve, reject) => {
    const stops: (() => void)[] = [];
    const settle = (outcome: () => void): void => {
      for (const stop of stops) stop();
      outcome();
    };
    work.then(
      (value) => settle(() => resolve(value)),
      (error: unknown) => settle(() => reject(error as Error)),
    );
    const aborted = signals.find((signal) => signal?.aborted);
    if (aborted) return reject(aborted.reason as Error);
    if (deadline) stops.push(atDeadline(deadline, () => settle(() => reject(late()))));
    for (const signal of signals) stops.push(onAbort(signal, () => settle(() => reject(signal?.reason as Error))));
  });
