// The people and things of the shop on its first day: the same on every run for the same seed.
import type { Connection } from "@kit/core";
import type { MarketKeys } from "../common/keys.js";
import { categories, titleOf } from "./categories.js";
import { names } from "./names.js";
import { random } from "./random.js";

/** Raise it when the keys or their contents change. */
const layout = "2";

export interface SeedUser {
  readonly id: string;
  readonly name: string;
  readonly funds: number;
  readonly isSeller: boolean;
}

export interface SeedItem {
  readonly id: string;
  readonly title: string;
  readonly category: string;
  readonly owner: string;
  /** Null: the owner keeps it. */
  readonly price: number | null;
}

/** A market before its first sale. */
export interface World {
  readonly users: readonly SeedUser[];
  readonly items: readonly SeedItem[];
}

export interface WorldSize {
  readonly sellers: number;
  readonly buyers: number;
  readonly items: number;
}

const shopSize: WorldSize = { sellers: 60, buyers: 800, items: 1_200 };

/** Uniform on a logarithmic scale: many cheap things, few dear ones. */
const skewed = (lowest: number, highest: number, chance: number): number =>
  Math.round(Math.exp(Math.log(lowest) + chance * (Math.log(highest) - Math.log(lowest))));

/** A price in pence within a span of pounds, rounded: to half pounds up to £20, to pounds up to £200, to five pounds above. */
const asked = ([lowest, highest]: readonly [number, number], chance: number): number => {
  const pence = skewed(lowest * 100, highest * 100, chance);
  const step = pence > 20_000 ? 500 : pence > 2_000 ? 100 : 50;
  return Math.max(step, Math.round(pence / step) * step);
};

/** The people and things of a market. */
export const world = (seed: number, { sellers, buyers, items }: WorldSize = shopSize): World => {
  const chance = random(seed);
  const people = names(sellers + buyers, chance);
  // One of the sellers is called so: the tour and the search page promise that their names are found.
  const wanted = people.findIndex((name) => name.endsWith(" Müller"));
  if (wanted >= sellers) people.splice(wanted, 1, ...people.splice(sellers - 1, 1, people[wanted] ?? ""));
  const users = people.map((name, index): SeedUser => {
    const isSeller = index < sellers;
    const funds = skewed(isSeller ? 5_000 : 500, isSeller ? 90_000 : 250_000, chance.next());
    return { id: `u${index + 1}`, name, funds, isSeller };
  });
  const things = Array.from({ length: items }, (_, index): SeedItem => {
    const category = chance.pick(categories);
    const listed = chance.next() < 0.85;
    // Unlisted items belong to sellers who have yet to list them, or to buyers from before the opening.
    const owner =
      listed || chance.next() < 0.6 ? chance.between(1, sellers) : chance.between(sellers + 1, users.length);
    return {
      id: `i${index + 1}`,
      title: titleOf(category, chance),
      category: category.id,
      owner: `u${owner}`,
      price: listed ? asked(category.pounds, chance.next()) : null,
    };
  });
  return { users, items: things };
};

/**
 * Writes a world into an empty market. A market that is open already is left alone.
 *
 * `about` is written last. Without it nobody trades yet, so an interrupted opening can be repeated. A market with a
 * limited life has no `about`.
 *
 * @throws {Error} the market has another layout.
 */
export const openMarket = async (
  redis: Connection,
  keys: MarketKeys,
  { users, items }: World,
  lifeMs = 0,
): Promise<"opened" | "was open"> => {
  const found = await redis.hget(keys.about, "layout");
  if (found === layout) return "was open";
  if (found !== null) throw new Error(`The shop in this Redis has layout ${found}, this program knows ${layout}`);

  const used = new Set<string>();
  const writes: Promise<unknown>[] = [];
  const put = (key: string, command: "HSET" | "SADD" | "ZADD", ...values: (string | number)[]): void => {
    writes.push(redis.call(command, key, ...values));
    used.add(key);
  };
  for (const { id, name, funds } of users) put(keys.user(id), "HSET", "name", name, "funds", funds);
  for (const [index, { id, title, category, owner, price }] of items.entries()) {
    put(keys.item(id), "HSET", "title", title, "category", category, "revision", 1);
    if (price === null) {
      put(keys.inventory(owner), "SADD", id);
      continue;
    }
    put(keys.listing(id), "HSET", "price", price, "seller", owner);
    put(keys.market, "ZADD", index + 1, id);
    put(keys.shelf(category), "ZADD", index + 1, id);
  }
  const funds = users.reduce((sum, user) => sum + user.funds, 0);
  put(keys.totals, "HSET", "money", funds, "items", items.length, "listings", items.length, "sales", 0);
  // All writes are in flight at once, so that the opening does not wait for thousands of round trips.
  await Promise.all(writes);
  if (lifeMs > 0) await Promise.all([...used].map((key) => redis.pexpire(key, lifeMs)));
  else await redis.hset(keys.about, "layout", layout, "users", users.length, "items", items.length);
  return "opened";
};
