// Offers below the asked price. An offer is bound to the revision that its buyer saw, so any sale or new price ends it
// without a write. Accepting is an ordinary sale under the item's lock, at the offered price.
import type { Chat } from "@kit/chat";
import type { Connection } from "@kit/core";
import type { MarketKeys } from "../common/keys.js";
import type { Busy, Item, Market } from "../market/market.js";
import { money } from "../common/money.js";
import { orderId, type Orders } from "./orders.js";
import type { BuyOutcome } from "../scripts/index.js";
import { type OrdersQueue, writeTo } from "../common/tools.js";

const offerLifeMs = 24 * 3_600_000;
/** The delay of the answer when a program plays the seller. Visitors can see the offer meanwhile. */
const thinkingMs = 4_000;
/** A seller that a program plays accepts this share of the asked price, or more. */
const acceptedShare = 0.85;

const nothing = (): void => undefined;

export interface Offer {
  readonly buyer: string;
  readonly price: number;
}

export type Listed = Item & { readonly listing: NonNullable<Item["listing"]> };

export const isListed = (item: Item | null): item is Listed => item?.listing != null;

interface Deps {
  readonly redis: Connection;
  readonly keys: MarketKeys;
  readonly market: Market;
  readonly orders: Orders;
  readonly chat: Chat<string>;
  readonly queue: OrdersQueue;
}

export class Offers {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** The offers for the item at its current revision, the highest first. */
  async of({ id, revision }: Pick<Item, "id" | "revision">): Promise<Offer[]> {
    const all = await this.#deps.redis.hgetall(this.#deps.keys.offers(id));
    return Object.entries(all)
      .map(([buyer, text]) => ({ buyer, words: text.split(" ") }))
      .filter(({ words }) => words[1] === String(revision))
      .map(({ buyer, words }) => ({ buyer, price: Number(words[0]) }))
      .sort((one, other) => other.price - one.price);
  }

  /**
   * Makes an offer, or replaces the buyer's earlier one. A chat message notifies the seller. A delayed job calls
   * {@link consider}. A seller considers one offer at a time, so a slow one delays no other.
   */
  async make(item: Listed, buyer: string, price: number): Promise<void> {
    const { redis, keys, chat, queue } = this.#deps;
    const key = keys.offers(item.id);
    await redis.multi().hset(key, buyer, `${price} ${item.revision}`).pexpire(key, offerLifeMs).exec();
    const id = `offer-${item.id}-${item.revision}-${price}`;
    await writeTo(chat, buyer, item.listing.seller, {
      body: `I offer ${money(price)} for ${item.title}.`,
      clientId: id,
    });
    const group = item.listing.seller;
    await queue.add("offer", { item: item.id, buyer }, { id: `${id}-${buyer}`, group, delayMs: thinkingMs });
  }

  /** Decides on an offer for a seller that a program plays; null unless it tried to accept. */
  async consider(id: string, buyer: string): Promise<BuyOutcome | Busy | null> {
    const { redis, keys, market } = this.#deps;
    const item = await market.item(id);
    if (!isListed(item)) return null;
    // A person plays this seller, and decides on the page of the item.
    if ((await redis.exists(keys.present(item.listing.seller))) === 1) return null;
    const offer = (await this.of(item)).find((one) => one.buyer === buyer);
    if (!offer) return null;
    if (offer.price >= item.listing.price * acceptedShare) return await this.accept(item, offer);
    await this.#say(item, offer, "no", `Thank you, but ${money(offer.price)} is too little for ${item.title}.`);
    return null;
  }

  /**
   * Sells the item at the offered price, as the seller has seen both. The script refuses if the buyer offers another
   * price by now, or if item, listing or funds have changed.
   */
  async accept(item: Listed, { buyer, price }: Offer): Promise<BuyOutcome | Busy> {
    const { market, orders } = this.#deps;
    const { seller } = item.listing;
    const request = `offer-${item.id}-${item.revision}`;
    const purchase = { item: item.id, buyer, price, revision: item.revision, request, isOffer: true };
    const outcome = await market.buy("lock", purchase, seller);
    if (outcome.kind === "sold") {
      const sale = { ...purchase, seller, at: Date.now() };
      const words = `Agreed: you get ${item.title} for ${money(price)}, order ${orderId(sale)}.`;
      // The sale stands, whatever happens now. If placing its order fails, a worker places it.
      await orders.place(sale).catch(nothing);
      await this.#say(item, { buyer, price }, "yes", words).catch(nothing);
    } else if (outcome.kind === "short") {
      const words = `I would accept ${money(price)}, but you have ${money(outcome.funds)}.`;
      await this.#say(item, { buyer, price }, "short", words);
    }
    return outcome;
  }

  /** Sends an answer to an offer. The same answer is sent once; a yes after a no is another message. */
  async #say(item: Listed, { buyer, price }: Offer, answer: "yes" | "no" | "short", body: string): Promise<void> {
    const clientId = `${answer}-${item.id}-${item.revision}-${price}`;
    await writeTo(this.#deps.chat, item.listing.seller, buyer, { body, clientId });
  }
}
