import { atDeadline, type Deadline, onAbort } from "./deadline.js";

type Signal = AbortSignal | undefined;

/** A deadline and signals that can also end a wait. */
export interface Limit {
  /** Undefined: no deadline. */
  readonly deadline?: Deadline | undefined;
  readonly signal?: Signal | readonly Signal[];
}

/** How a promise settles. Only the first call counts. */
export interface Settle<T> {
  readonly resolve: (value: T) => void;
  readonly reject: (error: unknown) => void;
}

type Stop = (() => void) | void;

/**
 * A promise that settles once: from `begin`, from `late` at the deadline, or with the reason of the first signal that aborts.
 * `begin` returns a function that undoes what it started; it is called before the promise settles. If a signal has already aborted,
 * the promise rejects after `begin` was called.
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
    // If `begin` started something after the promise settled, it is undone immediately.
    const keep = (stop: Stop): void => void (isOver ? stop?.() : stops.push(stop));
    keep(begin(settle));
    if (deadline && !isOver) keep(atDeadline(deadline, () => late(settle)));
    if (signal) for (const one of [signal].flat()) if (!isOver) keep(onAbort(one, () => settle.reject(one?.reason)));
  });

/**
 * The result of `work`. At the deadline it rejects with `late()`, or resolves with undefined if you don't pass `late`. A later
 * result is dropped. Rejects with the reason of the first signal that aborts.
 */
export function inTime<T>(work: Promise<T>, limit: Limit & { readonly deadline?: undefined }): Promise<T>;
export function inTime<T>(work: Promise<T>, limit: Limit): Promise<T | undefined>;
export function inTime<T>(work: Promise<T>, limit: Limit, late: () => Error): Promise<T>;
export function inTime<T>(work: Promise<T>, limit: Limit, late?: () => Error): Promise<T | undefined> {
  return settled<T | undefined>(
    limit,
    ({ resolve, reject }) => (late ? reject(late()) : resolve(undefined)),
    ({ resolve, reject }) => void work.then(resolve, reject),
  );
}

/** Keeps a stream that fails before it is read from ending the process. Only its reader gets the error. */
export const holdErrors = (stream: unknown): void => {
  const { on } = (stream ?? {}) as { readonly on?: unknown };
  if (typeof on === "function") on.call(stream, "error", () => undefined);
};

/** Yields the elements of a source. Rejects with a signal's reason when that signal aborts, even while the source waits. */
export async function* untilAborted<T>(
  source: Iterable<T> | AsyncIterable<T>,
  ...signal: readonly Signal[]
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
      const next = await inTime(elements.next(), { signal });
      isWaiting = false;
      isOver = next.done === true;
      if (next.done) return;
      yield next.value;
    }
  } finally {
    const ended = isOver ? undefined : elements.return?.();
    // A generator ends only after its pending wait has settled.
    if (isWaiting) ended?.catch(() => undefined);
    else await ended;
  }
}
