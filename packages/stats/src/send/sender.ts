import { KitError, KitKeyTypeError, KitUnavailableError, KitUnknownOutcomeError, type RedisArgument } from "@kit/core";
import { Flusher } from "@kit/core/batching";
import {
  asKitError,
  atDeadline,
  type ClientContext,
  Deadline,
  inTime,
  newToken,
  noAnswer,
  type ObjectLife,
  onAbort,
  type OutageReporter,
  pause,
  reading,
  traced,
  serverError,
} from "@kit/core/toolkit";
import { maxAheadMs } from "../time/buckets.js";
import type { ServerTime } from "../time/clock.js";
import { CounterOverflowError, StatsExpiredError, StatsTimeError } from "../errors.js";
import type { ConfirmOptions } from "../options.js";
import type { Aggregate, Batch, Channel, Delivery, DropReason, Outbox, OutboxKeeper, Waiter } from "./outbox.js";
import { serverMs } from "../scripts/index.js";

export interface SenderSettings {
  readonly deadlineMs: number;
  readonly flushMs: number;
  readonly maxPending: number;
}

export interface SenderEvents {
  readonly dropped: (series: string, reason: DropReason, count: number) => void;
  /** A key of what is sent. */
  readonly used: (key: string) => void;
  /** The server has refused an amount. */
  readonly error: (error: KitError) => void;
  /** Reports the loops that try on. */
  readonly outage: OutageReporter;
}

/** How long the server remembers the last batch of a writer. A batch may be sent again for half of that. */
const ledgerMs = 600_000;
const resendMs = ledgerMs / 2;

/** On a single server the most series in one call, and the most operands. */
const maxSeries = 64;
const maxOperands = 4_000;
/** How many unknown outcomes callers may ask for again. */
const maxRemembered = 1_000;
/** If less than this share of a caller's deadline is left when its amount would be sent, the call rejects instead. */
const leastShare = 0.25;
/** The pause between two tries to send the rest, while closing. */
const closePauseMs = 50;

interface Attempt {
  readonly promise: Promise<KitError | undefined>;
  readonly resolve: (error: KitError | undefined) => void;
}

/**
 * Sends the contents of outboxes: every `flushMs`, earlier when the buffer is half full, and at once for callers who wait.
 *
 * Each outbox has at most one batch under way, so the server sees the sequence numbers of a series in order; different
 * series do not wait for each other.
 */
export class Sender implements OutboxKeeper {
  readonly #writer = newToken();
  #writers = 0;
  readonly #life: ObjectLife;
  readonly #context: ClientContext;
  readonly #clock: ServerTime;
  readonly #settings: SenderSettings;
  readonly #events: SenderEvents;
  readonly #flusher: Flusher;
  readonly #listed = new Set<Outbox>();
  /** Outboxes to be sent as soon as possible, with their callbacks. */
  readonly #wanted = new Map<Outbox, Attempt>();
  readonly #unknown = new Map<string, Batch>();
  /** Verdicts on single amounts: they were reported, and are no sign of an outage. */
  readonly #verdicts = new WeakSet<KitError>();
  #entries = 0;
  #seq = 0;
  #isDispatching = false;
  /** The deadline of all calls while closing; before that each call has its own `deadlineMs`. */
  #closing: Deadline | undefined;

