import { unlessAborted } from "@kit/core/toolkit";

/** What a source gives, until a signal aborts: a source may wait for its next element for ever. */
export async function* elementsOf<T>(
  source: Iterable<T> | AsyncIterable<T>,
  signals: readonly (AbortSignal | undefined)[],
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
