import type { KitError } from "@kit/core";
import type { Deadline } from "@kit/core/toolkit";
import type { Operands, SentBatch } from "../store/commands.js";
import type { Channel } from "../store/scripts/index.js";
import { maxAheadMs } from "../time/buckets.js";
import type { Timeline } from "../time/timeline.js";

/** Unsent amounts, observations or messages. They merge, so memory grows with series and time, not with events. */
export class Aggregate<Value = unknown> {
  readonly timeline: Timeline<Value>;
  /** What is lost if it is dropped: an amount, or a number of observations or messages. */
  units = 0;

  constructor(timeline: Timeline<Value>) {
    this.timeline = timeline;
  }

  /** How many places of the buffer it takes. */
  get size(): number {
    return this.timeline.size;
  }

  /** Merges all of another one, which is not used afterwards. */
  absorb(other: this): void {
    this.timeline.absorb(other.timeline);
    this.units += other.units;
  }
}

/**
 * What happens to an amount whose call failed.
 *
 * - `at-most-once`: kit sends it once; if the reply is lost, the amount counts as dropped
 * - `at-least-once`: kit sends it until the server acknowledges it; if a reply is lost, it may be counted twice
 * - `effectively-once`: kit sends it until the server acknowledges it, with a number that the server counts once
 */
export type Delivery = "at-most-once" | "at-least-once" | "effectively-once";

/** A caller that added something, and waits for the outcome. */
export interface Waiter<Contents extends Aggregate, Result> {
  readonly deadline: Deadline;
  /** Adds the caller's amount to the batch; throws if that is impossible. */
  put(awaited: Contents): void;
  resolve(result: Result): void;
  reject(error: unknown): void;
}

/** One process's batch of one series in one call. */
export class Batch<Contents extends Aggregate = Aggregate, Result = unknown> implements SentBatch {
  readonly outbox: Outbox<Contents, Result>;
  readonly seq: number;
  readonly validUntil: number;
  /** The amounts without a waiting caller: they return to the buffer if they were not counted. */
  readonly buffered: Contents;
  /** The amounts of waiting callers: these get an error if they were not counted. */
  readonly awaited: Contents;
  readonly waiters: readonly Waiter<Contents, Result>[];
  readonly operands: Operands;
  /** Whether more was buffered, or more callers waited, than fits into one batch. */
  readonly leavesRest: boolean;
  /** Whether a reply was lost: then the server may have counted it, so it must keep its number. */
  mayBeCounted = false;
  #outcome: { readonly result: Result } | { readonly error: KitError } | undefined;

  constructor(
    outbox: Outbox<Contents, Result>,
    seq: number,
    validUntil: number,
    buffered: Contents,
    awaited: Contents,
  ) {
    const { waiters } = outbox;
    const { maxPlaces } = outbox.channel;
    this.outbox = outbox;
    this.seq = seq;
    this.validUntil = validUntil;
    this.buffered = buffered;
    this.awaited = awaited;
    const taken: Waiter<Contents, Result>[] = [];
    for (const waiter of waiters) {
      if (awaited.size >= maxPlaces) break;
      waiters.delete(waiter);
      try {
        waiter.put(awaited);
        taken.push(waiter);
      } catch (error) {
        waiter.reject(error);
      }
    }
    this.waiters = taken;
    this.leavesRest = buffered !== outbox.buffered || waiters.size > 0;
    this.operands = outbox.operands(buffered, awaited);
  }

  /** Identifies it in the error of an unknown outcome. */
  get op(): string {
    return `${this.outbox.writer}:${String(this.seq)}`;
  }

  /** The verdict; undefined while it is unknown. */
  get outcome(): { readonly result: Result } | { readonly error: KitError } | undefined {
    return this.#outcome;
  }

  settle(outcome: { readonly result: Result } | { readonly error: KitError }): void {
    this.#outcome = outcome;
    if ("result" in outcome) for (const { resolve } of this.waiters) resolve(outcome.result);
    else this.rejectWaiters(outcome.error);
  }

  rejectWaiters(error: KitError): void {
    for (const { reject } of this.waiters) reject(error);
  }
}

/**
 * Why an amount is not, or may not be, counted.
 *
 * - `full`: the buffer has no free place
 * - `unknown`: the reply was lost, and kit does not send the amount again
 * - `future`: its time is more than a minute ahead of the server's clock
 * - `overflow`: the total would exceed 2^53 − 1
 * - `refused`: the server refused the amount
 * - `closed`: the object was closed before it sent the amount
 */
