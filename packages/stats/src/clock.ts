/** A sample ages: so many milliseconds of doubt for each millisecond that has passed. */
const driftPerMs = 0.0001;

/**
 * The server's clock as seen from here: its offset to the local monotonic clock, from the reply with the shortest round
 * trip. Off by at most half of that round trip. The local wall clock plays no part.
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

  /** Takes in a reply to a command that was sent at the monotonic instant `sentAt`. */
  observe(sentAt: number, serverMs: number): void {
    const receivedAt = performance.now();
    const doubtMs = (receivedAt - sentAt) / 2 + 1;
    // The server counts whole milliseconds: half of one is the best guess.
    const offset = serverMs + 0.5 - (sentAt + receivedAt) / 2;
    const aged = this.#doubtMs + (receivedAt - this.#learnedAt) * driftPerMs;
    // An answer that contradicts what is known comes from a clock that was set, or from another server.
    const contradicts = Math.abs(offset - this.#offset) > doubtMs + aged;
    if (this.isKnown && doubtMs > aged && !contradicts) return;
    this.#offset = offset;
    this.#doubtMs = doubtMs;
    this.#learnedAt = receivedAt;
  }
}
