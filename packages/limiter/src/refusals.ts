import type { Row } from "./scripts/index.js";

interface Refusal {
  readonly row: Row;
  readonly tokens: number;
  readonly askedAt: number;
  /** Until when it is remembered (monotonic). */
  readonly until: number;
}

const maxKeys = 10_000;

/** Remembers which keys the server refused, so that a hot key costs no commands until it can be free again. */
export class Refusals {
  readonly #rememberMs: number;
  readonly #byRate = new Map<string, Refusal>();

  constructor(rememberMs: number) {
    this.#rememberMs = rememberMs;
  }

  /** `askedAt`: when the command was sent. The key cannot be free `row.delayMs` after that, at the earliest. */
  add(rate: string, tokens: number, row: Row, askedAt: number): void {
    const until = askedAt + Math.min(row.delayMs, this.#rememberMs);
    if (until <= performance.now()) return;
    this.#byRate.delete(rate);
    // The oldest first.
    if (this.#byRate.size >= maxKeys) for (const [oldest] of this.#byRate) if (this.#byRate.delete(oldest)) break;
    this.#byRate.set(rate, { row, tokens, askedAt, until });
  }

  /** The refusal of a call that the server would refuse as well, at this instant. */
  of(rate: string, tokens: number): Row | undefined {
    const known = this.#byRate.get(rate);
    if (!known || known.tokens > tokens) return undefined;
    const now = performance.now();
    if (now < known.until) {
      const { row } = known;
      const passedMs = Math.floor(now - known.askedAt);
      return { ...row, delayMs: row.delayMs - passedMs, resetMs: Math.max(0, row.resetMs - passedMs) };
    }
    this.#byRate.delete(rate);
    return undefined;
  }

  forget(rate?: string): void {
    if (rate === undefined) this.#byRate.clear();
    else this.#byRate.delete(rate);
  }
}
