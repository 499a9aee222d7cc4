import { unlessAborted } from "@kit/core/toolkit";

async function* elementsOf<T>(source: AsyncIterable<T>, signal: AbortSignal): AsyncGenerator<T, void> {
  const elements = source[Symbol.asyncIterator]();
  let isWaiting = false;
  let isOver = false;
  try {
    for (;;) {
      isWaiting = true;
      const next = await unlessAborted(elements.next(), signal);
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

/** What a source gives, until `signal` aborts: a source may wait for its next element for ever. */
export const untilAborted = <Source extends AsyncIterable<unknown> | Iterable<unknown>>(
  source: Source,
  signal: AbortSignal | undefined,
): Source | AsyncGenerator<Source extends AsyncIterable<infer T> | Iterable<infer T> ? T : never, void> =>
  signal && Symbol.asyncIterator in source ? (elementsOf(source as AsyncIterable<never>, signal) as never) : source;
