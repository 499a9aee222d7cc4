import type { ChainableCommander, Redis } from "ioredis";
import { type ClassicKeys, classicKeys } from "./keys.js";
import { acquireLock, acquireOwnerlessLock, releaseLock, releaseOwnerlessLock } from "./lock.js";
import { execute, watchLoop } from "./transaction.js";

/** The one lock of the classic market. */
const MARKET_LOCK = "market:";

/** Options of the market functions. */
interface MarketOptions {
  /** Put before every key. @default "" */
  readonly prefix?: string;
  /** How long to retry, or to wait for the lock. @default 5_000 to list, 10_000 to buy */
  readonly timeoutMs?: number;
}

/** How a purchase ended; `retries` counts the transactions that another client's write undid. */
export interface PurchaseResult {
  readonly outcome: "bought" | "notForSale" | "priceChanged" | "cannotAfford" | "timedOut";
  readonly retries: number;
}

/** The facts that a buyer reads before it decides. */
interface Offer {
  /** As `ZSCORE` replies it: a double printed as text. */
  readonly price: string | null;
  readonly funds: string | null;
}

/** One purchase: buyer, item and seller. */
interface Sale {
  readonly keys: ClassicKeys;
  readonly buyerId: string;
  readonly itemId: string;
  readonly sellerId: string;
}

/**
 * "Redis in Action", chapter 4: `WATCH market: users:<buyer>`, `ZSCORE`, `HGET funds`, then
 * `MULTI HINCRBY HINCRBY SADD ZREM EXEC`, retried for 10 s. Refused unless the price is the one that the buyer saw, and
 * the buyer can pay it.
 *
 * Known faults:
 *
 * - any other listing or sale aborts the transaction, so that every other sale is a retry
 * - prices are floats, compared as text (`97.50` is not `97.5`) and charged without their fraction
 */
export async function purchaseItem(
  redis: Redis,
  buyerId: string,
  itemId: string,
  sellerId: string,
  seenPrice: string | number,
  { prefix = "", timeoutMs = 10_000 }: MarketOptions = {},
): Promise<PurchaseResult> {
  const sale = { keys: classicKeys(prefix), buyerId, itemId, sellerId };
  const result = await watchLoop<PurchaseResult["outcome"]>(
    redis,
    [sale.keys.market, sale.keys.user(buyerId)],
    async () => {
      const offer = await readOffer(redis, sale);
      const value = decide(offer, String(seenPrice));
      return value === "bought" ? { value, transaction: queueSale(redis.multi(), sale, offer) } : { value };
    },
    timeoutMs,
  );
  return { outcome: result.done ? result.value : "timedOut", retries: result.retries };
}

/**
 * "Redis in Action", chapter 6, under one lock on the whole market ({@link acquireLock}): both reads in one round trip,
 * then the four writes in another.
 *
 * Known faults:
 *
 * - those of the lock
 * - the price that the buyer saw is ignored: the buyer pays the current one
 * - the writes are not guarded, so that a purchase by {@link purchaseItem} can sell the same item in between
 * - fractions of prices are dropped
 */
export async function purchaseItemWithLock(
  redis: Redis,
  buyerId: string,
  itemId: string,
  sellerId: string,
  { prefix = "", timeoutMs = 10_000 }: MarketOptions = {},
): Promise<PurchaseResult> {
  return await buyUnderLock(redis, MARKET_LOCK, { buyerId, itemId, sellerId }, prefix, timeoutMs);
}

/**
 * "Redis in Action", chapter 6, under a lock on the one item.
 *
 * Known faults: those of {@link purchaseItemWithLock}. The lock does not guard the buyer's funds either, so that two
 * purchases at once overspend.
 */
export async function purchaseItemWithItemLock(
  redis: Redis,
  buyerId: string,
  itemId: string,
  sellerId: string,
  { prefix = "", timeoutMs = 10_000 }: MarketOptions = {},
): Promise<PurchaseResult> {
  const lockName = `${MARKET_LOCK}${itemId}.${sellerId}`;
  return await buyUnderLock(redis, lockName, { buyerId, itemId, sellerId }, prefix, timeoutMs);
}

/** Options of {@link purchaseItemWithOwnerlessLock}. */
interface OwnerlessLockOptions extends MarketOptions {
  /** When the lock expires, in whole seconds. @default 10 */
  readonly lockTimeoutSeconds?: number;
}

