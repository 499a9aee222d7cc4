// The shop's way to sell under contention, and the textbook's.
import { type Catalog, catalogOf, type Definition as AnyDefinition } from "@tooling/bench";
import {
  classicKeys,
  purchaseItem,
  purchaseItemWithItemLock,
  purchaseItemWithLock,
  type PurchaseResult,
} from "@tooling/classic";
import { Redis } from "ioredis";
import { lockName } from "../common/keys.js";
import { Market } from "../market/market.js";

/** How the buyers of a case guard a purchase. */
export type Way = "WATCH" | "market lock" | "item lock";

/** Buyers and items are known by their index. All items cost the same, and each buyer can pay for all of them. */
interface Stall {
  /** Creates a market in which nothing has been sold. */
  open(market: string, buyers: number, items: number): Promise<void>;
  /** Returns the purchase function of one buyer; it rejects unless the item is sold to that buyer. */
  buyer(index: number): (market: string, item: number) => Promise<void>;
  /** The command that is sent once per try. Undefined where a buyer never tries again. */
  readonly tryCommand: string | undefined;
}

const price = 100;
const funds = 1_000_000;

const connected = async (url: string): Promise<Redis> => {
  const redis = new Redis(url);
  redis.on("error", () => undefined);
  await redis.ping();
  return redis;
};

const upTo = (count: number): readonly number[] => Array.from({ length: count }, (_, index) => index);

const ours = async (url: string, way: Way): Promise<Stall> => {
  const { connect } = await import("@kit/core");
  const { createLock } = await import("@kit/lock");
  const redis = await connect(url);
  const lock = createLock(redis);
  return {
    tryCommand: way === "WATCH" ? "watch" : undefined,
    open: async (name, buyers, items) => {
      const { keys } = new Market(redis, lock, name);
      const pipeline = redis.pipeline();
      pipeline.hset(keys.user("seller"), "name", "seller", "funds", funds);
      for (const index of upTo(buyers))
        pipeline.hset(keys.user(`u${String(index)}`), "name", `buyer ${String(index)}`, "funds", funds);
      for (const index of upTo(items)) {
        const item = `i${String(index)}`;
        pipeline.hset(keys.item(item), "title", item, "category", "things", "revision", 1);
        pipeline.hset(keys.listing(item), "price", price, "seller", "seller");
        pipeline.zadd(keys.market, index + 1, item);
        pipeline.zadd(keys.shelf("things"), index + 1, item);
      }
      pipeline.hset(keys.totals, "money", funds * (buyers + 1), "items", items, "listings", items, "sales", 0);
      await pipeline.exec();
    },
    buyer: (index) => {
      const buyer = `u${String(index)}`;
      return async (name, itemIndex) => {
        const item = `i${String(itemIndex)}`;
        const purchase = { item, buyer, price, revision: 1, request: `r${String(itemIndex)}` };
        const market = new Market(redis, lock, name);
        const { kind } =
          way === "WATCH"
            ? await market.buy("optimistic", purchase, buyer)
            : await lock.using(way === "market lock" ? name : lockName(name, item), (lease) =>
                market.buyUnder(lease, purchase),
              );
        if (kind !== "sold") throw new Error(`not sold: ${kind}`);
      };
    },
  };
};

const patience = { timeoutMs: 60_000 };

const purchase = (redis: Redis, way: Way, prefix: string, buyer: string, item: string): Promise<PurchaseResult> => {
  const options = { ...patience, prefix };
  if (way === "WATCH") return purchaseItem(redis, buyer, item, "seller", price, options);
  const buy = way === "market lock" ? purchaseItemWithLock : purchaseItemWithItemLock;
  return buy(redis, buyer, item, "seller", options);
};

const textbook = async (url: string, way: Way): Promise<Stall> => {
  const admin = await connected(url);
  return {
    // Each try for a lock is one SETNX. Its release also WATCHes, so WATCH would count too much.
    tryCommand: way === "WATCH" ? "watch" : "setnx",
    open: async (name, buyers, items) => {
      const keys = classicKeys(`${name}:`);
      const pipeline = admin.pipeline();
      pipeline.hset(keys.user("seller"), "name", "seller", "funds", funds);
      for (const index of upTo(buyers))
        pipeline.hset(keys.user(`u${String(index)}`), "name", `buyer ${String(index)}`, "funds", funds);
      for (const index of upTo(items))
        pipeline.zadd(keys.market, price, keys.marketMember(`i${String(index)}`, "seller"));
      await pipeline.exec();
    },
    buyer: (index) => {
      // The state of WATCH belongs to the connection.
      const redis = new Redis(url);
      redis.on("error", () => undefined);
      return async (name, item) => {
        const { outcome } = await purchase(redis, way, `${name}:`, `u${String(index)}`, `i${String(item)}`);
        if (outcome !== "bought") throw new Error(`not sold: ${outcome}`);
      };
    },
  };
};

type Definition = AnyDefinition<Stall>;

const kit = (way: Way, settings: string): Definition => ({
  id: `kit ${way}`,
  peer: "kit",
  settings,
  open: (url) => ours(url, way),
});

const classic = (way: Way, settings: string): Definition => ({
  id: `classic ${way}`,
  settings: `${settings}; a connection per buyer`,
  open: (url) => textbook(url, way),
});

export const implementations: Catalog<Stall, void> = catalogOf([
  kit("WATCH", "watches the item, its listing and the buyer; at most 8 transactions at a time per process"),
  kit("market lock", "one lock for the market, one script that sells and checks the fencing token"),
  kit("item lock", "a lock per item, one script that sells and checks the fencing token"),
  classic("WATCH", "watches the whole market and the buyer, tries again at once"),
  classic("market lock", "one lock for the market, tried each millisecond; MULTI reads, MULTI writes"),
  classic("item lock", "a lock per item, tried each millisecond; MULTI reads, MULTI writes"),
]);
