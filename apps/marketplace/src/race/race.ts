// Fifty buyers want one item at the same moment. The buyers run in another process, with real sockets. A third process
// counts the result again.
import { keyspace } from "@kit/core";
import type { BuyerReply, BuyersTask } from "./buyers.js";
import { runChild } from "../common/child.js";
import type { Purchase } from "../market/market.js";
import type { Recount } from "./recount.js";
import { newId, type Session, type Sessions } from "../market/sessions.js";
import { type Backstage, castOf, lifeMs, openStage } from "./stage.js";

/** The kinds of race: without a guard, with one of three guards, and with one poor buyer. */
export const raceWays = ["none", "setnx", "optimistic", "lock", "poor"] as const;
export type RaceWay = (typeof raceWays)[number];

export const isRaceWay = (text: unknown): text is RaceWay => raceWays.some((way) => way === text);

const buyersCount = 50;
const raceLimitMs = 60_000;
// Without a lock the oversell depends on chance; if it does not happen, another round is run.
const mostRounds = 5;
const mostWaiting = 3;
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

export class Races {
  readonly #shop: Backstage;
  readonly #space: ReturnType<typeof keyspace>;
  readonly #running = new Map<string, RunningRace>();
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;
  /** The thing that is wanted, and the buyers: the same in each race, so that the ways to buy can be compared. */
  readonly #chance = Math.random();

  constructor(shop: Backstage) {
    this.#shop = shop;
    this.#space = keyspace("shop", shop.place.prefix);
  }

  running(id: string): RunningRace | undefined {
    return this.#running.get(id);
  }

  /** The result of a race; null once its ten minutes are over. */
  async result(id: string): Promise<RaceResult | null> {
    const text = await this.#shop.redis.get(this.#space.key(id, "result"));
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
        await this.#shop.redis.set(this.#space.key(result.id, "result"), JSON.stringify(result), "PX", lifeMs);
        return result;
      }
    }
  }

  async #round(way: RaceWay, origin: string, round: number): Promise<RaceResult> {
    const startedAt = performance.now();
    // Fifty buyers who can pay for one item, or one buyer who can pay for one of fifty items.
    const isPoor = way === "poor";
    const world = castOf(this.#shop.world, {
      buyers: isPoor ? 1 : buyersCount,
      things: isPoor ? buyersCount : 1,
      chance: this.#chance,
      funds: (price, buyer) => (isPoor ? price : price + 100 * (buyer + 1)),
    });
    const [, ...people] = world.users;
    const [person] = people;
    const [thing] = world.items;
    if (!person || !thing?.price) throw new Error("a race needs a buyer and an item with a price");
    const { title, price } = thing;
    const stage = await openStage(this.#shop, isPoor ? "lock" : way, world, ownerlessLockSeconds);
    try {
      const entrants = isPoor
        ? world.items.map((item) => ({ user: person.id, item: item.id, name: item.title }))
        : people.map(({ id, name }) => ({ user: id, item: thing.id, name }));
      const sessions = new Map<string, Session>();
      for (const { id } of people) sessions.set(id, await stage.sessions.open(id, lifeMs));
      const requests = entrants.map(() => newId());
      const task: BuyersTask = {
        origin,
        path: `/race/${stage.id}/buy`,
        buyers: entrants.map(({ user, item }, index) => {
          const { id = "", csrf = "" } = sessions.get(user) ?? {};
          const form = { item, price: String(price), revision: "1", request: requests[index] ?? "", csrf };
          return { cookie: `sid=${id}`, form };
        }),
      };
      const order = new Order();
      this.#running.set(stage.id, { sessions: stage.sessions, buy: order.watch(stage.buy) });
      const setupMs = performance.now() - startedAt;
      const replies = await runChild<BuyerReply[]>("buyers", task, raceLimitMs);
      this.#running.delete(stage.id);
      const recount = await stage.recount();

      const outcomes = replies.map(({ outcome }) => outcome);
      const refused: Record<string, number> = {};
      for (const outcome of outcomes) if (outcome !== "sold") refused[outcome] = (refused[outcome] ?? 0) + 1;
      return {
        ...{ id: stage.id, way, title, price, rounds: round },
        buyers: replies.map(({ outcome, ms }, index) => {
          const request = requests[index] ?? "";
          const [came, answered] = [order.came.get(request) ?? 0, order.answered.get(request) ?? 0];
          return { name: entrants[index]?.name ?? "", outcome, ms, came, answered };
        }),
        answered: replies.filter(({ status }) => status > 0).length,
        sold: outcomes.filter((outcome) => outcome === "sold").length,
        ...{ refused, recount, setupMs },
        raceMs: Math.max(...replies.map(({ ms }) => ms)),
      };
    } finally {
      this.#running.delete(stage.id);
      await stage.close();
    }
  }
}