  constructor(life: ObjectLife, clock: ServerTime, settings: SenderSettings, events: SenderEvents) {
    this.#life = life;
    this.#context = life.context;
    this.#clock = clock;
    this.#settings = settings;
    this.#events = events;
    this.#flusher = new Flusher({
      flush: () => this.#flushListed(),
      // A random part, so that processes that started together do not flush together.
      everyMs: settings.flushMs * (0.9 + 0.2 * Math.random()),
      onError: this.#flushFailed,
    });
  }

  /**
   * A writer's name for one outbox. Each has its own ledger, so that two objects for one series, for example one made anew,
   * do not share a sequence.
   */
  newWriter(): string {
    return `${this.#writer}:${String(++this.#writers)}`;
  }

  /** Places of the buffer that are taken. */
  get entries(): number {
    return this.#entries;
  }

  /** Whether there is a place in the buffer. */
  readonly hasRoom = (): boolean => this.#entries < this.#settings.maxPending;

  /** Takes a place in the buffer, if there is one. */
  readonly admit = (): boolean => {
    if (!this.hasRoom()) return false;
    this.#entries++;
    // Half full: do not wait for the timer.
    if (this.#entries === this.#settings.maxPending >> 1) this.#flusher.now().catch(this.#flushFailed);
    return true;
  };

  /** Gives back places that a merge has freed. */
  release(entries: number): void {
    this.#entries -= entries;
  }

  drop(series: string, reason: DropReason, count: number): void {
    if (count > 0) this.#events.dropped(series, reason, count);
  }

  /** Adds this outbox to the next flush. */
  list(outbox: Outbox): void {
    outbox.isListed = true;
    this.#listed.add(outbox);
    this.#flusher.changed();
  }

  /** The server's clock, requested if no reply has had it yet. */
  async learnTime(signal?: AbortSignal): Promise<void> {
    if (this.#clock.isKnown) return;
    const sentAt = performance.now();
    const deadline = this.#deadline();
    const call = reading("TIME", deadline, signal);
    this.#clock.observe(sentAt, serverMs(await this.#context.executor.run("TIME", [], call)));
  }

  /**
   * Adds an amount to an outbox, sends that as soon as possible, and resolves with the server's answer. With an `op` it
   * waits for the amount of an earlier call.
   *
   * @throws {StatsTimeError} `at` lies more than a minute ahead of the server; nothing was put.
   * @throws {KitUnknownOutcomeError} the reply is lost; in effectively-once delivery it is sent again in the background, and
   *   `confirm()` with the error's `op` waits for that.
   */
  confirm<Value, Result>(
    outbox: Outbox<Aggregate<Value>, Result>,
    options: ConfirmOptions,
    put: (awaited: Aggregate<Value>, value: Value) => void,
  ): Promise<Result> {
    const deadline = this.#deadline();
    const { at, signal, op } = options;
    if (op !== undefined) return inTime(this.#again(op, deadline), { signal });
    if (at === undefined) return this.#enlist(outbox, options, deadline, put);
    return this.learnTime(signal).then(() => {
      if (at > this.#clock.now() + maxAheadMs) throw new StatsTimeError(outbox.id);
      return this.#enlist(outbox, options, deadline, put);
    });
  }

  #enlist<Value, Result>(
    outbox: Outbox<Aggregate<Value>, Result>,
    { at, signal }: ConfirmOptions,
    deadline: Deadline,
    put: (awaited: Aggregate<Value>, value: Value) => void,
  ): Promise<Result> {
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
        put: (awaited) => put(awaited, awaited.timeline.slot(at ?? this.#clock.at(localAt), () => true) as Value),
        resolve: (result) => {
          stopTimer();
          stopListening();
          resolve(result);
        },
        reject: fail,
      };
      outbox.waiters.add(waiter);
      // The deadline of a call under way is no later.
      const stopTimer = atDeadline(deadline, () => {
        if (outbox.waiters.has(waiter)) fail(this.notSent(outbox.id));
      });
      const stopListening = onAbort(signal, () => fail(signal?.reason));
      this.list(outbox as unknown as Outbox);
      void this.#attempt(outbox as unknown as Outbox);
    });
  }

  /** Waits once more for a batch whose outcome was unknown. */
  async #again<Result>(op: string, deadline: Deadline): Promise<Result> {
    const batch = this.#unknown.get(op);
    if (!batch) throw new RangeError("Expected `op` to come from a KitUnknownOutcomeError of this object");
    if (!batch.outcome) await inTime(this.#attempt(batch.outbox), { deadline });
    const { outcome } = batch;
    if (!outcome) throw this.#unknownOutcome(batch, undefined);
    if ("error" in outcome) throw outcome.error;
    return outcome.result as Result;
  }

  /**
   * Sends everything that waits now.
   *
   * @throws {KitError} some of it could not be sent. It stays in the buffer.
   */
  async flush(): Promise<void> {
    if (this.#listed.size > 0) await this.#flusher.now();
  }

  #flushListed(): Promise<void> {
    const listed = [...this.#listed];
    return traced(
      "stats.flush",
      () => ({ series: listed.length }),
      async () => {
        const tried = await Promise.all(listed.map((outbox) => this.#attempt(outbox)));
        const errors = tried.filter((error) => error !== undefined);
        const failure = errors.find((error) => !this.#verdicts.has(error));
        if (!failure) this.#events.outage.worked("sending");
        const error = failure ?? errors[0];
        if (error) throw error;
      },
    );
  }

  /** A flush that nobody waits for has failed. */
  readonly #flushFailed = (reason: unknown): void => {
    const error = asKitError(reason, "Sending");
    if (!this.#verdicts.has(error)) this.#events.outage.failed("sending", error);
  };

  /** Sends the rest, and drops what cannot be sent by `deadline`. */
  async close(deadline: Deadline): Promise<void> {
    this.#closing = deadline;
    while (this.#listed.size > 0 && deadline.remainingMs > 0) {
      const error = await inTime(
        this.#flusher.now().catch((reason: unknown) => asKitError(reason, "Sending")),
        { deadline },
      );
      // A client that has ended stays so.
      if (error instanceof KitUnavailableError && !error.retryable) break;
      if (error) await pause(Math.max(0, Math.min(closePauseMs, deadline.remainingMs)));
    }
    await this.#flusher.close(Deadline.in(0));
    for (const outbox of this.#listed) {
      const { sealed } = outbox;
      if (sealed) {
        this.drop(outbox.id, "unknown", sealed.buffered.units);
        this.#settle(sealed, { error: this.#unknownOutcome(sealed, undefined) });
      }
      this.drop(outbox.id, "closed", outbox.buffered.units);
      outbox.discard();
      for (const { reject } of [...outbox.waiters]) reject(this.#life.closedError());
    }
    this.#listed.clear();
    this.#entries = 0;
  }

  /** One try to send the present contents of an outbox; resolves with the error, if any. */
  #attempt(outbox: Outbox): Promise<KitError | undefined> {
    let attempt = this.#wanted.get(outbox);
    if (!attempt) {
      let resolve: Attempt["resolve"] = () => undefined;
      const promise = new Promise<KitError | undefined>((settle) => (resolve = settle));
      this.#wanted.set(outbox, (attempt = { promise, resolve }));
      this.#dispatchSoon();
    }
    return attempt.promise;
  }

  /** Attempts of the same turn travel together. */
  #dispatchSoon(): void {
    if (this.#isDispatching) return;
    this.#isDispatching = true;
    queueMicrotask(() => {
      this.#isDispatching = false;
      void this.#dispatch();
    });
  }

  async #dispatch(): Promise<void> {
    const ready = [...this.#wanted].filter(([outbox]) => !outbox.isInFlight);
    for (const [outbox] of ready) {
      this.#wanted.delete(outbox);
      outbox.isInFlight = true;
    }
    let isCluster: boolean;
    try {
      await this.learnTime();
      isCluster = await this.#context.isCluster(this.#deadline().remainingMs);
    } catch (reason) {
      // No batch was made, so nothing was sent: waiting callers reject, the rest stays.
      const error = asKitError(reason, "Sending");
      for (const [outbox, attempt] of ready) {
        if (!outbox.sealed) for (const { reject } of [...outbox.waiters]) reject(error);
        this.#landed(outbox, attempt, error);
      }
      return;
    }
    const batches = ready.flatMap(([outbox, attempt]) => {
      const batch = this.#batchOf(outbox);
      if (batch) return [{ batch, attempt }];
      this.#landed(outbox, attempt, undefined);
      return [];
    });
    for (const group of grouped(batches, isCluster)) void this.#send(group);
  }

  /** The batch to send of an outbox: the one whose outcome is open, or a new one. */
  #batchOf(outbox: Outbox): Batch | undefined {
    if (outbox.sealed) return outbox.sealed;
    const placed = outbox.size;
    outbox.prune(this.#clock.now());
    const before = outbox.size;
    this.release(placed - before);
    const leastMs = leastShare * this.#settings.deadlineMs;
    for (const { deadline, reject } of [...outbox.waiters])
      if (deadline.remainingMs < leastMs) reject(this.notSent(outbox.id));
    if (!outbox.hasPending) return undefined;
    const isOnce = outbox.delivery === "effectively-once";
    const validUntil = isOnce ? Math.floor(this.#clock.now()) + resendMs : 0;
    const batch = outbox.seal(++this.#seq, validUntil);
    // Entries that could not be placed in time before have merged, or were taken out.
    this.release(before - outbox.size);
    return batch;
  }

  async #send(group: readonly { readonly batch: Batch; readonly attempt: Attempt }[]): Promise<void> {
    const [first] = group;
    if (!first) return;
    const { channel, delivery } = first.batch.outbox;
    const series: string[] = [];
    const plan: RedisArgument[] = [delivery === "effectively-once" ? ledgerMs : 0];
    let dueAt = this.#deadline().at;
    for (const { batch } of group) {
      series.push(...batch.operands.keys);
      plan.push(batch.validUntil);
      for (const operand of batch.operands.plan) plan.push(operand);
      // The callers of a batch that is sent again already have their answer.
      if (!batch.mayBeCounted) for (const { deadline } of batch.waiters) dueAt = Math.min(dueAt, deadline.at);
    }
    this.#events.used(series[0] ?? "");
    const script = delivery === "at-most-once" ? channel.onceOnly : channel.script;
    const sentAt = performance.now();
    let replies: readonly (string | Error)[];
    const deadlineMs = Math.max(1, new Deadline(dueAt).remainingMs);
    try {
      replies = await script.run(this.#context, { series }, { plan }, { deadlineMs });
    } catch (reason) {
      const error = asKitError(reason, "Sending");
      for (const { batch, attempt } of group) {
        this.#failed(batch, error);
        this.#landed(batch.outbox, attempt, error);
      }
      return;
    }
    this.#clock.observe(sentAt, Number(replies[0]));
    group.forEach(({ batch, attempt }, index) => {
      const error = this.#judge(batch, replies[index + 1] ?? "");
      const { outbox } = batch;
      this.#landed(outbox, attempt, error, batch.mayBeCounted || batch.leavesRest);
    });
  }

  /** The server's verdict on one batch. */
  #judge(batch: Batch, reply: string | Error): KitError | undefined {
    const { outbox } = batch;
    // Given up by a close.
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
      const unsent = this.notSent(outbox.id);
      this.#putBack(batch, unsent);
      return unsent;
    }
    this.#settle(batch, { error });
    this.drop(outbox.id, reason, batch.buffered.units);
    this.#verdicts.add(error);
    this.#events.error(error);
    return error;
  }

  /** No verdict: the call was not sent, was refused as a whole, or has an unknown outcome. */
  #failed(batch: Batch, error: KitError): void {
    const { outbox } = batch;
    if (batch.outcome) return;
    if (!(error instanceof KitUnknownOutcomeError)) {
      if (!batch.mayBeCounted) this.#putBack(batch, error);
      return;
    }
    if (outbox.delivery === "at-least-once") {
      this.#putBack(batch, error);
      return;
    }
    if (outbox.delivery === "at-most-once") {
      const { units } = batch.buffered;
      this.#settle(batch, { error });
      this.drop(outbox.id, "unknown", units);
      return;
    }
    batch.mayBeCounted = true;
    // Nobody else can ask for it, and it would be kept with all that it holds.
    if (batch.waiters.length === 0) return;
    const op = opOf(this.#writer, batch);
    if (this.#unknown.size >= maxRemembered)
      for (const oldest of this.#unknown.keys()) {
        this.#unknown.delete(oldest);
        break;
      }
    this.#unknown.set(op, batch);
    batch.rejectWaiters(this.#unknownOutcome(batch, error.cause));
  }

  #unknownOutcome(batch: Batch, cause: unknown): KitUnknownOutcomeError {
    const message = `An amount for ${batch.outbox.id} was sent, but its reply is lost: it may or may not have been counted`;
    return new KitUnknownOutcomeError(message, opOf(this.#writer, batch), cause);
  }

  /** The batch was not counted: amounts without a waiting caller are kept for the next flush. */
  #putBack(batch: Batch, error: KitError): void {
    const { outbox } = batch;
    const before = outbox.size;
    outbox.sealed = undefined;
    outbox.buffered.absorb(batch.buffered);
    this.release(before - outbox.size);
    batch.settle({ error });
  }

  #settle(batch: Batch, outcome: { result: unknown } | { error: KitError }): void {
    const { outbox } = batch;
    this.release(batch.buffered.size);
    outbox.sealed = undefined;
    batch.settle(outcome);
  }

  #landed(outbox: Outbox, attempt: Attempt, error: KitError | undefined, hasMore = false): void {
    outbox.isInFlight = false;
    if (!outbox.sealed && !outbox.hasPending) {
      outbox.isListed = false;
      this.#listed.delete(outbox);
    } else this.#flusher.changed();
    // The attempt was for what waited behind the batch that was sent again, or did not go into it, too.
    if (hasMore && outbox.hasPending && (!error || outbox.waiters.size > 0))
      void this.#attempt(outbox).then((later) => attempt.resolve(error ?? later));
    else attempt.resolve(error);
    if (this.#wanted.has(outbox)) this.#dispatchSoon();
  }

  /** The error for amounts that were not sent by their deadline. */
  notSent(what: string): KitUnavailableError {
    return noAnswer(this.#context.client, `not all of ${what} was sent`);
  }

  #deadline(): Deadline {
    const { deadlineMs } = this.#settings;
    const left = this.#closing ? Math.max(1, this.#closing.remainingMs) : deadlineMs;
    return Deadline.in(Math.min(deadlineMs, left));
  }
}

const opOf = (writer: string, { seq }: Batch): string => `${writer}:${String(seq)}`;

/** The refusal of a series in a script's reply: it is an error or a word, while a count begins with a digit. */
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

/** Batches that go into one call: of one kind and delivery, and on a Cluster of one series. */
const grouped = <Item extends { readonly batch: Batch }>(items: readonly Item[], isCluster: boolean): Item[][] => {
  if (isCluster) return items.map((item) => [item]);
  const groups: Item[][] = [];
  const open = new Map<Channel, Map<Delivery, { readonly group: Item[]; operands: number }>>();
  for (const item of items) {
    const { channel, delivery } = item.batch.outbox;
    const operands = item.batch.operands.keys.length + item.batch.operands.plan.length;
    const byDelivery = open.get(channel) ?? new Map<Delivery, { readonly group: Item[]; operands: number }>();
    open.set(channel, byDelivery);
    let found = byDelivery.get(delivery);
    if (!found || found.group.length >= maxSeries || found.operands + operands > maxOperands) {
      found = { group: [], operands: 0 };
      byDelivery.set(delivery, found);
      groups.push(found.group);
    }
    found.group.push(item);
    found.operands += operands;
  }
  return groups;
};
