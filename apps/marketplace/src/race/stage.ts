// The stage of a race or a pause: a small market under a hash tag of its own, which expires after ten minutes. It has
// the layout and code of the shop, or those of the textbook.
import { randomBytes } from "node:crypto";
import { connect, type Connection, keyspace } from "@kit/core";
import type { Lock } from "@kit/lock";
import {
  classicKeys,
  purchaseItemWithoutLock,
  purchaseItemWithOwnerlessLock,
  type PurchaseResult,
} from "@tooling/classic";
import type { Redis } from "ioredis";
import { runChild } from "../common/child.js";
import { marketKeys } from "../common/keys.js";
import { Market, type Purchase } from "../market/market.js";
import type { Place } from "../common/place.js";
import type { Recount, RecountTask } from "./recount.js";
import { openMarket, type World } from "../seed/index.js";
import { Sessions } from "../market/sessions.js";

/** The life of a stage, and of the sessions of its buyers. */
export const lifeMs = 10 * 60_000;
const recountLimitMs = 60_000;

/** The parts of the shop that a stage needs. */
export interface Backstage {
  readonly redis: Connection;
  readonly lock: Lock;
  readonly place: Place;
  readonly world: World;
}

/** How buyers keep each other away. The first two are the textbook's. */
export type Guard = "none" | "setnx" | "optimistic" | "lock";

type Buy = (purchase: Purchase, holder?: string) => Promise<{ readonly kind: string }>;

interface Stage {
  readonly id: string;
  /** The prefix of the keys in the textbook's layout. */
  readonly classicPrefix: string;
  /** The sessions of its buyers. */
  readonly sessions: Sessions;
  readonly buy: Buy;
  readonly recount: () => Promise<Recount>;
  readonly close: () => Promise<void>;
}

interface Cast {
  readonly buyers: number;
  readonly things: number;
  /** From 0 to below 1: which of the shop's things. @default 0 */
  readonly chance?: number;
  /** The money of a buyer, counted from 0. */
  readonly funds: (price: number, buyer: number) => number;
}

/** A world for a stage: `u1` sells the things `i1`, …, all at one price; `u2`, … are the buyers. */
export const castOf = ({ users, items }: World, { buyers, things, chance = 0, funds }: Cast): World => {
  const listed = items.filter(({ price }) => price !== null);
  const start = Math.floor(chance * (listed.length - things));
  const chosen = listed.slice(start, start + things);
  const price = chosen[0]?.price;
  const [seller] = users;
  const people = users.filter(({ isSeller }) => !isSeller).slice(0, buyers);
  if (!price || !seller || people.length < buyers) throw new Error("a stage needs items for sale, a seller and buyers");
  return {
    users: [
      { ...seller, id: "u1", funds: 0 },
      ...people.map((user, index) => ({ ...user, id: `u${index + 2}`, funds: funds(price, index) })),
    ],
    items: chosen.map((item, index) => ({ ...item, id: `i${index + 1}`, owner: "u1", price })),
  };
};

/** Counts a market again, in a process of its own. `world` is the market before its first sale. */
export const recount = async ({
  world: { users, items },
  ...market
}: Omit<RecountTask, "users" | "items" | "openingMoney"> & { readonly world: World }): Promise<Recount> => {
  const task: RecountTask = {
    ...market,
    users: users.map(({ id }) => id),
    items: items.map(({ id }) => id),
    openingMoney: users.reduce((sum, { funds }) => sum + funds, 0),
  };
  return await runChild<Recount>("recount", task, recountLimitMs);
};

/** Opens a market with this world. The textbook's lock has a time limit in whole seconds, `ownerlessLockSeconds`. */
export const openStage = async (
  { redis, lock, place }: Backstage,
  guard: Guard,
  world: World,
  ownerlessLockSeconds: number,
): Promise<Stage> => {
  const id = `race-${randomBytes(6).toString("hex")}`;
  const classicPrefix = keyspace("shop", place.prefix).key(id, "classic:");
  const isClassic = guard === "none" || guard === "setnx";
  const { buy, close } = isClassic
    ? await openClassic(place.url, classicPrefix, world, guard === "none" ? undefined : ownerlessLockSeconds)
    : await openOurs(new Market(redis, lock, id, lifeMs, place.prefix), redis, guard, world);
  return {
    ...{ id, classicPrefix, buy, close },
    sessions: new Sessions(redis, marketKeys(id, place.prefix)),
    recount: () => recount({ ...place, market: id, world, seller: "u1", ...(isClassic ? { classicPrefix } : {}) }),
  };
};

const openOurs = async (
  market: Market,
  redis: Connection,
  way: "optimistic" | "lock",
  world: World,
): Promise<Pick<Stage, "buy" | "close">> => {
  await openMarket(redis, market.keys, world, lifeMs);
  return {
    buy: (purchase, holder = `buyer ${purchase.buyer}`) => market.buy(way, purchase, holder),
    close: () => Promise.resolve(),
  };
};

/** The textbook's outcomes, and the shop's names for them. */
const classicOutcome: Readonly<Record<PurchaseResult["outcome"], string>> = {
  bought: "sold",
  notForSale: "not-for-sale",
  priceChanged: "price-changed",
  cannotAfford: "short",
  timedOut: "busy",
};

/** The textbook's layout and code on a plain client, with or without its lock. Only the time to live of the keys is added. */
const openClassic = async (
  url: string,
  prefix: string,
  { users, items }: World,
  lockTimeoutSeconds: number | undefined,
): Promise<Pick<Stage, "buy" | "close">> => {
  const keys = classicKeys(prefix);
  // The textbook's code expects the client of a single server. Its keys share one slot, so a Cluster's client works.
  const plain = (await connect(url)) as unknown as Redis;
  const opening = plain.multi();
  for (const { id, name, funds } of users) opening.hset(keys.user(id), { name, funds });
  for (const { id, owner, price } of items) opening.zadd(keys.market, price ?? 0, keys.marketMember(id, owner));
  const age = (batch: typeof opening): typeof opening => {
    for (const { id } of users) batch.pexpire(keys.user(id), lifeMs).pexpire(keys.inventory(id), lifeMs);
    return batch.pexpire(keys.market, lifeMs);
  };
  await age(opening).exec();
  return {
    buy: async ({ buyer, item, price }) => {
      const { outcome } =
        lockTimeoutSeconds === undefined
          ? await purchaseItemWithoutLock(plain, buyer, item, "u1", price, { prefix })
          : await purchaseItemWithOwnerlessLock(plain, buyer, item, "u1", price, { prefix, lockTimeoutSeconds });
      return { kind: classicOutcome[outcome] };
    },
    close: async () => {
      // The inventories were created by the first purchase, so they have no time to live yet.
      await age(plain.multi()).exec();
      await plain.quit();
    },
  };
};
