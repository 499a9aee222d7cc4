// Everything the shop consists of, put together and taken apart again.
import { connect, type Connection } from "@kit/core";
import { createLock, type Lock } from "@kit/lock";
import { Auditor } from "./auditor.js";
import { Live } from "./live.js";
import { Market } from "./market.js";
import { Races } from "./race.js";
import { openMarket, world, type World } from "./seed/index.js";
import { Sessions } from "./sessions.js";

/** One seed, so that everybody's shop opens with the same people and things. */
const seed = 1_912;

// Above core's own deadline, so that a command of ours on a silent server ends soon after the scripts do.
const commandTimeoutMs = 3_000;
const mostHolds = 20;
const holdMs = 8_000;

export interface ShopOptions {
  readonly redisUrl: string;
  /** The server belongs to somebody else: nothing heavy is offered. */
  readonly isGuestServer: boolean;
}

export class Shop {
  readonly redis: Connection;
  readonly redisUrl: string;
  readonly isGuestServer: boolean;
  readonly world: World;
  readonly market: Market;
  readonly sessions: Sessions;
  readonly auditor: Auditor;
  readonly live: Live;
  readonly races: Races;
  readonly #lock: Lock;
  readonly #holds = new Set<string>();
  readonly #closing = new AbortController();

  private constructor(redis: Connection, lock: Lock, { redisUrl, isGuestServer }: ShopOptions) {
    this.redis = redis;
    this.redisUrl = redisUrl;
    this.isGuestServer = isGuestServer;
    this.world = world(seed);
    this.market = new Market(redis, lock, "main");
    this.sessions = new Sessions(redis, this.market.keys);
    this.auditor = new Auditor(
      this.market,
      this.world.users.map(({ id }) => id),
    );
    this.live = new Live(lock, this.market, this.auditor);
    this.races = new Races({ redis, lock, redisUrl, world: this.world });
    this.#lock = lock;
  }

  /** Connects, and fills the shelves unless they are full already. */
  static async open(options: ShopOptions): Promise<Shop> {
    const redis = await connect({ url: options.redisUrl, options: { commandTimeout: commandTimeoutMs } });
    const lock = createLock(redis);
    const shop = new Shop(redis, lock, options);
    try {
      // Two programs that open the same shop at once would count one opening twice.
      await lock.using("shop.main.opening", () => openMarket(redis, shop.market.keys, shop.world), { waitMs: 10_000 });
      return shop;
    } catch (error) {
      await shop.close();
      throw error;
    }
  }

  /**
   * Holds the lock of an item for a few seconds on somebody's behalf, for others to see. Resolves once it is held.
   *
   * @returns false: this person holds one already, or too many do, or the line was too long.
   */
  async hold(item: string, user: string, holder: string): Promise<boolean> {
    if (this.#holds.has(user) || this.#holds.size >= mostHolds) return false;
    this.#holds.add(user);
    return await new Promise((resolve) => {
      this.market
        .holding(item, holder, async ({ signal }) => {
          resolve(true);
          await pauseUntil(holdMs, signal, this.#closing.signal);
        })
        .catch(() => resolve(false))
        .finally(() => this.#holds.delete(user));
    });
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.live.close();
    await this.#lock.close({ timeoutMs: 1_000 }).catch(() => undefined);
    await this.redis.close();
  }
}

/** Resolves after `ms`, or as soon as one of the signals aborts. */
const pauseUntil = (ms: number, ...signals: readonly AbortSignal[]): Promise<void> =>
  new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      for (const signal of signals) signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    for (const signal of signals) {
      signal.addEventListener("abort", done);
      if (signal.aborted) done();
    }
  });
