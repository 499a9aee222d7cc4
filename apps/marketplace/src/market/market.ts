// One market: its contents, and the two ways to write to it.
//
// Under locks:   acquire the locks of item, buyer and seller, all of them or none, and read seller and category. One
//                script then checks everything again and writes the whole sale. It refuses a token of the item's lock
//                that is older than the newest it has seen.
// Optimistic:    WATCH the keys that the decision depends on, read them and decide by the same rules. MULTI/EXEC writes
//                the sale. A conflict repeats all of it.
//
// Both ways may be used on one item at the same time: each write is atomic and does its own checks. An optimistic sale
// has no token and leaves the fence alone. Every write states the `revision` that its caller saw, and raises it. So a
// lock holder that resumes late is refused by the fence after a later holder, and by the revision after an optimistic
// write.
import { type Connection, KitConflictError, KitUnknownOutcomeError, optimistic, type Transaction } from "@kit/core";
import { durable } from "@kit/core/durable";
import { type Lease, type LeaseSet, type Lock, LockLostError, LockTimeoutError } from "@kit/lock";
import { lockName, type MarketKeys, marketKeys, personLockName } from "../common/keys.js";
import { audit, type Audit, buy, type BuyOutcome, list, type ListOutcome } from "../scripts/index.js";

const receiptLifeMs = 10 * 60_000;
const ledgerLength = 10_000;
// Longer than a visitor can hold the lock of an item in the demonstration.
const waitMs = 9_000;
/** How long a sale waits for its copies. The sale is valid in any case. */
const copyMs = 1_500;

export type Way = "lock" | "optimistic";

/** `busy`: nothing was written, since others held the item until `waitMs` had passed. */
export type Busy = { readonly kind: "busy" };

/** A buyer's request, with the price and revision that the buyer saw. */
export interface Purchase {
  readonly item: string;
  readonly buyer: string;
  readonly price: number;
  readonly revision: number;
  /** Chosen by the caller. The same again for this item, price and revision gives the first result. */
  readonly request: string;
  /** How many replicas a sale under the lock waits for. @default 0 */
  readonly copies?: number;
  /** The price is the buyer's offer, which the seller accepts. Only under the lock. @default false */
  readonly isOffer?: boolean;
}

/** A seller's request, with the revision that the seller saw. */
export interface Offer {
  readonly item: string;
  readonly seller: string;
  readonly price: number;
  readonly revision: number;
  readonly request: string;
}

export interface Item {
  readonly id: string;
  readonly title: string;
  readonly category: string;
  readonly revision: number;
  readonly listing: { readonly price: number; readonly seller: string } | null;
}

export interface User {
  readonly id: string;
  readonly name: string;
  readonly funds: number;
}

/** The part of a lease that a write carries. */
export interface Proof {
  readonly fencingToken: string;
  readonly signal?: AbortSignal;
}

type Write<T> = (proof: Proof) => Promise<T>;
type Fields = (string | null)[];

/** The market `id`. Its keys live for `lifeMs`; 0 means without limit. */
export class Market {
  readonly id: string;
  readonly keys: MarketKeys;
  readonly #redis: Connection;
  readonly #lock: Lock;
  readonly #lifeMs: number;

  constructor(redis: Connection, lock: Lock, id: string, lifeMs = 0, prefix = "kit") {
    this.id = id;
    this.keys = marketKeys(id, prefix);
    this.#redis = redis;
    this.#lock = lock;
    this.#lifeMs = lifeMs;
  }

  async item(id: string): Promise<Item | null> {
    const [facts, offer] = await Promise.all([
      this.#redis.hmget(this.keys.item(id), "title", "category", "revision"),
      this.#redis.hmget(this.keys.listing(id), "price", "seller"),
    ]);
    return itemOf(id, facts, offer);
  }

  /** Raised by every sale and listing; null for an item that does not exist. */
  async revision(id: string): Promise<number | null> {
    const revision = await this.#redis.hget(this.keys.item(id), "revision");
    return revision === null ? null : Number(revision);
  }

