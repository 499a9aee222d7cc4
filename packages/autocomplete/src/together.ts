import { unlessAborted } from "@kit/core/toolkit";

interface Batch<Query, Answer> {
  readonly queries: Query[];
  readonly answers: Promise<readonly Answer[]>;
  /** Of its first query, which counts where that stays alone. */
  readonly signal: AbortSignal | undefined;
}

/**
 * Sends queries together that are asked in one turn of the event loop: a busy process sends a fraction of the commands, and
 * nobody waits for the answer to somebody else's. A query that is alone is sent as it is.
 */
export class Together<Query, Answer> {
  readonly #send: (queries: readonly Query[], signal: AbortSignal | undefined) => Promise<readonly Answer[]>;
  readonly #most: number;
  #open: Batch<Query, Answer> | undefined;

  /** `send` answers in the order of the queries, `most` at once. */
  constructor(
    most: number,
    send: (queries: readonly Query[], signal: AbortSignal | undefined) => Promise<readonly Answer[]>,
  ) {
    this.#most = most;
    this.#send = send;
  }

  /** @throws what `send` throws, or `signal.reason` if `signal` aborts first. */
  async ask(query: Query, signal: AbortSignal | undefined): Promise<Answer> {
    signal?.throwIfAborted();
    const batch = (this.#open ??= this.#begin(signal));
    const at = batch.queries.push(query) - 1;
    if (batch.queries.length === this.#most) this.#open = undefined;
    const answers = await (signal ? unlessAborted(batch.answers, signal) : batch.answers);
    return answers[at] as Answer;
  }

  #begin(signal: AbortSignal | undefined): Batch<Query, Answer> {
    const queries: Query[] = [];
    const answers = new Promise<readonly Answer[]>((resolve) => {
      // Behind everything that this turn still does, promises that are settled already among it.
      process.nextTick(() => {
        if (this.#open === batch) this.#open = undefined;
        resolve(this.#send(queries, queries.length === 1 ? batch.signal : undefined));
      });
    });
    const batch = { queries, answers, signal };
    return batch;
  }
}
