import { type KitError, KitUnavailableError } from "@kit/core";
import { Flusher } from "@kit/core/batching";
import {
  asKitError,
  atDeadline,
  Deadline,
  inTime,
  newToken,
  type ObjectLife,
  onAbort,
  type OutageReporter,
  pause,
  traced,
} from "@kit/core/toolkit";
import { StatsTimeError } from "../errors.js";
import type { Commands } from "../store/commands.js";
import { maxAheadMs } from "../time/buckets.js";
import { SendBuffer } from "./buffer.js";
import { Dispatcher } from "./dispatcher.js";
import type { ConfirmOptions, StatsSettings } from "./options.js";
import type { Aggregate, DropReason, Outbox, Waiter } from "./outbox.js";
import { Outcomes } from "./outcomes.js";

export interface SenderEvents {
  readonly dropped: (series: string, reason: DropReason, count: number) => void;
  /** A key of each call. */
  readonly used: (key: string) => void;
  /** The server has refused an amount. */
  readonly error: (error: KitError) => void;
  /** Reports the loops that retry. */
  readonly outage: OutageReporter;
}

/** The pause between two tries to send the rest, while closing. */
const closePauseMs = 50;

/** Sends the buffer: every `flushMs`, earlier when it is half full, and immediately for callers that wait. */
export class Sender {
  readonly buffer: SendBuffer;
  readonly #life: ObjectLife;
  readonly #commands: Commands;
  readonly #outage: OutageReporter;
  readonly #flusher: Flusher;
  readonly #outcomes: Outcomes;
  readonly #dispatcher: Dispatcher;

  constructor(life: ObjectLife, commands: Commands, settings: StatsSettings, events: SenderEvents) {
    this.#life = life;
    this.#commands = commands;
    this.#outage = events.outage;
    this.#flusher = new Flusher({
      flush: () => this.#flushListed(),
      // A random part, so that processes that started together do not flush together.
      everyMs: settings.flushMs * (0.9 + 0.2 * Math.random()),
      onError: this.#flushFailed,
    });
    this.buffer = new SendBuffer(newToken(), settings.maxPending, {
      dropped: events.dropped,
      changed: () => this.#flusher.changed(),
      halfFull: () => void this.#flusher.now().catch(this.#flushFailed),
    });
    this.#outcomes = new Outcomes(commands, this.buffer, events.error);
    this.#dispatcher = new Dispatcher(commands, this.buffer, this.#outcomes, events.used);
  }

  /**
   * Adds an amount to an outbox, sends it as soon as possible, and resolves with the server's answer. With an `op` it waits for
   * the amount of an earlier call instead.
   *
   * @throws {StatsTimeError} `at` lies more than a minute ahead of the server; nothing was added.
   * @throws {KitUnknownOutcomeError} the reply is lost; in effectively-once delivery it is sent again in the background, and
   *   `confirm()` with the error's `op` waits for that.
   */
  confirm<Value, Result>(
    outbox: Outbox<Aggregate<Value>, Result>,
    options: ConfirmOptions,
    put: (awaited: Aggregate<Value>, value: Value) => void,
  ): Promise<Result> {
    const deadline = this.#dispatcher.deadline();
    const { at, signal, op } = options;
    if (op !== undefined) return inTime(this.#again(op, deadline), { signal });
    if (at === undefined) return this.#enlist(outbox, options, deadline, put);
    return this.#commands.learnTime(deadline, signal).then(() => {
      if (at > this.#commands.clock.now() + maxAheadMs) throw new StatsTimeError(outbox.id);
      return this.#enlist(outbox, options, deadline, put);
    });
  }

  #enlist<Value, Result>(
    outbox: Outbox<Aggregate<Value>, Result>,
    { at, signal }: ConfirmOptions,
    deadline: Deadline,
    put: (awaited: Aggregate<Value>, value: Value) => void,
  ): Promise<Result> {
    const { clock } = this.#commands;
    return new Promise<Result>((resolve, reject) => {
      signal?.throwIfAborted();
      this.#life.assertOpen();
      const localAt = performance.now();
      const fail = (error: unknown): void => {
        outbox.waiters.delete(waiter);
        stopTimer();
        stopListening();
        reject(error as Error);
      };
      const waiter: Waiter<Aggregate<Value>, Result> = {
        deadline,
        put: (awaited) => put(awaited, awaited.timeline.slot(at ?? clock.at(localAt), () => true) as Value),
        resolve: (result) => {
          stopTimer();
          stopListening();
          resolve(result);
        },
        reject: fail,
      };
      outbox.waiters.add(waiter);
      // A call under way has no later deadline.
      const stopTimer = atDeadline(deadline, () => {
        if (outbox.waiters.has(waiter)) fail(this.#commands.notSent(outbox.id));
      });
      const stopListening = onAbort(signal, () => fail(signal?.reason));
      this.buffer.list(outbox as unknown as Outbox);
      void this.#dispatcher.attempt(outbox as unknown as Outbox);
    });
  }

  /** Waits again for a batch whose outcome was unknown. */
  async #again<Result>(op: string, deadline: Deadline): Promise<Result> {
    const batch = this.#outcomes.find(op);
    if (!batch) throw new RangeError("Expected `op` to be from a KitUnknownOutcomeError of this object");
    if (!batch.outcome) await inTime(this.#dispatcher.attempt(batch.outbox), { deadline });
    const { outcome } = batch;
    if (!outcome) throw this.#outcomes.unknown(batch, undefined, true);
    if ("error" in outcome) throw outcome.error;
    return outcome.result as Result;
  }

  /**
   * Sends everything that waits now.
   *
   * @throws {KitError} some of it could not be sent. It stays in the buffer.
   */
  async flush(): Promise<void> {
    if (this.buffer.listed.size > 0) await this.#flusher.now();
  }

  #flushListed(): Promise<void> {
    const listed = [...this.buffer.listed];
    return traced(
      "stats.flush",
      () => ({ series: listed.length }),
      async () => {
        const tried = await Promise.all(listed.map((outbox) => this.#dispatcher.attempt(outbox)));
        const errors = tried.filter((error) => error !== undefined);
        const failure = errors.find((error) => !this.#outcomes.isRefusal(error));
        if (!failure) this.#outage.worked("sending");
        const error = failure ?? errors[0];
        if (error) throw error;
      },
    );
  }

  /** Reports the failure of a flush without a waiting caller. */
  readonly #flushFailed = (reason: unknown): void => {
    const error = asKitError(reason, "Sending");
    if (!this.#outcomes.isRefusal(error)) this.#outage.failed("sending", error);
  };

  /** Sends the rest, and drops what cannot be sent by `deadline`. */
  async close(deadline: Deadline): Promise<void> {
    const { listed } = this.buffer;
    this.#dispatcher.closeBy(deadline);
    while (listed.size > 0 && deadline.remainingMs > 0) {
      const error = await inTime(
        this.#flusher.now().catch((reason: unknown) => asKitError(reason, "Sending")),
        { deadline },
      );
      // A client that has ended stays so.
      if (error instanceof KitUnavailableError && !error.retryable) break;
      if (error) await pause(Math.max(0, Math.min(closePauseMs, deadline.remainingMs)));
    }
    await this.#flusher.close(Deadline.in(0));
    for (const outbox of listed) {
      if (outbox.sealed) this.#outcomes.abandon(outbox.sealed);
      this.buffer.drop(outbox.id, "closed", outbox.buffered.units);
      outbox.discard();
      for (const { reject } of [...outbox.waiters]) reject(this.#life.closedError());
    }
    this.buffer.clear();
  }
}
