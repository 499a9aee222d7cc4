import { KitError, KitKeyTypeError, KitUnknownOutcomeError } from "@kit/core";
import { serverError } from "@kit/core/toolkit";
import { CounterOverflowError, StatsExpiredError } from "../errors.js";
import type { Commands } from "../store/commands.js";
import type { SendBuffer } from "./buffer.js";
import type { Batch, DropReason } from "./outbox.js";

/** How many unknown outcomes callers can wait for again. */
const maxRemembered = 1_000;

/**
 * The end of each batch. It was counted or refused, or its call failed: then it goes back into the buffer, is dropped, or is sent
 * again with the same number, by the delivery of its outbox.
 */
export class Outcomes {
  readonly #commands: Commands;
  readonly #buffer: SendBuffer;
  readonly #onRefusal: (error: KitError) => void;
  /** Batches whose outcome is unknown, by the `op` of the error that reported it, the oldest first. */
  readonly #unknown = new Map<string, Batch>();
  readonly #refusals = new WeakSet<KitError>();

  constructor(commands: Commands, buffer: SendBuffer, onRefusal: (error: KitError) => void) {
    this.#commands = commands;
    this.#buffer = buffer;
    this.#onRefusal = onRefusal;
  }

  /** Whether the server has refused a single series. That was reported, and is no sign of an outage. */
  isRefusal(error: KitError): boolean {
    return this.#refusals.has(error);
  }

  /** A batch whose outcome was unknown. */
  find(op: string): Batch | undefined {
    return this.#unknown.get(op);
  }

  /** The call succeeded: ends a batch by its share of the reply. */
  replied(batch: Batch, reply: string | Error): KitError | undefined {
    const { outbox } = batch;
    // `close()` has dropped it.
    if (batch.outcome) return undefined;
    const refusal = refusalOf(reply, outbox.id);
    if (!refusal) {
      const result = outbox.decode(String(reply));
      outbox.counted(batch, result);
      this.#settle(batch, { result });
      return undefined;
    }
    const [reason, error] = refusal;
    // A batch is late at its first call only if the server's clock is ahead of the estimate, which this reply has corrected.
    if (error instanceof StatsExpiredError && !batch.mayBeCounted) {
      const unsent = this.#commands.notSent(outbox.id);
      this.#putBack(batch, unsent);
      return unsent;
    }
    this.#settle(batch, { error });
    this.#buffer.drop(outbox.id, reason, batch.buffered.units);
    this.#refusals.add(error);
    this.#onRefusal(error);
    return error;
  }

  /** The call failed: it was not sent, was refused as a whole, or has an unknown outcome. */
  failed(batch: Batch, error: KitError): void {
    const { outbox } = batch;
    if (batch.outcome) return;
    const isUnknown = error instanceof KitUnknownOutcomeError;
    if (isUnknown && outbox.delivery === "at-least-once")
      // For `flush()`, the error is retryable. If a caller adds an amount again, it is another amount.
      return this.#putBack(batch, new KitUnknownOutcomeError(error.message, undefined, error.cause));
    if (!isUnknown && !batch.mayBeCounted) return this.#putBack(batch, error);
    if (!isUnknown) return;
    if (outbox.delivery === "at-most-once") {
      const { units } = batch.buffered;
      this.#settle(batch, { error });
      this.#buffer.drop(outbox.id, "unknown", units);
      return;
    }
    batch.mayBeCounted = true;
    // Without a waiting caller, no one receives the `op`: keeping the batch would only cost memory.
    if (batch.waiters.length === 0) return;
    if (this.#unknown.size >= maxRemembered)
      for (const oldest of this.#unknown.keys()) {
        this.#unknown.delete(oldest);
        break;
      }
    this.#unknown.set(batch.op, batch);
    batch.rejectWaiters(this.unknown(batch, error.cause));
  }

  /** Drops a batch whose outcome is still unknown when the object is closed. */
  abandon(batch: Batch): void {
    this.#buffer.drop(batch.outbox.id, "unknown", batch.buffered.units);
    this.#settle(batch, { error: this.unknown(batch, undefined) });
  }

  /** The error of an unknown outcome. `isRepeat`: of a call with the `op` of the batch. */
  unknown({ outbox, op }: Batch, cause: unknown, isRepeat = false): KitUnknownOutcomeError {
    const message = `An amount for ${outbox.id} was sent, but the reply was lost: it may or may not have been counted`;
    return new KitUnknownOutcomeError(message, op, cause, isRepeat);
  }

  /** The batch was not counted: amounts without a waiting caller are kept for the next flush. */
  #putBack(batch: Batch, error: KitError): void {
    const { outbox } = batch;
    const before = outbox.size;
    outbox.sealed = undefined;
    outbox.buffered.absorb(batch.buffered);
    this.#buffer.release(before - outbox.size);
    batch.settle({ error });
  }

  #settle(batch: Batch, outcome: { result: unknown } | { error: KitError }): void {
    this.#buffer.release(batch.buffered.size);
    batch.outbox.sealed = undefined;
    batch.settle(outcome);
  }
}

/** The refusal in a script's reply for one series: an error or a word. A count starts with a digit. */
export const refusalOf = (reply: string | Error, series: string): readonly [DropReason, KitError] | undefined => {
  if (reply instanceof Error) return ["refused", serverError(reply, `Sending of ${series}`)];
  switch (reply) {
    case "overflow":
      return ["overflow", new CounterOverflowError(series)];
    case "late":
      return ["unknown", new StatsExpiredError(series)];
    case "type":
      return ["refused", new KitKeyTypeError(`A key of ${series} holds another type of data`, undefined, undefined)];
    default:
      return undefined;
  }
};
