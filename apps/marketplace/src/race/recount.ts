// Counts a market again, in a process and on a connection of its own. It trusts only the data in Redis.
import { connect, type Connection } from "@kit/core";
import { classicKeys } from "@tooling/classic";
import { serveChild, patienceMs } from "../common/child.js";
import { marketKeys } from "../common/keys.js";

export interface RecountTask {
  readonly url: string;
  readonly prefix: string;
  readonly market: string;
  readonly users: readonly string[];
  readonly items: readonly string[];
  /** Given for a market in the layout of the textbook: the prefix of its keys. */
  readonly classicPrefix?: string;
  readonly openingMoney: number;
  /** The seller, whose own items do not count as bought. */
  readonly seller: string | null;
}

export interface Recount {
  readonly money: number;
  readonly openingMoney: number;
  readonly items: number;
  /** Items without an owner. */
  readonly itemsLost: number;
  /** Items that several users own, or that are owned and for sale at once. */
  readonly itemsTwice: number;
  readonly inDebt: number;
  /** Items in the inventories of buyers; an item in two of them counts twice. */
  readonly owned: number;
  /** Entries of the ledger; null in the layout of the textbook, which has none. */
  readonly sales: number | null;
  /** Contradictions within the market's own structures. */
  readonly disagreements: readonly string[];
}

const places = (found: Map<string, number>, items: readonly string[]): void => {
  for (const item of items) found.set(item, (found.get(item) ?? 0) + 1);
};

const summary = (
  { items, openingMoney, seller }: RecountTask,
  funds: readonly number[],
  inventories: readonly (readonly [user: string, items: readonly string[]])[],
  listed: readonly string[],
): Omit<Recount, "sales" | "disagreements"> => {
  const found = new Map<string, number>();
  for (const [, owned] of inventories) places(found, owned);
  places(found, listed);
  return {
    money: funds.reduce((sum, each) => sum + each, 0),
    openingMoney,
    items: items.length,
    itemsLost: items.filter((item) => !found.has(item)).length,
    itemsTwice: [...found.values()].filter((count) => count > 1).length,
    inDebt: funds.filter((each) => each < 0).length,
    owned: inventories.reduce((sum, [user, owned]) => sum + (user === seller ? 0 : owned.length), 0),
  };
};

const recountClassic = async (redis: Connection, task: RecountTask, prefix: string): Promise<Recount> => {
  const keys = classicKeys(prefix);
  const funds = await Promise.all(task.users.map((user) => redis.hget(keys.user(user), "funds")));
  const inventories = await Promise.all(
    task.users.map(async (user) => [user, await redis.smembers(keys.inventory(user))] as const),
  );
  const members = await redis.zrange(keys.market, "0", "-1");
  // A member is `<item>.<seller>`. The ids of a race contain no dots.
  const listed = members.map((member) => member.split(".")[0] ?? member);
  return { ...summary(task, funds.map(Number), inventories, listed), sales: null, disagreements: [] };
};

const recountOurs = async (redis: Connection, task: RecountTask): Promise<Recount> => {
  const keys = marketKeys(task.market, task.prefix);
  const funds = await Promise.all(task.users.map((user) => redis.hget(keys.user(user), "funds")));
  const inventories = await Promise.all(
    task.users.map(async (user) => [user, await redis.smembers(keys.inventory(user))] as const),
  );
  const listed = await redis.zrange(keys.market, "0", "-1");
  const offers = await Promise.all(
    task.items.map(async (item) => {
      const [category, price] = await Promise.all([
        redis.hget(keys.item(item), "category"),
        redis.hget(keys.listing(item), "price"),
      ]);
      const shelved = await redis.zscore(keys.shelf(category ?? ""), item);
      return { item, offered: price !== null, shelved: shelved !== null };
    }),
  );
  const onMarket = new Set(listed);
  const disagreements = offers
    .filter(({ item, offered, shelved }) => offered !== onMarket.has(item) || shelved !== onMarket.has(item))
    .map(({ item }) => `${item}: listing, market and shelf differ`);

  const [entries, said] = await Promise.all([redis.xrange(keys.ledger, "-", "+"), redis.hget(keys.totals, "sales")]);
  const requests = new Set(entries.map(([, fields]) => `${fields[fields.indexOf("buyer") + 1]} ${fields[1]}`));
  if (requests.size !== entries.length) disagreements.push("ledger: one request was sold twice");
  // The ledger is trimmed to about the newest 10,000 sales.
  if (entries.length !== Number(said) && entries.length < 10_000) disagreements.push("ledger: sales are missing");
  return { ...summary(task, funds.map(Number), inventories, listed), sales: entries.length, disagreements };
};

serveChild(async (task: RecountTask): Promise<Recount> => {
  await using redis = await connect({ url: task.url, deadlineMs: patienceMs });
  const { classicPrefix } = task;
  return classicPrefix === undefined
    ? await recountOurs(redis, task)
    : await recountClassic(redis, task, classicPrefix);
});
