import { KitError } from "@kit/core";
import { type MetricSample, OutageReporter } from "@kit/core/toolkit";
import type { LimiterSettings, LimitTerms } from "./options.js";
import type { Row } from "./scripts/index.js";

/** During an outage, one call in this time tries the server, in milliseconds. */
const retryMs = 1_000;
const maxKeys = 10_000;

/** Whether the server did not decide, and may decide later. */
const isOutage = (error: unknown): error is KitError =>
  KitError.is(error) && (error.retryable || error.code === "KIT_UNKNOWN_OUTCOME");

const all = "";

/** Decides calls that no server answers. */
export class Outage {
  readonly #settings: LimiterSettings;
  readonly #reporter: OutageReporter;
  /** Whether the server did not answer the last call that was sent to it. */
  #isOut = false;
  readonly #decided = { allowed: 0, refused: 0, rejected: 0 };
  /** When the next call tries the server (monotonic). 0: there is no outage, or calls are refused then. */
  #retryAt = 0;
  /** By limit and key: when nothing of the share is in use (monotonic). */
  readonly #shares = new Map<string, number>();

  constructor(settings: LimiterSettings, emit: (error: KitError) => void) {
    this.#settings = settings;
    this.#reporter = new OutageReporter(emit);
  }

  /**
   * The server's answer, or undefined if it gives none and another decision has to be made.
   *
   * @throws what `ask` throws, if it is no outage, or if calls are refused then.
   */
  async ask(ask: () => Promise<Row>): Promise<Row | undefined> {
    const isRefused = this.#settings.onUnavailable === "refuse";
    if (!isRefused && this.#retryAt > 0) {
      if (performance.now() < this.#retryAt) return undefined;
      this.#retryAt = performance.now() + retryMs;
    }
    try {
      const row = await ask();
      this.#isOut = false;
      this.#retryAt = 0;
      this.#shares.clear();
      this.#reporter.worked("server");
      return row;
    } catch (error) {
      if (!isOutage(error)) throw error;
      this.#isOut = true;
      if (isRefused) {
        this.#decided.rejected++;
        throw error;
      }
      this.#retryAt = performance.now() + retryMs;
      this.#reporter.failed("server", error);
      return undefined;
    }
  }

  /** Decides instead of the server. With `isDry` it counts nothing. */
  decide(key: string, tokens: number, waitMs: number, terms: LimitTerms, isDry = false): Row {
    const row = this.#decide(key, tokens, waitMs, terms, isDry);
    if (!isDry) this.#decided[row.state === "free" ? "allowed" : "refused"]++;
    return row;
  }

  samples(limiter: string): MetricSample[] {
    return [
      {
        ...{ name: "kit_limiter_outage", type: "gauge", help: "1 while the server does not answer" },
        ...{ value: Number(this.#isOut), labels: { limiter } },
      },
      ...Object.entries(this.#decided).map(([outcome, value]): MetricSample => ({
        ...{ name: "kit_limiter_outage_calls_total", type: "counter", help: "Calls that the server did not decide" },
        ...{ value, labels: { limiter, outcome } },
      })),
    ];
  }

  #decide(key: string, tokens: number, waitMs: number, { list }: LimitTerms, isDry: boolean): Row {
    if (this.#settings.onUnavailable === "allow") return rowOf("free", 0, 0, 0);
    const now = performance.now();
    const { processes = 1 } = this.#settings;
    const shares = list.map(({ count, perMs, burst, isShared }, at) => {
      const tokenMs = (perMs * processes) / count;
      const id = `${String(at)} ${isShared ? all : key}`;
      const usedMs = Math.max(0, (this.#shares.get(id) ?? 0) - now);
      // One call fits in an empty share, however small the share is.
      const burstMs = Math.max(tokens, Math.floor(burst / processes)) * tokenMs;
      return { id, tokenMs, usedMs, burstMs, delayMs: Math.max(0, usedMs + tokens * tokenMs - burstMs) };
    });
    const delayMs = Math.max(...shares.map((share) => share.delayMs));
    const limit = delayMs === 0 ? 0 : shares.findIndex((share) => share.delayMs === delayMs) + 1;
    if (delayMs > waitMs) return rowOf("full", 0, delayMs, limit, Math.max(...shares.map(({ usedMs }) => usedMs)));
    if (isDry) return rowOf("free", 1, 0, 0);
    if (!this.#hasRoom(now)) return rowOf("full", 0, retryMs, 0);
    for (const { id, tokenMs, usedMs } of shares)
      this.#shares.set(id, now + Math.max(usedMs, delayMs) + tokens * tokenMs);
    const left = Math.min(
      ...shares.map(({ tokenMs, usedMs, burstMs }) => Math.floor((burstMs - usedMs) / tokenMs) - tokens),
    );
    return rowOf("free", Math.max(0, left), delayMs, limit, delayMs);
  }

  #hasRoom(now: number): boolean {
    if (this.#shares.size < maxKeys) return true;
    for (const [id, fullAt] of this.#shares) if (fullAt <= now) this.#shares.delete(id);
    return this.#shares.size < maxKeys;
  }
}

const rowOf = (state: "free" | "full", left: number, delayMs: number, limit: number, resetMs = 0): Row => ({
  state,
  left,
  resetMs: Math.ceil(resetMs),
  delayMs: Math.ceil(delayMs),
  limit,
  states: [],
});
