import { maxV4, maxV6 } from "./address.js";

/** Takes the finished records of one family in order; place 0 is a gap. */
export type RecordSink<T> = (first: T, place: number) => void;

/** The handling of ranges that cross: refused, or the narrower one has the addresses of both. */
export type Overlap = "refuse" | "narrower";

interface Open<T> {
  readonly first: T;
  readonly last: T;
  readonly place: number;
}

/**
 * Turns ranges, which arrive in order of their first address and may be nested, into records that cover the whole family. Each
 * record has its first address and its place, up to the next record. The most specific range wins. Gaps are records as well,
 * and neighbors with the same place are merged.
 */
export class RangeFolder<T extends number | bigint> {
  /** The number of accepted ranges. */
  count = 0;
  /** Accepted ranges that cross another one. */
  crossing = 0;
  readonly #overlap: Overlap;
  readonly #sink: RecordSink<T>;
  readonly #after: (address: T) => T;
  readonly #end: T;
  /** Ranges that have started and not ended, each inside the previous one. */
  readonly #open: Open<T>[] = [];
  /** The first address that no record covers yet. */
  #cursor: T;
  #lastFirst: T;
  #lastPlace = -1;

  private constructor(sink: RecordSink<T>, overlap: Overlap, zero: T, end: T, after: (address: T) => T) {
    this.#overlap = overlap;
    this.#sink = sink;
    this.#after = after;
    this.#end = end;
    this.#cursor = zero;
    this.#lastFirst = zero;
  }

  static v4(sink: RecordSink<number>, overlap: Overlap): RangeFolder<number> {
    return new RangeFolder<number>(sink, overlap, 0, maxV4, (address) => address + 1);
  }

  static v6(sink: RecordSink<bigint>, overlap: Overlap): RangeFolder<bigint> {
    return new RangeFolder<bigint>(sink, overlap, 0n, maxV6, (address) => address + 1n);
  }

  /** Adds a range; returns the reason as text if it is refused. */
  add(first: T, last: T, place: number): string | undefined {
    if (first < this.#lastFirst) return "is out of order. Sort the ranges by their first address";
    const open = this.#open;
    for (let top = open.at(-1); top && top.last < first; top = open.at(-1)) this.#endTop(top);
    // A range may come before a wider range that starts at the same address.
    let depth = open.length;
    while (depth > 0 && open[depth - 1]!.first === first && open[depth - 1]!.last < last) depth--;
    const inner = open[depth - 1];
    const isCrossing = inner !== undefined && inner.last < last;
    if (isCrossing && this.#overlap === "refuse") return "overlaps an earlier range but is not inside it";
    if (inner && inner.first === first && inner.last === last)
      return inner.place === place ? undefined : "is listed twice with different places";
    if (first > this.#cursor) this.#record(first, inner?.place ?? 0);
    if (isCrossing) this.crossing++;
    // A wider range ends here. After a narrower range, this range continues.
    for (let outer = inner; outer && outer.last < last; outer = open[--depth - 1])
      if (outer.last - outer.first > last - first) open.splice(depth - 1, 1);
    open.splice(depth, 0, { first, last, place });
    this.#lastFirst = first;
    this.count++;
    return undefined;
  }

  /** Ends the open ranges, up to the last address of the family. A family without any range gets no record. */
  finish(): void {
    if (this.count === 0) return;
    for (let top = this.#open.at(-1); top; top = this.#open.at(-1)) this.#endTop(top);
    if (this.#cursor <= this.#end) this.#emit(this.#cursor, 0);
  }

  #endTop(top: Open<T>): void {
    this.#open.pop();
    if (top.last >= this.#cursor) this.#record(this.#after(top.last), top.place);
  }

  /** Covers the addresses up to `next`, exclusively. */
  #record(next: T, place: number): void {
    this.#emit(this.#cursor, place);
    this.#cursor = next;
  }

  #emit(first: T, place: number): void {
    if (place === this.#lastPlace) return;
    this.#lastPlace = place;
    this.#sink(first, place);
  }
}
