import { floorTo } from "./buckets.js";
import type { ServerTime } from "./clock.js";

/** The width of buckets by local time, while the server's clock is unknown. */
const unplacedMs = 100;

/** How values are made and merged. */
export interface Mergeable<Value> {
  make(): Value;
  merge(into: Value, from: Value): void;
}

/**
 * Values by bucket of server time, fixed when the event happens. While the server's clock is unknown they are kept by local
 * time.
 */
export class Timeline<Value> {
  readonly #stepMs: number;
  readonly #clock: ServerTime;
  readonly #values: Mergeable<Value>;
  readonly #placed = new Map<number, Value>();
  readonly #unplaced = new Map<number, Value>();
  /** The present bucket, and its end on the local monotonic clock. */
  #current: Value | undefined;
  #currentUntil = -Infinity;

  constructor(stepMs: number, clock: ServerTime, values: Mergeable<Value>) {
    this.#stepMs = stepMs;
    this.#clock = clock;
    this.#values = values;
  }

  /** How many values are kept. */
  get size(): number {
    return this.#placed.size + this.#unplaced.size;
  }

  *values(): Iterable<Value> {
    yield* this.#placed.values();
    yield* this.#unplaced.values();
  }

  /**
   * The value of the current bucket, or of the bucket of the instant `at`. Undefined if it would be new and `hasRoom()` is
   * false.
   */
  slot(at: number | undefined, hasRoom: () => boolean): Value | undefined {
    if (at !== undefined) return this.#slot(this.#placed, floorTo(at, this.#stepMs), hasRoom);
    const local = performance.now();
    if (local < this.#currentUntil && this.#current !== undefined) return this.#current;
    if (!this.#clock.isKnown) return this.#slot(this.#unplaced, floorTo(local, unplacedMs), hasRoom);
    const start = floorTo(this.#clock.at(local), this.#stepMs);
    const value = this.#slot(this.#placed, start, hasRoom);
    this.#current = value;
    this.#currentUntil = local + (start + this.#stepMs - this.#clock.at(local));
    return value;
  }

  /** All values by the start of their bucket. Only once the server's clock is known. */
  entries(): ReadonlyMap<number, Value> {
    for (const [local, value] of this.#unplaced) this.#put(floorTo(this.#clock.at(local), this.#stepMs), value);
    this.#unplaced.clear();
    return this.#placed;
  }

  /** Merges another timeline, which is not used afterwards. */
  absorb(other: Timeline<Value>): void {
    for (const [start, value] of other.#placed) this.#put(start, value);
    for (const [local, value] of other.#unplaced) {
      const known = this.#unplaced.get(local);
      if (known === undefined) this.#unplaced.set(local, value);
      else this.#values.merge(known, value);
    }
  }

  /** Moves `count` values to another, empty timeline. Only once the server's clock is known. */
  *moveTo(other: Timeline<Value>, count: number): Iterable<Value> {
    this.entries();
    this.#currentUntil = -Infinity;
    for (const [start, value] of this.#placed) {
      if (count-- <= 0) return;
      this.#placed.delete(start);
      other.#placed.set(start, value);
      yield value;
    }
  }

  remove(start: number): void {
    this.#placed.delete(start);
    this.#currentUntil = -Infinity;
  }

  #slot(values: Map<number, Value>, start: number, hasRoom: () => boolean): Value | undefined {
    let value = values.get(start);
    if (value === undefined && hasRoom()) values.set(start, (value = this.#values.make()));
    return value;
  }

  #put(start: number, value: Value): void {
    const known = this.#placed.get(start);
    if (known === undefined) this.#placed.set(start, value);
    else this.#values.merge(known, value);
  }
}
