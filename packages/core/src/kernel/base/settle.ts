import { atDeadline, type Deadline, onAbort } from "./deadline.js";

/** What ends a wait besides what is waited for. */
export interface Limit {
  /** Undefined: no end. */
  readonly deadline: Deadline | undefined;
  readonly signals: readonly (AbortSignal | undefined)[];
}

/** How a promise ends; the first call counts. */
export interface Settle<T> {
  readonly resolve: (value: T) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * A promise that ends once: as `begin` says, at the deadline as `late` says, or with the reason of a signal that aborts.
 * What `begin` returns is called then, before anybody hears of the end: it takes back what was begun. A signal that has
 * aborted before counts too, after `begin`.
 */
export const settled = <T>(
  { deadline, signals }: Limit,
  late: (settle: Settle<T>) => void,
  begin: (settle: Settle<T>) => (() => void) | void,
): Promise<T> =>
  new Promise((resolve, reject) => {
    const stops: (() => void)[] = [];
    let isOver = false;
    const end = (outcome: () => void): void => {
      if (isOver) return;
      isOver = true;
      for (const stop of stops) stop();
      outcome();
    };
    const settle: Settle<T> = {
      resolve: (value) => end(() => resolve(value)),
      reject: (error) => end(() => reject(error as Error)),
    };
    /** Of what ended everything in the moment it began nothing else would be taken back. */
    const keep = (stop: (() => void) | void): void => {
      if (!stop) return;
      if (isOver) stop();
      else stops.push(stop);
    };
    keep(begin(settle));
    if (deadline && !isOver) keep(atDeadline(deadline, () => late(settle)));
    for (const signal of signals) if (!isOver) keep(onAbort(signal, () => settle.reject(signal?.reason)));
  });
