import { inTime } from "@kit/core/toolkit";

interface Batch<Query, Answer> {
  readonly queries: Query[];
  readonly answers: Promise<readonly Answer[]>;
  /** The signal of its first query, which applies if that stays alone. */
  readonly signal: AbortSignal | undefined;
}

/**
 * Sends the queries of one turn of the event loop in one batch: a busy process sends a fraction of the commands, and no query
 * waits for the answer to another. A single query is sent unchanged.
 */
export class QueryBatcher<Query, Answer> {
  readonly #send: (queries: readonly Query[], signal: AbortSignal | undefined) => Promise<readonly Answer[]>;
  readonly #most: number;
  #open: Batch<Query, Answer> | undefined;

  /** `send` resolves with the answers in the order of the queries, which are at most `most`. */
  constructor(
    most: number,
    send: (queries: readonly Query[], signal: AbortSignal | undefined) => Promise<readonly Answer[]>,
  ) {
    this.#most = most;
    this.#send = send;
  }

  /** @throws what `send` throws, or `signal.reason` if `signal` aborts first. */
  async run(query: Query, signal: AbortSignal | undefined): Promise<Answer> {
    signal?.throwIfAborted();
    const batch = (this.#open ??= this.#begin(signal));
    const at = batch.queries.push(query) - 1;
    if (batch.queries.length === this.#most) this.#open = undefined;
    const answers = await (signal ? inTime(batch.answers, { signal }) : batch.answers);
    return answers[at] as Answer;
  }

  #begin(signal: AbortSignal | undefined): Batch<Query, Answer> {
    const queries: Query[] = [];
    const answers = new Promise<readonly Answer[]>((resolve) => {
      // After everything else in this turn, including promises that are already settled.
      process.nextTick(() => {
        if (this.#open === batch) this.#open = undefined;
        resolve(this.#send(queries, queries.length === 1 ? batch.signal : undefined));
      });
    });
    const batch = { queries, answers, signal };
    return batch;
  }
}
