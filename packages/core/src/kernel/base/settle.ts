import { atDeadline, type Deadline, onAbort } from "./deadline.js";

/** The other ends of a wait: deadline and signal. */
export interface Limit {
  /** Undefined: no end. */
  readonly deadline: Deadline | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** How a promise ends; the first call counts. */
export interface Settle<T> {
  readonly resolve: (value: T) => void;
  readonly reject: (error: unknown) => void;
}

type Stop = (() => void) | void;

/**
 * A promise that ends once: as `begin` says, at the deadline as `late` says, or with the signal's reason when that aborts.
 * The function that `begin` returns undoes what was begun; it is called before the promise settles. A signal that has
 * aborted before counts too, after `begin`.
 */
export const settled = <T>(
  { deadline, signal }: Limit,
  late: (settle: Settle<T>) => void,
  begin: (settle: Settle<T>) => Stop,
): Promise<T> =>
  new Promise((resolve, reject) => {
    const stops: Stop[] = [];
    let isOver = false;
    const ending =
      <V>(end: (value: V) => void) =>
      (value: V): void => {
        if (isOver) return;
        isOver = true;
        for (const stop of stops) stop?.();
        end(value);
      };
    const settle: Settle<T> = { resolve: ending(resolve), reject: ending(reject) };
    // A step that begins when all is over is taken back at once.
    const keep = (stop: Stop): void => void (isOver ? stop?.() : stops.push(stop));
    keep(begin(settle));
    if (deadline && !isOver) keep(atDeadline(deadline, () => late(settle)));
    if (!isOver) keep(onAbort(signal, () => settle.reject(signal?.reason)));
  });

/** The result of `work`, or undefined at the deadline. */
export const inTime = <T>(work: Promise<T>, deadline: Deadline): Promise<T | undefined> =>
  settled<T | undefined>(
    { deadline },
    ({ resolve }) => resolve(undefined),
    ({ resolve, reject }) => void work.then(resolve, reject),
  );

/** The result of `work`; rejects with the signal's reason when that aborts before. */
export const unlessAborted = <T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> =>
  settled<T>(
    { deadline: undefined, signal },
    () => undefined,
    ({ resolve, reject }) => void work.then(resolve, reject),
  );

/** Yields the elements of a source; rejects with a signal's reason when that aborts, also while the source waits. */
export async function* untilAborted<T>(
  source: Iterable<T> | AsyncIterable<T>,
  ...signals: readonly (AbortSignal | undefined)[]
): AsyncGenerator<T, void> {
  if (!(Symbol.asyncIterator in source)) {
    yield* source;
    return;
  }
  const elements = source[Symbol.asyncIterator]();
  let isWaiting = false;
  let isOver = false;
  try {
    for (;;) {
      isWaiting = true;
      const next = await signals.reduce(unlessAborted, elements.next());
      isWaiting = false;
      isOver = next.done === true;
      if (next.done) return;
      yield next.value;
    }
  } finally {
    const ended = isOver ? undefined : elements.return?.();
    // A generator ends only when it has what it waits for.
    if (isWaiting) ended?.catch(() => undefined);
    else await ended;
  }
}
