/** The maximum size of the jobs that one step takes, in bytes. */
const mostBytes = 4 * 1_024 * 1_024;
/** Replies of this size are never late because of their size. */
const leastBytes = 64 * 1_024;
/** The maximum number of bytes that the server reads in one step before the sizes of the jobs are known. */
const mostReadBytes = 16 * mostBytes;
/** After this many small jobs a worker no longer expects large ones. */
const memory = 1_000;

/** How many bytes of jobs a worker takes with one step. It takes fewer if replies are late or lost, because the connection may be slow. */
export class Room {
  readonly #mostRead: number;
  readonly #lateMs: number;
  #bytes = mostBytes;
  /** The size of the largest recent job. */
  #largest: number;
  #isKnown = false;

  /** `maxPayloadBytes`: the maximum size of a job. `deadlineMs`: after this time a reply counts as lost. */
  constructor(maxPayloadBytes: number, deadlineMs: number) {
    this.#mostRead = Math.max(1, Math.floor(mostReadBytes / maxPayloadBytes));
    this.#lateMs = deadlineMs / 2;
    this.#largest = maxPayloadBytes;
  }

  /** The operand `room` of `step.lua` for this number of jobs. */
  of(count: number): string {
    const first = Math.min(this.#mostRead, Math.max(1, Math.floor(mostBytes / this.#largest)));
    return this.#bytes === mostBytes && first >= count ? "" : `${String(this.#bytes)} ${String(first)}`;
  }

  /** These jobs arrived `tookMs` after they were requested. */
  received(blobs: readonly Buffer[], tookMs: number): void {
    let [sum, largest] = [0, 1];
    for (const { length } of blobs) {
      sum += length;
      if (length > largest) largest = length;
    }
    const share = this.#isKnown ? Math.min(1, blobs.length / memory) : 1;
    this.#isKnown = true;
    this.#largest = Math.max(largest, this.#largest + (largest - this.#largest) * share);
    if (tookMs > this.#lateMs && sum > leastBytes) this.halve(sum);
    else if (tookMs <= this.#lateMs && sum > this.#bytes / 2) this.#bytes = Math.min(mostBytes, this.#bytes * 2);
  }

  /** A reply was late, or lost. `bytes`: its size, if known. */
  halve(bytes: number = this.#bytes): void {
    this.#bytes = Math.max(leastBytes, Math.floor(Math.min(bytes, this.#bytes) / 2));
  }
}
