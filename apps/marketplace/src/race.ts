// Fifty buyers want one item at the same moment. Each race has a small market under a hash tag of its own, which
// expires after ten minutes. The buyers run in another process, with real sockets. A third process counts the result
// again.
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
import type { BuyerReply, BuyersTask } from "./buyers.js";
import { runChild } from "./child.js";
import { marketKeys } from "./keys.js";
import { Market, type Purchase } from "./market.js";
import type { Place } from "./place.js";
import type { RaceWay } from "./race-ways.js";
import type { Recount, RecountTask } from "./recount.js";
import { openMarket, type World } from "./seed/index.js";
import { newId, Sessions } from "./sessions.js";

const buyersCount = 50;
const lifeMs = 10 * 60_000;
const raceLimitMs = 60_000;
// Without a lock the oversell depends on chance; if it does not happen, another round is run.
const mostRounds = 5;
const mostWaiting = 3;
// The textbook's lock has a time limit in whole seconds.
const ownerlessLockSeconds = 10;

interface RaceBuyer {
  readonly name: string;
  readonly outcome: string;
  readonly ms: number;
  /** The positions of the request in order of arrival and in order of replies, from 1; 0 if there is none. */
  readonly came: number;
  readonly answered: number;
}

/** Records the order in which requests arrive and are answered, by request id. */
class Order {
  readonly came = new Map<string, number>();
  readonly answered = new Map<string, number>();

  watch(buy: RunningRace["buy"]): RunningRace["buy"] {
    return async (purchase) => {
      this.came.set(purchase.request, this.came.size + 1);
      const outcome = await buy(purchase);
      this.answered.set(purchase.request, this.answered.size + 1);
      return outcome;
    };
  }
}

export interface RaceResult {
  readonly id: string;
  readonly way: RaceWay;
  readonly title: string;
  readonly price: number;
  /** Rounds that were run, each on a new market. All figures are of the last round. */
  readonly rounds: number;
  readonly buyers: readonly RaceBuyer[];
  readonly answered: number;
  /** Buyers whose request was answered with `sold`. */
  readonly sold: number;
  readonly refused: Readonly<Record<string, number>>;
  readonly recount: Recount;
  readonly setupMs: number;
  readonly raceMs: number;
}

/** Three races are running or waiting already. */
export class RaceQueueFullError extends Error {
  override name = "RaceQueueFullError";
}

/** A race that accepts purchases now. */
export interface RunningRace {
  readonly sessions: Sessions;
  readonly buy: (purchase: Purchase) => Promise<{ readonly kind: string }>;
}

interface Deps {
  readonly redis: Connection;
  readonly lock: Lock;
  readonly place: Place;
  readonly world: World;
}

/** The textbook's outcomes, and the shop's names for them. */
const classicOutcome: Readonly<Record<PurchaseResult["outcome"], string>> = {
  bought: "sold",
  notForSale: "not-for-sale",
  priceChanged: "price-changed",
  cannotAfford: "short",
  timedOut: "busy",
};

