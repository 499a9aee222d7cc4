/** Quartz drifts by 0.01 %. A hundred times as much covers a slewed clock and a busy host. */
const drift = 0.01;
/** Both sides count in milliseconds, so each end may be off by one. */
const roundingMs = 2;

/** The shortest time that a span of server time can last on the local clock. A span into the past is negative. */
export const lowerBoundMs = (spanMs: number): number => spanMs * (spanMs < 0 ? 1 + drift : 1 - drift) - roundingMs;

interface Sample {
  readonly sentAt: number;
  readonly receivedAt: number;
  readonly serverMs: number;
}

/**
 * Lower bounds of a server's instants on the local monotonic clock.
 *
 * A reply with the server's time S, to a command sent at local t0, proves that the server's clock showed S no earlier than t0. So a
 * server instant E comes no earlier than t0 + (E − S), minus drift. This assumes nothing about one-way delays or the local wall
 * clock.
 */
export class ServerClock {
  #best: Sample | undefined;
  #last: Sample | undefined;

  /** Adds a sample. `sentAt` is `performance.now()` just before the command was sent. */
  observe(sentAt: number, serverMs: number, receivedAt: number = performance.now()): void {
    this.#last = { sentAt, receivedAt, serverMs };
    const best = this.#best && this.#boundBy(this.#best, serverMs);
    // The sample with the shortest round trip gives the tightest bound, until its drift exceeds the difference. A bound that
    // contradicts the latest reply is void: somebody set the server's clock.
    if (best === undefined || best > receivedAt || best <= this.#boundBy(this.#last, serverMs)) this.#best = this.#last;
  }

  /** The earliest local instant (monotonic) at which the server's clock can show `serverMs`. Undefined before the first reply. */
  earliest(serverMs: number): number | undefined {
    if (!this.#best || !this.#last) return undefined;
    return Math.max(this.#boundBy(this.#best, serverMs), this.#boundBy(this.#last, serverMs));
  }

  /** The server's clock at a local instant, within the error of one round trip. Undefined before the first reply. */
  serverMsAt(localAt: number): number | undefined {
    return this.#last && Math.ceil(this.#last.serverMs + (localAt - this.#last.sentAt));
  }

  /** The minimum that the server's clock can show at a local instant. Undefined before the first reply. */
  leastMsAt(localAt: number): number | undefined {
    return this.#last && Math.floor(this.#last.serverMs + lowerBoundMs(localAt - this.#last.receivedAt));
  }

  /** Drops all samples, because the next connection may lead to another server. */
  reset(): void {
    this.#best = undefined;
    this.#last = undefined;
  }

  #boundBy(sample: Sample, serverMs: number): number {
    return sample.sentAt + lowerBoundMs(serverMs - sample.serverMs);
  }
}
