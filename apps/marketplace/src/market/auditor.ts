import type { Market } from "./market.js";
import type { Audit } from "../scripts/index.js";

const freshMs = 1_000;

/** Reads the invariants of the shop from Redis, at most once a second for all pages together. */
export class Auditor {
  readonly #market: Market;
  readonly #users: readonly string[];
  #heardAt = performance.now();
  #isKnown = true;
  #seen: { readonly at: number; readonly audit: Promise<Audit | null> } | undefined;

  constructor(market: Market, users: readonly string[]) {
    this.#market = market;
    this.#users = users;
  }

  /** An audit that is at most a second old; null if Redis does not answer. */
  async look(): Promise<Audit | null> {
    const now = performance.now();
    if (!this.#seen || now - this.#seen.at > freshMs) this.#seen = { at: now, audit: this.fresh().catch(() => null) };
    return await this.#seen.audit;
  }

  /** Milliseconds since the last answer; 0 while Redis answers. */
  get silentMs(): number {
    return this.#isKnown ? 0 : performance.now() - this.#heardAt;
  }

  async fresh(): Promise<Audit> {
    try {
      const audit = await this.#market.audit(this.#users);
      this.#isKnown = true;
      this.#heardAt = performance.now();
      return audit;
    } catch (error) {
      this.#isKnown = false;
      throw error;
    }
  }
}

/** False if Redis has lost its data, since a shop never opens without items. No other invariant holds then. */
export const hasBooks = ({ openingItems }: Audit): boolean => openingItems > 0;
export const moneyHolds = ({ money, openingMoney }: Audit): boolean => money === openingMoney;
export const itemsHold = ({ items, openingItems, itemsTwice }: Audit): boolean =>
  items === openingItems && itemsTwice === 0;
export const nobodyInDebt = ({ inDebt }: Audit): boolean => inDebt === 0;