  async items(ids: readonly string[]): Promise<Item[]> {
    const items = await Promise.all(ids.map((id) => this.item(id)));
    return items.filter((item) => item !== null);
  }

  /** A page of the items for sale, newest first. */
  async page(category: string | null, offset: number, count: number): Promise<{ total: number; items: Item[] }> {
    const shelf = category === null ? this.keys.market : this.keys.shelf(category);
    const [total, ids] = await Promise.all([
      this.#redis.zcard(shelf),
      this.#redis.zrevrange(shelf, offset, offset + count - 1),
    ]);
    const items = await this.items(ids);
    // An item may have been sold between the two reads.
    return { total, items: items.filter((item) => item.listing !== null) };
  }

  async user(id: string): Promise<User | null> {
    const [name, funds] = await this.#redis.hmget(this.keys.user(id), "name", "funds");
    return name == null ? null : { id, name, funds: Number(funds) };
  }

  async owns(user: string, item: string): Promise<boolean> {
    return (await this.#redis.sismember(this.keys.inventory(user), item)) === 1;
  }

  async views(item: string): Promise<number> {
    return Number((await this.#redis.zscore(this.keys.views, item)) ?? 0);
  }

  /** Items that the user owns and does not offer, and their number. */
  async inventory(user: string, offset = 0, count: number = Infinity): Promise<{ total: number; items: Item[] }> {
    const ids = await this.#redis.smembers(this.keys.inventory(user));
    return { total: ids.length, items: await this.items(ids.sort().slice(offset, offset + count)) };
  }

  async audit(users: readonly string[]): Promise<Audit> {
    const { totals, market } = this.keys;
    const wallets = [...users.map(this.keys.user), ...users.map(this.keys.inventory)];
    return await audit.run(this.#redis, { totals, market, wallets }, { users: users.length });
  }

  async buy(way: Way, purchase: Purchase, holder: string): Promise<BuyOutcome | Busy> {
    if (way === "optimistic") return await unlessBusy(() => settled(() => this.#buyOptimistic(purchase)));
    const { item, buyer } = purchase;
    // An item that another sells by the time the locks are held has another revision, too: the script refuses.
    const { seller } = await this.#read(item);
    const people = seller === null ? [buyer] : [buyer, seller];
    return await this.#underLocks(item, people, holder, (proof) => this.buyUnder(proof, purchase));
  }

  async list(way: Way, offer: Offer, holder: string): Promise<ListOutcome | Busy> {
    if (way === "optimistic") return await unlessBusy(() => settled(() => this.#listOptimistic(offer)));
    return await this.#underLocks(offer.item, [offer.seller], holder, (proof) => this.listUnder(proof, offer));
  }

  /** Runs `routine` while this process holds the lock of the item. */
  async holding<T>(item: string, holder: string, routine: (lease: Lease) => Promise<T>): Promise<T> {
    return await this.#lock.using(lockName(this.id, item), routine, { waitMs, holder });
  }

  /** The write of a locked purchase. Safe with an expired lease: the script then refuses its token. */
  async buyUnder({ fencingToken, signal }: Proof, purchase: Purchase): Promise<BuyOutcome> {
    const { item, buyer, price, revision, request, copies = 0, isOffer = false } = purchase;
    const { category, seller } = await this.#read(item);
    const { keys } = this;
    const operands = {
      item: keys.item(item),
      listing: keys.listing(item),
      buyer: keys.user(buyer),
      // Without a listing any user will do: the script refuses before it reads this key.
      seller: keys.user(seller ?? buyer),
      inventory: keys.inventory(buyer),
      market: keys.market,
      shelf: keys.shelf(category),
      ledger: keys.ledger,
      totals: keys.totals,
      receipt: keys.receipt(buyer, { ...purchase, kind: isOffer ? "offer" : "buy" }),
      offers: keys.offers(item),
    };
    const args = {
      itemId: item,
      buyerId: buyer,
      sellerId: seller ?? "",
      price,
      revision,
      fencingToken,
      request,
      receiptLifeMs,
      marketLifeMs: this.#lifeMs,
      ledgerLength,
      isOffer: isOffer ? 1 : 0,
    };
    if (copies === 0) return await buy.run(this.#redis, operands, args, { signal, op: request });
    const { value, replicas } = await durable(
      this.#redis,
      { key: operands.item, replicas: copies, timeoutMs: copyMs, signal },
      (scope) => scope.run(buy, operands, args),
    );
    return value.kind === "sold" ? { ...value, copies: replicas } : value;
  }

  /** The write of a locked listing. Like {@link buyUnder}, it is safe with an expired lease. */
  async listUnder({ fencingToken, signal }: Proof, offer: Offer): Promise<ListOutcome> {
    const { item, seller, price, revision, request } = offer;
    const { category } = await this.#read(item);
    const { keys } = this;
    return await list.run(
      this.#redis,
      {
        item: keys.item(item),
        listing: keys.listing(item),
        inventory: keys.inventory(seller),
        market: keys.market,
        shelf: keys.shelf(category),
        totals: keys.totals,
        receipt: keys.receipt(seller, { ...offer, kind: "list" }),
      },
      {
        itemId: item,
        sellerId: seller,
        price,
        revision,
        fencingToken,
        receiptLifeMs,
        marketLifeMs: this.#lifeMs,
      },
      { signal, op: request },
    );
  }

  async #read(item: string): Promise<{ category: string; seller: string | null }> {
    const [category, seller] = await Promise.all([
      this.#redis.hget(this.keys.item(item), "category"),
      this.#redis.hget(this.keys.listing(item), "seller"),
    ]);
    return { category: category ?? "", seller };
  }

  /**
   * Holds the locks of an item and of people for one write. A lease can expire after the write, and a reply can be lost.
   * Repeating the same request settles both: a completed write returns the result in its receipt, and a missing one is
   * decided now by the same checks.
   */
  async #underLocks<T>(item: string, people: readonly string[], holder: string, write: Write<T>): Promise<T | Busy> {
    const name = lockName(this.id, item);
    const names = [name, ...people.map((user) => personLockName(this.id, user))];
    let fencingToken: string | undefined;
    const writeNow = ({ fencingTokens, signal }: LeaseSet): Promise<T> =>
      write({ fencingToken: (fencingToken = fencingTokens.get(name) ?? ""), signal });
    return await unlessBusy(async () => {
      try {
        return await this.#lock.usingAll(names, writeNow, { waitMs, holder });
      } catch (error) {
        if (fencingToken === undefined || !(error instanceof LockLostError || error instanceof KitUnknownOutcomeError))
          throw error;
        return await write({ fencingToken });
      }
    });
  }

  async #buyOptimistic(purchase: Purchase): Promise<BuyOutcome> {
    const { item, buyer, price, revision, request } = purchase;
    const { keys } = this;
    const receipt = keys.receipt(buyer, { ...purchase, kind: "buy" });
    const watched = [keys.item(item), keys.listing(item), keys.user(buyer), receipt];
    const { value } = await optimistic(
      this.#redis,
      watched,
      async (tx): Promise<BuyOutcome> => {
        const [first, [known, category], [asked, seller], funds] = await Promise.all([
          tx.call("GET", receipt) as Promise<string | null>,
          tx.call("HMGET", keys.item(item), "revision", "category") as Promise<Fields>,
          tx.call("HMGET", keys.listing(item), "price", "seller") as Promise<Fields>,
          tx.call("HGET", keys.user(buyer), "funds") as Promise<string | null>,
        ]);
        if (first !== null) return { kind: "sold", price, ...sellerAndFence(first), repeat: true };
        if (asked == null || seller == null) return { kind: "not-for-sale" };
        if (seller === buyer) return { kind: "own-item" };
        if (asked !== String(price)) return { kind: "price-changed", price: Number(asked) };
        if (known !== String(revision)) return { kind: "changed" };
        if (Number(funds) < price) return { kind: "short", funds: Number(funds) };

        tx.queue("DEL", keys.listing(item));
        tx.queue("ZREM", keys.market, item);
        tx.queue("ZREM", keys.shelf(category ?? ""), item);
        tx.queue("SADD", keys.inventory(buyer), item);
        tx.queue("HINCRBY", keys.user(buyer), "funds", -price);
        tx.queue("HINCRBY", keys.user(seller), "funds", price);
        tx.queue("HINCRBY", keys.item(item), "revision", 1);
        tx.queue("HINCRBY", keys.totals, "sales", 1);
        const entry = ["request", request, "item", item, "seller", seller, "buyer", buyer, "price", price];
        const how = ["revision", revision, "way", "optimistic", "fence", ""];
        tx.queue("XADD", keys.ledger, "MAXLEN", "~", ledgerLength, "*", ...entry, ...how);
        tx.queue("SET", receipt, seller, "PX", receiptLifeMs);
        this.#age(tx, keys.inventory(buyer), keys.ledger);
        return { kind: "sold", price, seller, fence: "", repeat: false };
      },
      { waitMs },
    );
    return value;
  }

  async #listOptimistic(offer: Offer): Promise<ListOutcome> {
    const { item, seller, price, revision } = offer;
    const { keys } = this;
    const receipt = keys.receipt(seller, { ...offer, kind: "list" });
    const watched = [keys.item(item), keys.listing(item), keys.inventory(seller), receipt];
    const { value } = await optimistic(
      this.#redis,
      watched,
      async (tx): Promise<ListOutcome> => {
        const [first, [known, category], owner, mine, listings] = await Promise.all([
          tx.call("GET", receipt) as Promise<string | null>,
          tx.call("HMGET", keys.item(item), "revision", "category") as Promise<Fields>,
          tx.call("HGET", keys.listing(item), "seller") as Promise<string | null>,
          tx.call("SISMEMBER", keys.inventory(seller), item) as Promise<number>,
          tx.call("HGET", keys.totals, "listings") as Promise<string | null>,
        ]);
        if (first !== null) return { kind: "listed", price, repeat: true };
        if (mine !== 1 && owner !== seller) return { kind: "not-yours" };
        if (known !== String(revision)) return { kind: "changed" };

        tx.queue("HINCRBY", keys.item(item), "revision", 1);
        tx.queue("SET", receipt, "listed", "PX", receiptLifeMs);
        if (mine !== 1) {
          tx.queue("HSET", keys.listing(item), "price", price);
          return { kind: "repriced", price };
        }
        const number = Number(listings) + 1;
        tx.queue("HINCRBY", keys.totals, "listings", 1);
        tx.queue("SREM", keys.inventory(seller), item);
        tx.queue("HSET", keys.listing(item), "price", price, "seller", seller);
        tx.queue("ZADD", keys.market, number, item);
        tx.queue("ZADD", keys.shelf(category ?? ""), number, item);
        this.#age(tx, keys.listing(item), keys.market, keys.shelf(category ?? ""));
        return { kind: "listed", price, repeat: false };
      },
      { waitMs },
    );
    return value;
  }

  #age(tx: Transaction, ...keys: readonly string[]): void {
    if (this.#lifeMs === 0) return;
    for (const key of keys) tx.queue("PEXPIRE", key, this.#lifeMs);
  }
}

const unlessBusy = async <T>(write: () => Promise<T>): Promise<T | Busy> => {
  try {
    return await write();
  } catch (error) {
    if (error instanceof KitConflictError || error instanceof LockTimeoutError) return { kind: "busy" };
    throw error;
  }
};

/** Repeats an EXEC whose reply was lost: if it was executed, the receipt holds its result. */
const settled = async <T>(write: () => Promise<T>): Promise<T> => {
  try {
    return await write();
  } catch (error) {
    if (!(error instanceof KitUnknownOutcomeError)) throw error;
    return await write();
  }
};

/** Reads the receipt of a sale; a sale without a lock has no fence. */
const sellerAndFence = (receipt: string): { seller: string; fence: string } => {
  const [seller = "", fence = ""] = receipt.split(" ");
  return { seller, fence };
};

const itemOf = (id: string, [title, category, revision]: Fields, [price, seller]: Fields): Item | null => {
  if (title == null || category == null) return null;
  const listing = price == null || seller == null ? null : { price: Number(price), seller };
  return { id, title, category, revision: Number(revision), listing };
};
