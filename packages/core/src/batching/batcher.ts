import { KitClosedError } from "../index.js";
import { atDeadline, Deadline, inTime, onAbort } from "../toolkit/index.js";

/** How items become calls. */
export interface BatcherOptions<Item, Result> {
  /**
   * Sends one batch, and resolves with one result per item, in the same order. An `Error` among the results rejects only that item.
   * A rejection rejects all items of the batch. `deadline` is the youngest item's deadline.
   */
  readonly send: (items: readonly Item[], deadline: Deadline) => Promise<readonly (Result | Error)[]>;
  /** How long an item may take from `add` to its result, in milliseconds. */
  readonly deadlineMs: number;
  /**
   * The error for an item at its deadline. `wasSent`: the item may have had its effect. `stall`: words for the message if the event
   * loop was blocked when the deadline passed, otherwise empty.
   */
  readonly late: (item: Item, wasSent: boolean, stall: string) => Error;
  /** The error for an item if there is no room. */
  readonly full: (item: Item) => Error;
  /** The name of the owner, for the start of a sentence: `Queue "mail"`. */
  readonly owner: string;
  /** The maximum number of items in a batch. */
  readonly maxItems: number;
  /** The maximum size of a batch, in bytes. A single larger item is sent alone. */
  readonly maxBytes: number;
  readonly sizeOf: (item: Item) => number;
  /** The maximum number of items that wait to be sent. */
  readonly maxPending: number;
  /**
   * How long the first item of a batch waits for others while no call is in flight, in milliseconds. 0: only for items that are
   * added in the same turn of the event loop.
   */
  readonly delayMs: number;
}

interface Entry<Item, Result> {
  readonly item: Item;
  readonly bytes: number;
  readonly deadline: Deadline;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
  /** Counts all items, starting at 1. */
  readonly number: number;
  stopListening: (() => void) | undefined;
  state: "waiting" | "sent" | "settled";
}

/**
 * Collects items while a call is in flight, and sends them together. At low load each item is sent immediately and alone; at high
 * load the batches grow by themselves. Only one call is in flight, so items arrive at the server in the order in which they were
 * added.
 *
 * Each item settles by `deadlineMs`, even in an outage. An item that was not sent by then is never sent.
 */
export class Batcher<Item, Result> {
  readonly #options: BatcherOptions<Item, Result>;
  /** Items that are not sent yet, oldest first, starting at `#first`. Includes cancelled items. */
  #pending: Entry<Item, Result>[] = [];
  #first = 0;
  #waiting = 0;
  /** The batch in flight, or undefined if there is none. */
  #inFlight: readonly Entry<Item, Result>[] | undefined;
  /** The number of the last item that was added, and of the last item whose batch has settled. */
  #lastAdded = 0;
  #lastLanded = 0;
  #isScheduled = false;
  #isClosed = false;
  #cancelDelay: (() => void) | undefined;
  #cancelLate: (() => void) | undefined;
  /** When the next look for late items is, or Infinity if there is none. */
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
   * @throws the item's own error, its batch's error, `late`, `full`, or `signal.reason`. If the signal aborts, an item that was not
   * sent yet is never sent, and the result of a sent item is ignored.
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

  /** Sends without the delay. Resolves once every item added before has settled. */
  async flush(): Promise<void> {
    if (this.#lastLanded === this.#lastAdded) return;
    const landed = new Promise<void>((resolve) => this.#flushes.push({ upTo: this.#lastAdded, resolve }));
    if (this.#cancelDelay) this.#launch();
    await landed;
  }

  /** Rejects further items, and waits until `deadline` for the items it has. The rest then rejects with `KitClosedError`. */
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
    void this.#fly(batch, youngest);
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

  async #fly(batch: readonly Entry<Item, Result>[], youngest: Entry<Item, Result>): Promise<void> {
    try {
      const items = batch.map(({ item }) => item);
      const results = await this.#options.send(items, youngest.deadline);
      // A silent server: the deadline of the call may be that of items that wait, which are not sent any more.
      if (results.some((result) => result instanceof Error)) this.#failLate();
      for (let index = 0; index < batch.length; index++) {
        const [entry, result] = [batch[index]!, results[index]];
        if (result instanceof Error) this.#fail(entry, result);
        else if (this.#settle(entry)) entry.resolve(result as Result);
      }
    } catch (error) {
      this.#failLate();
      for (const entry of batch) this.#fail(entry, error);
    } finally {
      this.#inFlight = undefined;
      this.#landed(youngest.number);
      if (this.#waiting > 0) this.#launch();
    }
  }

  /**
   * Uses one timer for all items, because deadlines are in the order of the items, except those that a stall of the event loop
   * postponed.
   */
  #watchLate(): void {
    if (this.#lateAt < Infinity) return;
    const oldest =
      this.#inFlight?.find(({ state }) => state === "sent") ?? this.#pending.find(({ state }) => state === "waiting");
    if (oldest) this.#lookAt(oldest.deadline.at);
  }

  /** Looks for late items at this instant, unless an earlier look is planned. Then plans a look at the next deadline. */
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

  /** Returns whether it had not settled before. */
  #settle(entry: Entry<Item, Result>): boolean {
    if (entry.state === "settled") return false;
    if (entry.state === "waiting") this.#waiting--;
    entry.state = "settled";
    entry.stopListening?.();
    return true;
  }
}
