// Every key that the shop writes. All keys of a market share the hash tag `{<market>}`, so a sale is one script on a
// Cluster, too. The shop is the market `main`, which is permanent. Each race is a market of its own, which expires.
//
// | Part               | Type   | Content                                                      | Life                      |
// | ------------------ | ------ | ------------------------------------------------------------ | ------------------------- |
// | `about`            | hash   | layout, users, items; exists once the market is open         | permanent                 |
// | `totals`           | hash   | money and items at the opening; listings and sales since     | permanent                 |
// | `user:<user>`      | hash   | name, funds (pence)                                          | permanent                 |
// | `inventory:<user>` | set    | items the user owns and does not offer                       | permanent                 |
// | `item:<item>`      | hash   | title, category, revision, fence                             | permanent                 |
// | `listing:<item>`   | hash   | price (pence), seller; exists while the item is for sale     | permanent, until sold     |
// | `offers:<item>`    | hash   | buyer → price (pence) and revision of the item as the buyer saw it | 1 day after the last |
// | `market`           | zset   | listed items by listing number                               | permanent                 |
// | `shelf:<category>` | zset   | the same for one category                                    | permanent                 |
// | `ledger`           | stream | one entry per sale, the newest 10,000                        | permanent                 |
// | `receipt:<user>:<kind>:<item>:<revision>:<price>:<request>` | string | the first result of a request | 10 minutes      |
// | `session:<digest>` | hash   | user, csrf, endsAt, permit, notice                           | 12 h unused, 7 days at most |
// | `recent:<digest>`  | list   | the 25 items a session looked at last                        | that of the session       |
// | `views`            | zset   | views per item, the 2,000 most looked at                     | 7 days after the last     |
// | `result`           | string | the result of a race or of the last stocktake, as JSON       | 10 minutes                |
// | `orders`           | zset   | orders by time of sale, the newest 500                       | permanent                 |
// | `orders:<user>`    | zset   | the same of one buyer or seller, the newest 100              | 7 days after the last     |
// | `order:<order>`    | hash   | item, title, buyer, seller, price, at; placed; done:<job>    | 7 days                    |
// | `steps:<order>`    | list   | the events of its jobs, one JSON text each                   | 7 days                    |
// | `dispatched`       | string | the ledger entry up to which every sale has its order, or is in `undispatched` | permanent |
// | `undispatched`     | set    | the ledger entries of sales whose order could not be placed yet | permanent              |
// | `present:<user>`   | string | a person plays this user now, so no program answers for them | 30 minutes after a visit  |
// | `prices`           | hash   | the price list: category → edition and price (pence); fence  | 10 minutes after the last re-pricing |
//
// In a market with a limited life, such as a race, the permanent keys live that long.
import { keyspace } from "@kit/core";

/**
 * The request of a receipt. All of it is part of the key: visitors choose the request id, and one that was used for
 * another item, price or kind must not count as this request.
 */
interface Request {
  readonly kind: "buy" | "offer" | "list";
  readonly item: string;
  readonly revision: number;
  readonly price: number;
  readonly request: string;
}

/** The names of the keys of one market. */
export interface MarketKeys {
  readonly about: string;
  readonly totals: string;
  readonly market: string;
  readonly ledger: string;
  readonly views: string;
  readonly result: string;
  readonly orders: string;
  readonly dispatched: string;
  readonly undispatched: string;
  readonly prices: string;
  user(user: string): string;
  inventory(user: string): string;
  item(item: string): string;
  listing(item: string): string;
  offers(item: string): string;
  shelf(category: string): string;
  receipt(user: string, request: Request): string;
  session(digest: string): string;
  recent(digest: string): string;
  ordersOf(user: string): string;
  order(order: string): string;
  steps(order: string): string;
  present(user: string): string;
}

/** The names of the keys of one market of the shop whose keys begin with `prefix`. */
export const marketKeys = (market: string, prefix = "kit"): MarketKeys => {
  const space = keyspace("shop", prefix);
  const part = (name: string): string => space.key(market, name);
  return {
    about: part("about"),
    totals: part("totals"),
    market: part("market"),
    ledger: part("ledger"),
    views: part("views"),
    result: part("result"),
    orders: part("orders"),
    dispatched: part("dispatched"),
    undispatched: part("undispatched"),
    prices: part("prices"),
    user: (user) => part(`user:${user}`),
    inventory: (user) => part(`inventory:${user}`),
    item: (item) => part(`item:${item}`),
    listing: (item) => part(`listing:${item}`),
    offers: (item) => part(`offers:${item}`),
    shelf: (category) => part(`shelf:${category}`),
    receipt: (user, { kind, item, revision, price, request }) =>
      part(`receipt:${user}:${kind}:${item}:${revision}:${price}:${request}`),
    session: (digest) => part(`session:${digest}`),
    recent: (digest) => part(`recent:${digest}`),
    ordersOf: (user) => part(`orders:${user}`),
    order: (order) => part(`order:${order}`),
    steps: (order) => part(`steps:${order}`),
    present: (user) => part(`present:${user}`),
  };
};

// Ids arrive in URLs and forms. A colon could make the keys of two receipts equal. Our own ids are never longer.
const idForm = /^[A-Za-z0-9._-]{1,64}$/;

export const isId = (text: unknown): text is string => typeof text === "string" && idForm.test(text);

/** The name of the lock of one item. */
export const lockName = (market: string, item: string): string => `shop.${market}.${item}`;

/**
 * The name of the lock of a buyer or seller. It sorts behind every item's: a sale that waits for an item holds nobody's
 * lock meanwhile.
 */
export const personLockName = (market: string, user: string): string => `shop.${market}:${user}`;

/** The name of the read/write lock of the price list. */
export const priceListLock = "shop.prices";