/**
 * A purchase under `SETNX` without owner, on the whole market, at the price that the buyer saw.
 *
 * Known faults: those of the lock. Once the lock has expired or a slow holder has deleted it, the writes are not guarded
 * and the item is sold again.
 */
export async function purchaseItemWithOwnerlessLock(
  redis: Redis,
  buyerId: string,
  itemId: string,
  sellerId: string,
  seenPrice: string | number,
  { prefix = "", timeoutMs = 10_000, lockTimeoutSeconds = 10 }: OwnerlessLockOptions = {},
): Promise<PurchaseResult> {
  if (!(await acquireOwnerlessLock(redis, MARKET_LOCK, timeoutMs, lockTimeoutSeconds, prefix))) {
    return { outcome: "timedOut", retries: 0 };
  }
  try {
    return await purchaseItemWithoutLock(redis, buyerId, itemId, sellerId, seenPrice, { prefix });
  } finally {
    await releaseOwnerlessLock(redis, MARKET_LOCK, prefix);
  }
}

/**
 * A purchase without a guard: `ZSCORE`, `HGET`, then `HINCRBY`, `HINCRBY`, `SADD`, `ZREM`, one plain command after the
 * other.
 *
 * Known faults:
 *
 * - all buyers that read before the first one wrote get the item
 * - a buyer of several items at once spends the same money on each
 * - a crash in the middle takes the money without giving the item
 */
export async function purchaseItemWithoutLock(
  redis: Redis,
  buyerId: string,
  itemId: string,
  sellerId: string,
  seenPrice: string | number,
  { prefix = "" }: Pick<MarketOptions, "prefix"> = {},
): Promise<PurchaseResult> {
  const keys = classicKeys(prefix);
  const offer = await readOffer(redis, { keys, buyerId, itemId, sellerId });
  const outcome = decide(offer, String(seenPrice));
  if (outcome === "bought") {
    const price = charged(offer);
    await redis.hincrby(keys.user(sellerId), "funds", price);
    await redis.hincrby(keys.user(buyerId), "funds", -price);
    await redis.sadd(keys.inventory(buyerId), itemId);
    await redis.zrem(keys.market, keys.marketMember(itemId, sellerId));
  }
  return { outcome, retries: 0 };
}

async function buyUnderLock(
  redis: Redis,
  lockName: string,
  ids: Omit<Sale, "keys">,
  prefix: string,
  timeoutMs: number,
): Promise<PurchaseResult> {
  const sale = { keys: classicKeys(prefix), ...ids };
  const token = await acquireLock(redis, lockName, timeoutMs, prefix);
  if (token === null) return { outcome: "timedOut", retries: 0 };
  try {
    const reads = redis.multi();
    reads.zscore(sale.keys.market, sale.keys.marketMember(sale.itemId, sale.sellerId));
    reads.hget(sale.keys.user(sale.buyerId), "funds");
    const [price, funds] = (await execute(reads)) as [string | null, string | null];
    const outcome = decide({ price, funds }, price);
    if (outcome === "bought") await execute(queueSale(redis.multi(), sale, { price, funds }));
    return { outcome, retries: 0 };
  } finally {
    await releaseLock(redis, lockName, token, prefix);
  }
}

async function readOffer(redis: Redis, { keys, itemId, sellerId, buyerId }: Sale): Promise<Offer> {
  const price = await redis.zscore(keys.market, keys.marketMember(itemId, sellerId));
  const funds = await redis.hget(keys.user(buyerId), "funds");
  return { price, funds };
}

function decide({ price, funds }: Offer, seenPrice: string | null): PurchaseResult["outcome"] {
  if (price === null) return "notForSale";
  if (price !== seenPrice) return "priceChanged";
  return Number(price) > Math.trunc(Number(funds)) ? "cannotAfford" : "bought";
}

/** Funds are integers (`HINCRBY`), so the fraction of a price is never paid. */
function charged({ price }: Offer): number {
  return Math.trunc(Number(price));
}

function queueSale(
  transaction: ChainableCommander,
  { keys, buyerId, itemId, sellerId }: Sale,
  offer: Offer,
): ChainableCommander {
  const price = charged(offer);
  return transaction
    .hincrby(keys.user(sellerId), "funds", price)
    .hincrby(keys.user(buyerId), "funds", -price)
    .sadd(keys.inventory(buyerId), itemId)
    .zrem(keys.market, keys.marketMember(itemId, sellerId));
}
