// The price list is re-priced while six people read it again and again.
import { setTimeout as delay } from "node:timers/promises";
import { isAway } from "../common/away.js";
import type { PriceList, PriceLine } from "../market/price-list.js";

// Long enough to be watched.
const readLineMs = 120;
const writeLineMs = 300;
/** How long the writer waits for a list to be read the second time, at most. */
const calmMs = 10_000;
const restMs = 400;
const waitMs = 60_000;

export interface RepricingResult {
  readonly edition: number;
  /** Lists that were read, and how many of them were half old, half new. */
  readonly lists: number;
  readonly mixed: number;
  /** How long the writer waited for those who were reading. */
  readonly waitedMs: number;
}

export interface RepricingState {
  readonly isRunning: boolean;
  /** Lists that were read so far. */
  readonly lists: number;
  /** The result of the last re-pricing, or why it has none; null before the first. */
  readonly last: RepricingResult | string | null;
}

const isMixed = (lines: readonly PriceLine[]): boolean => new Set(lines.map(({ edition }) => edition)).size > 1;

export class Repricing {
  readonly #list: PriceList;
  readonly #readers: readonly string[];
  readonly #closing = new AbortController();
  #state: RepricingState = { isRunning: false, lists: 0, last: null };

  constructor(list: PriceList, readers: readonly string[]) {
    this.#list = list;
    this.#readers = readers;
  }

  get state(): RepricingState {
    return this.#state;
  }

  /** Starts it in the background, unless it is under way. */
  begin(): void {
    if (this.#state.isRunning) return;
    this.#state = { isRunning: true, lists: 0, last: null };
    const end = (last: RepricingResult | string): void =>
      void (this.#state = { ...this.#state, isRunning: false, last });
    this.#play().then(end, (error: unknown) =>
      end(isAway(error) ? "Redis did not reply." : error instanceof Error ? error.message : String(error)),
    );
  }

  close(): void {
    this.#closing.abort();
  }

  async #play(): Promise<RepricingResult> {
    const { signal } = this.#closing;
    const pause = (ms: number): Promise<unknown> => delay(ms, undefined, { signal });
    let isRepriced = false;
    let mixed = 0;
    let letWriterIn = (): void => undefined;
    const isReadAgain = new Promise<void>((resolve) => (letWriterIn = resolve));
    const reader = async (holder: string, at: number): Promise<void> => {
      await pause(at * readLineMs);
      for (let round = 1; ; round++) {
        const lines = await this.#list.read({ holder, waitMs, signal }, () => {
          if (round === 2) letWriterIn();
          return pause(readLineMs);
        });
        this.#state = { ...this.#state, lists: this.#state.lists + 1 };
        if (isMixed(lines)) mixed++;
        await pause(restMs);
        if (isRepriced) return;
      }
    };
    const writer = async (): Promise<{ edition: number; waitedMs: number }> => {
      try {
        await Promise.race([isReadAgain, pause(calmMs)]);
        return await this.#list.reprice({ holder: "the shop", waitMs, signal }, () => pause(writeLineMs));
      } finally {
        isRepriced = true;
      }
    };
    const all = [writer(), ...this.#readers.map(reader)] as const;
    // All end before the next re-pricing may begin, also when one of them fails.
    await Promise.allSettled(all);
    const [written] = await Promise.all(all);
    return { ...written, lists: this.#state.lists, mixed };
  }
}
