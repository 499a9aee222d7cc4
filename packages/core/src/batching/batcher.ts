import { KitClosedError } from "../index.js";
import { atDeadline, Deadline, inTime, onAbort } from "../toolkit/index.js";

/** How items become calls. */
export interface BatcherOptions<Item, Result> {
  /**
   * Sends one batch, and resolves with one result an item, in their order. An `Error` among the results rejects that item
   * alone; a rejection rejects all items of the batch. `deadline` is that of the youngest item.
   */
  readonly send: (items: readonly Item[], deadline: Deadline) => Promise<readonly (Result | Error)[]>;
  /** How long an item may take from `add` to its result, in milliseconds. */
  readonly deadlineMs: number;
  /**
   * The error of an item at its deadline. `wasSent`: it may have had its effect. `stall`: the part of the message that names
   * the stall of the event loop in which the deadline passed; else empty.
   */
  readonly late: (item: Item, wasSent: boolean, stall: string) => Error;
  /** The error of an item for which there is no room. */
  readonly full: (item: Item) => Error;
  /** The name of the owner, for the beginning of a sentence: `Queue "mail"`. */
  readonly owner: string;
  /** No batch has more items. */
  readonly maxItems: number;
  /** No batch has more bytes, unless a single item has. */
  readonly maxBytes: number;
  readonly sizeOf: (item: Item) => number;
  /** At most this many items wait to be sent. */
  readonly maxPending: number;
  /**
   * How long the first item of a batch waits for others while no call is in flight, in milliseconds. 0: only for those that
   * are added in the same turn of the event loop.
   */
  readonly delayMs: number;
}

interface Entry<Item, Result> {
  readonly item: Item;
  readonly bytes: number;
  readonly deadline: Deadline;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
  /** Counts all items from 1. */
  readonly number: number;
  stopListening: (() => void) | undefined;
  state: "waiting" | "sent" | "settled";
}

/**
 * Sends items together while a call is in flight: at low load each goes at once and alone, at high load the batches grow
 * by themselves. One call at a time, so items arrive at the server in the order in which they were added.
 *
 * Each item settles by `deadlineMs`, also in an outage: one that was not sent by then never is.
 */
export class Batcher<Item, Result> {
  readonly #options: BatcherOptions<Item, Result>;
  /** Not sent yet, oldest first, from `#first` on; cancelled ones among them. */
  #pending: Entry<Item, Result>[] = [];
  #first = 0;
  #waiting = 0;
  /** The batch under way; undefined: there is none. */
  #inFlight: readonly Entry<Item, Result>[] | undefined;
  /** The number of the last item that was added, and of the last item whose batch has settled. */
  #lastAdded = 0;
  #lastLanded = 0;
  #isScheduled = false;
  #isClosed = false;
  #cancelDelay: (() => void) | undefined;
  #cancelLate: (() => void) | undefined;
  /** When the next look for late items is; Infinity: there is none. */
  #lateAt = Infinity;
  readonly #flushes: { readonly upTo: number; readonly resolve: () => void }[] = [];

  constructor(options: BatcherOptions<Item, Result>) {
    this.#options = options;
  }

  /** How many items wait to be sent. */
  get pending(): number {
    return this.#waiting;
  }