export type DropReason = "full" | "unknown" | "future" | "overflow" | "refused" | "closed";

/** The buffer, as an outbox uses it. */
export interface OutboxHost {
  /**
   * A writer's name for one outbox. Each has its own ledger, so that two objects for one series, for example one made anew,
   * do not share a sequence.
   */
  newWriter(): string;
  /** Reports what is not counted. */
  drop(series: string, reason: DropReason, count: number): void;
}

type ValueOf<Contents> = Contents extends Aggregate<infer Value> ? Value : never;

/** The unsent amounts of one series or message log, and its one open batch. */
export abstract class Outbox<Contents extends Aggregate = Aggregate, Result = unknown> {
  /** The series, for messages. */
  readonly id: string;
  readonly channel: Channel;
  readonly delivery: Delivery;
  /** The amounts that are in no batch yet. */
  buffered: Contents;
  /** The callers whose amounts are in no batch yet. */
  readonly waiters: Set<Waiter<Contents, Result>> = new Set();
  /** The open batch: sent, or to be sent again with the same number. */
  sealed: Batch<Contents, Result> | undefined;
  /** About when it last held something (local monotonic clock). */
  usedAt: number = performance.now();
  /** Whether the buffer has it on its list. */
  isListed = false;
  /** Whether a call with its batch is under way. */
  isInFlight = false;
  readonly #host: OutboxHost;
  /** Names this outbox at the server. */
  readonly writer: string;
  readonly #make: () => Contents;

  constructor(
    id: string,
    host: OutboxHost,
    {
      channel,
      delivery,
      make,
    }: { readonly channel: Channel; readonly delivery: Delivery; readonly make: () => Contents },
  ) {
    this.id = id;
    this.channel = channel;
    this.delivery = delivery;
    this.#host = host;
    this.writer = host.newWriter();
    this.#make = make;
    this.buffered = make();
  }

  get hasPending(): boolean {
    return this.buffered.timeline.size > 0 || this.waiters.size > 0;
  }

  /** Places of the buffer that it takes in all. */
  get size(): number {
    return this.buffered.size + (this.sealed?.buffered.size ?? 0);
  }

  /** Removes amounts that lie too far ahead of the server's clock. */
  prune(now: number): void {
    const { buffered } = this;
    for (const [start, value] of buffered.timeline.entries()) {
      if (start <= now + maxAheadMs) continue;
      const units = this.unitsOf(value as ValueOf<Contents>);
      buffered.timeline.remove(start);
      buffered.units -= units;
      this.#host.drop(this.id, "future", units);
    }
  }

  /** What is lost if a value of the timeline is dropped. */
  protected abstract unitsOf(value: ValueOf<Contents>): number;

  /** Makes a batch of everything unsent, or of as much as fits into one. */
  seal(seq: number, validUntil: number): Batch<Contents, Result> {
    this.usedAt = performance.now();
    const taken = this.#taken();
    const batch = new Batch(this, seq, validUntil, taken, this.#make());
    this.sealed = batch;
    if (taken === this.buffered) this.discard();
    return batch;
  }

  /** All of the buffer, or as much as fits into a batch. */
  #taken(): Contents {
    const { buffered } = this;
    const { maxPlaces } = this.channel;
    if (buffered.size <= maxPlaces) return buffered;
    const taken = this.#make();
    const units = this.move(buffered, taken, maxPlaces);
    taken.units += units;
    buffered.units -= units;
    return taken;
  }

  /** Moves this many places from one buffer to an empty one; returns the units in them. */
  protected move(from: Contents, to: Contents, places: number): number {
    let units = 0;
    for (const value of from.timeline.moveTo(to.timeline, places)) units += this.unitsOf(value as ValueOf<Contents>);
    return units;
  }

  /** Starts with an empty buffer. */
  discard(): void {
    this.buffered = this.#make();
  }

  /** The keys and records of a batch. */
  abstract operands(buffered: Contents, awaited: Contents): Operands;

  /** Called once for each batch that the server has counted. */
  abstract counted(batch: Batch<Contents, Result>, result: Result): void;

  /** Reads the script's reply for a batch that was counted. */
  abstract decode(reply: string): Result;
}