export class Races {
  readonly #deps: Deps;
  readonly #space: ReturnType<typeof keyspace>;
  readonly #running = new Map<string, RunningRace>();
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#space = keyspace("shop", deps.place.prefix);
  }

  running(id: string): RunningRace | undefined {
    return this.#running.get(id);
  }

  /** The result of a race; null once its ten minutes are over. */
  async result(id: string): Promise<RaceResult | null> {
    const text = await this.#deps.redis.get(this.#space.key(id, "result"));
    return text === null ? null : (JSON.parse(text) as RaceResult);
  }

  /**
   * Runs a race against the shop at `origin`, after those that wait already.
   *
   * @throws {RaceQueueFullError} three races are running or waiting already.
   */
  async run(way: RaceWay, origin: string): Promise<RaceResult> {
    if (this.#waiting >= mostWaiting) throw new RaceQueueFullError();
    this.#waiting++;
    const race = this.#last.then(() => this.#rounds(way, origin)).finally(() => this.#waiting--);
    this.#last = race.catch(() => undefined);
    return await race;
  }

  async #rounds(way: RaceWay, origin: string): Promise<RaceResult> {
    for (let round = 1; ; round++) {
      const result = await this.#round(way, origin, round);
      if (way !== "none" || result.sold > 1 || round === mostRounds) {
        const { redis } = this.#deps;
        await redis.set(this.#space.key(result.id, "result"), JSON.stringify(result), "PX", lifeMs);
        return result;
      }
    }
  }

  async #round(way: RaceWay, origin: string, round: number): Promise<RaceResult> {
    const startedAt = performance.now();
    const id = `race-${randomBytes(6).toString("hex")}`;
    const copy = this.#copy(way);
    const [first] = copy.items;
    if (!first?.price) throw new Error("a race needs an item with a price");
    const stage =
      way === "none" || way === "setnx" ? await this.#classic(id, way, copy) : await this.#ours(id, way, copy);
    try {
      const buyers = copy.users.slice(1);
      const entrants =
        way === "poor"
          ? copy.items.map((item) => ({ user: buyers[0] ?? copy.users[0], item: item.id, name: item.title }))
          : buyers.map((user) => ({ user, item: first.id, name: user.name }));
      const sessions = new Map<string, Awaited<ReturnType<Sessions["open"]>>>();
      for (const { user } of entrants)
        if (user && !sessions.has(user.id)) sessions.set(user.id, await stage.race.sessions.open(user.id, lifeMs));

      const path = `/race/${id}/buy`;
      const task: BuyersTask = {
        origin,
        path,
        buyers: entrants.map(({ user, item }) => {
          const session = sessions.get(user?.id ?? "");
          const form = { item, price: String(first.price), revision: "1", request: newId(), csrf: session?.csrf ?? "" };
          return { cookie: `sid=${session?.id ?? ""}`, form };
        }),
      };
      const order = new Order();
      this.#running.set(id, { ...stage.race, buy: order.watch(stage.race.buy) });
      const setupMs = performance.now() - startedAt;
      const replies = await runChild<BuyerReply[]>("buyers", task, raceLimitMs);
      this.#running.delete(id);
      const recount = await runChild<Recount>("recount", stage.recount, raceLimitMs);

      const told = replies.map(({ outcome }) => outcome);
      const refused: Record<string, number> = {};
      for (const outcome of told) if (outcome !== "sold") refused[outcome] = (refused[outcome] ?? 0) + 1;
      return {
        id,
        way,
        title: first.title,
        price: first.price,
        rounds: round,
        buyers: replies.map(({ outcome, ms }, index) => {
          const request = task.buyers[index]?.form["request"] ?? "";
          const [came, answered] = [order.came.get(request) ?? 0, order.answered.get(request) ?? 0];
          return { name: entrants[index]?.name ?? "", outcome, ms, came, answered };
        }),
        answered: replies.filter(({ status }) => status > 0).length,
        sold: told.filter((outcome) => outcome === "sold").length,
        refused,
        recount,
        setupMs,
        raceMs: Math.max(...replies.map(({ ms }) => ms)),
      };
    } finally {
      this.#running.delete(id);
      await stage.close();
    }
  }

  /** One seller, one item and fifty buyers who can pay; or one buyer who can pay for one of fifty items. */
  #copy(way: RaceWay): World {
    const { users, items } = this.#deps.world;
    const listed = items.filter(({ price }) => price !== null);
    const start = Math.floor(Math.random() * (listed.length - buyersCount));
    const chosen = listed.slice(start, start + (way === "poor" ? buyersCount : 1));
    const price = chosen[0]?.price ?? 0;
    const people = users.filter(({ isSeller }) => !isSeller).slice(0, way === "poor" ? 1 : buyersCount);
    const [seller] = users;
    if (!seller) throw new Error("a race needs a seller");
    return {
      users: [
        { ...seller, id: "u1", funds: 0 },
        ...people.map((user, index) => ({
          ...user,
          id: `u${index + 2}`,
          funds: way === "poor" ? price : price + 100 * (index + 1),
        })),
      ],
      items: chosen.map((item, index) => ({ ...item, id: `i${index + 1}`, owner: "u1", price })),
    };
  }

  async #ours(id: string, way: RaceWay, copy: World): Promise<Stage> {
    const { redis, lock, place } = this.#deps;
    const market = new Market(redis, lock, id, lifeMs, place.prefix);
    await openMarket(redis, market.keys, copy, lifeMs);
    return {
      race: {
        sessions: new Sessions(redis, market.keys),
        buy: (purchase) =>
          market.buy(way === "optimistic" ? "optimistic" : "lock", purchase, `buyer ${purchase.buyer}`),
      },
      recount: this.#recountTask(id, copy),
      close: () => Promise.resolve(),
    };
  }

  /** The textbook's layout and code on a plain client. Only the time to live of the keys is added. */
  async #classic(id: string, way: "none" | "setnx", copy: World): Promise<Stage> {
    const { redis, place } = this.#deps;
    const prefix = this.#space.key(id, "classic:");
    const keys = classicKeys(prefix);
    const sellerId = copy.users[0]?.id ?? "";
    // The textbook's code expects the client of a single server. Its keys share one slot, so a Cluster's client works.
    const plain = (await connect(place.url)) as unknown as Redis;

    const opening = plain.multi();
    for (const { id: user, name, funds } of copy.users) opening.hset(keys.user(user), { name, funds });
    for (const { id: item, price } of copy.items)
      opening.zadd(keys.market, price ?? 0, keys.marketMember(item, sellerId));
    const age = (batch: typeof opening): typeof opening => {
      for (const { id: user } of copy.users)
        batch.pexpire(keys.user(user), lifeMs).pexpire(keys.inventory(user), lifeMs);
      return batch.pexpire(keys.market, lifeMs);
    };
    await age(opening).exec();
    const buy = async ({ buyer, item, price }: Purchase): Promise<{ kind: string }> => {
      const { outcome } =
        way === "none"
          ? await purchaseItemWithoutLock(plain, buyer, item, sellerId, price, { prefix })
          : await purchaseItemWithOwnerlessLock(plain, buyer, item, sellerId, price, {
              prefix,
              lockTimeoutSeconds: ownerlessLockSeconds,
            });
      return { kind: classicOutcome[outcome] };
    };
    return {
      race: { sessions: new Sessions(redis, marketKeys(id, place.prefix)), buy },
      recount: { ...this.#recountTask(id, copy), classicPrefix: prefix },
      close: async () => {
        // The inventories were created by the first purchase, so they have no time to live yet.
        await age(plain.multi()).exec();
        await plain.quit();
      },
    };
  }

  #recountTask(id: string, { users, items }: World): RecountTask {
    return {
      ...this.#deps.place,
      market: id,
      users: users.map((user) => user.id),
      items: items.map((item) => item.id),
      openingMoney: users.reduce((sum, { funds }) => sum + funds, 0),
      seller: "u1",
    };
  }
}

interface Stage {
  readonly race: RunningRace;
  readonly recount: RecountTask;
  readonly close: () => Promise<void>;
}
