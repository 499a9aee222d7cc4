import type { DropReason, Outbox, OutboxHost } from "./outbox.js";

/** Callbacks of the buffer. */
export interface BufferEvents {
  /** An amount is not, or may not be, counted. */
  readonly dropped: (series: string, reason: DropReason, count: number) => void;
  /** An outbox is on the list. */
  readonly changed: () => void;
  readonly halfFull: () => void;
}

/** The amounts of one statistics object that are not acknowledged: their number is limited, and outboxes keep them. */
export class SendBuffer implements OutboxHost {
  /** The outboxes to be sent. */
  readonly listed: Set<Outbox> = new Set();
  readonly #maxPlaces: number;
  readonly #events: BufferEvents;
  readonly #writer: string;
  #writers = 0;
  #taken = 0;

  /** `writer` is the name of the object, and the start of the names of its writers. */
  constructor(writer: string, maxPlaces: number, events: BufferEvents) {
    this.#writer = writer;
    this.#maxPlaces = maxPlaces;
    this.#events = events;
  }

  newWriter(): string {
    return `${this.#writer}:${String(++this.#writers)}`;
  }

  /** Places that are taken. */
  get taken(): number {
    return this.#taken;
  }

  /** Whether there is a place. */
  readonly hasRoom = (): boolean => this.#taken < this.#maxPlaces;

  /** Takes a place, if there is one. */
  readonly admit = (): boolean => {
    if (!this.hasRoom()) return false;
    this.#taken++;
    if (this.#taken === this.#maxPlaces >> 1) this.#events.halfFull();
    return true;
  };

  /** Frees places. */
  release(places: number): void {
    this.#taken -= places;
  }

  drop(series: string, reason: DropReason, count: number): void {
    if (count > 0) this.#events.dropped(series, reason, count);
  }

  /** Puts an outbox on the list. */
  list(outbox: Outbox): void {
    outbox.isListed = true;
    this.listed.add(outbox);
    this.#events.changed();
  }

  /** Takes an outbox off the list when nothing is left in it. */
  unlistEmpty(outbox: Outbox): void {
    if (outbox.sealed || outbox.hasPending) return this.#events.changed();
    outbox.isListed = false;
    this.listed.delete(outbox);
  }

  /** Forgets everything. */
  clear(): void {
    this.listed.clear();
    this.#taken = 0;
  }
}
