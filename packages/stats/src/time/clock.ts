/** The drift of a sample: milliseconds of uncertainty for each millisecond of its age. */
const driftPerMs = 0.0001;

/**
 * An estimate of the server's clock: its offset to the local monotonic clock, from the reply with the shortest round trip.
 * The error is at most half of that round trip. The local wall clock is not used.
 */
export class ServerTime {
  #offset = Number.NaN;
  #doubtMs = Infinity;
  #learnedAt = 0;

  get isKnown(): boolean {
    return this.#doubtMs < Infinity;
  }

  /** The server's epoch milliseconds now; NaN before the first reply. */
  now(): number {
    return performance.now() + this.#offset;
  }

  /** The server's epoch milliseconds at a local monotonic instant. */
  at(localAt: number): number {
    return localAt + this.#offset;
  }

  /** Records the time in a reply to a command that was sent at the monotonic instant `sentAt`. */
  observe(sentAt: number, serverMs: number): void {
    const receivedAt = performance.now();
    const doubtMs = (receivedAt - sentAt) / 2 + 1;
    // The server reports whole milliseconds: adding half of one is the best estimate.
    const offset = serverMs + 0.5 - (sentAt + receivedAt) / 2;
    const aged = this.#doubtMs + (receivedAt - this.#learnedAt) * driftPerMs;
    // A reply that contradicts the estimate comes from a clock that was set, or from another server.
    const contradicts = Math.abs(offset - this.#offset) > doubtMs + aged;
    if (this.isKnown && doubtMs > aged && !contradicts) return;
    this.#offset = offset;
    this.#doubtMs = doubtMs;
    this.#learnedAt = receivedAt;
  }
}