  /**
   * Resolves with the item's result.
   *
   * @throws the item's own error, that of its batch, `late`, `full`, or `signal.reason`: an item that was not sent yet is never
   *   sent; the result of a sent one is ignored.
   * @throws {KitClosedError} after `close()`.
   */
  add(item: Item, signal?: AbortSignal): Promise<Result> {
    if (signal?.aborted) return Promise.reject(signal.reason as Error);
    if (this.#isClosed) return Promise.reject(new KitClosedError(this.#options.owner));
    if (this.#waiting >= this.#options.maxPending) return Promise.reject(this.#options.full(item));
    return new Promise((resolve, reject) => {
      const deadline = Deadline.in(this.#options.deadlineMs);
      const bytes = this.#options.sizeOf(item);
      const entry: Entry<Item, Result> = {
        item,
        bytes,
        deadline,
        resolve,
        reject,
        number: ++this.#lastAdded,
        stopListening: undefined,
        state: "waiting",
      };
      entry.stopListening = signal && onAbort(signal, () => this.#fail(entry, signal.reason));
      this.#pending.push(entry);
      this.#waiting++;
      this.#schedule(deadline);
    });
  }

  /** Sends without the delay; resolves once every item added before has settled. */
  async flush(): Promise<void> {
    if (this.#lastLanded === this.#lastAdded) return;
    const landed = new Promise<void>((resolve) => this.#flushes.push({ upTo: this.#lastAdded, resolve }));
    if (this.#cancelDelay) this.#launch();
    await landed;
  }

  /** Refuses further items, and waits until `deadline` for those that it has. The rest then rejects with `KitClosedError`. */
  async close(deadline: Deadline): Promise<void> {
    this.#isClosed = true;
    await inTime(this.flush(), { deadline });
    for (const entry of this.#pending.slice(this.#first)) this.#fail(entry, new KitClosedError(this.#options.owner));
  }

  #schedule(deadline: Deadline): void {
    // A stall of the event loop may have postponed the deadlines of all items before this one.
    if (this.#inFlight) return this.#lookAt(deadline.at);
    const { delayMs, maxItems } = this.#options;
    const isFull = this.#waiting >= maxItems;
    if (this.#isScheduled && !isFull) return;
    if (delayMs === 0) {
      if (this.#isScheduled) return;
      this.#isScheduled = true;
      queueMicrotask(() => this.#launch());
    } else if (isFull) this.#launch();
    else {
      this.#isScheduled = true;
      const timer = setTimeout(() => this.#launch(), delayMs);
      this.#cancelDelay = () => clearTimeout(timer);
    }
  }

  #launch(): void {
    this.#cancelDelay?.();
    this.#cancelDelay = undefined;
    this.#isScheduled = false;
    if (this.#inFlight) return;
    const batch = this.#takeBatch();
    const youngest = batch.at(-1);
    if (!youngest) return this.#landed(this.#lastAdded);
    this.#inFlight = batch;
    this.#watchLate();
    void this.#fly(batch, youngest.deadline).finally(() => {
      this.#inFlight = undefined;
      this.#landed(youngest.number);
      if (this.#waiting > 0) this.#launch();
    });
  }

  #landed(upTo: number): void {
    this.#lastLanded = upTo;
    while (this.#flushes[0] && this.#flushes[0].upTo <= upTo) this.#flushes.shift()?.resolve();
    if (this.#waiting > 0) return;
    this.#cancelLate?.();
    this.#lateAt = Infinity;
    // Only cancelled items are left.
    if (upTo < this.#lastAdded) this.#landed(this.#lastAdded);
  }

  #takeBatch(): readonly Entry<Item, Result>[] {
    const { maxItems, maxBytes } = this.#options;
    const batch: Entry<Item, Result>[] = [];
    let bytes = 0;
    while (this.#first < this.#pending.length && batch.length < maxItems) {
      const entry = this.#pending[this.#first];
      if (!entry) break;
      if (entry.state === "waiting") {
        if (batch.length > 0 && bytes + entry.bytes > maxBytes) break;
        bytes += entry.bytes;
        batch.push(entry);
        entry.state = "sent";
        this.#waiting--;
      }
      this.#first++;
    }
    if (this.#first === this.#pending.length || this.#first > 10_000) {
      this.#pending = this.#pending.slice(this.#first);
      this.#first = 0;
    }
    return batch;
  }

  async #fly(batch: readonly Entry<Item, Result>[], deadline: Deadline): Promise<void> {
    try {
      const items = batch.map(({ item }) => item);
      const results = await this.#options.send(items, deadline);
      // A silent server: the deadline of the call may be that of items that wait, which are not sent any more.
      if (results.some((result) => result instanceof Error)) this.#failLate();
      for (const [index, entry] of batch.entries()) {
        const result = results[index];
        if (result instanceof Error) this.#fail(entry, result);
        else if (this.#settle(entry)) entry.resolve(result as Result);
      }
    } catch (error) {
      this.#failLate();
      for (const entry of batch) this.#fail(entry, error);
    }
  }

  /** One timer for all, since deadlines come in the order of the items, but for those that a stall of the event loop postponed. */
  #watchLate(): void {
    if (this.#lateAt < Infinity) return;
    const oldest =
      this.#inFlight?.find(({ state }) => state === "sent") ?? this.#pending.find(({ state }) => state === "waiting");
    if (oldest) this.#lookAt(oldest.deadline.at);
  }

  /** Looks for late items at this instant, unless it looks before; and then at the next deadline. */
  #lookAt(at: number): void {
    if (at >= this.#lateAt) return;
    this.#cancelLate?.();
    this.#lateAt = at;
    this.#cancelLate = atDeadline(new Deadline(at), () => {
      this.#lateAt = Infinity;
      this.#lookAt(this.#failLate());
    });
  }

  /** Rejects the late items. Returns the next deadline. */
  #failLate(): number {
    let next = Infinity;
    for (const entry of [...(this.#inFlight ?? []), ...this.#pending.slice(this.#first)]) {
      // An item under way may have settled before the others.
      if (entry.state === "settled") continue;
      if (entry.deadline.remainingMs > 1) next = Math.min(next, entry.deadline.at);
      else this.#fail(entry, this.#options.late(entry.item, entry.state === "sent", entry.deadline.stall));
    }
    return next;
  }

  #fail(entry: Entry<Item, Result>, error: unknown): void {
    if (this.#settle(entry)) entry.reject(error);
  }

  /** Whether it had not settled before. */
  #settle(entry: Entry<Item, Result>): boolean {
    if (entry.state === "settled") return false;
    if (entry.state === "waiting") this.#waiting--;
    entry.state = "settled";
    entry.stopListening?.();
    return true;
  }
}
