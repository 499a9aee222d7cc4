// Creates every object of the web process, and closes them all.
import { setTimeout as delay } from "node:timers/promises";
import type { Chat } from "@kit/chat";
import { connect, type Connection } from "@kit/core";
import { createFlags, type Flags } from "@kit/core/config";
import { createGeoIp, type GeoIp, importGeoIp } from "@kit/geoip";
import { createLock, type Lock } from "@kit/lock";
import { createReadWriteLock, type ReadWriteLock } from "@kit/lock/read-write";
import { createReceiver, type Receiver } from "@kit/logship";
import type { Semaphore } from "@kit/semaphore";
import { Accounts } from "../market/accounts.js";
import { isAway } from "../common/away.js";
import { Auditor } from "../market/auditor.js";
import { HeldLocks } from "../market/held-locks.js";
import { Market } from "../market/market.js";
import { PriceList } from "../market/price-list.js";
import { Offers } from "../orders/offers.js";
import { Orders, support } from "../orders/orders.js";
import type { Place } from "../common/place.js";
import { Races } from "../race/race.js";
import { Repricing } from "../race/repricing.js";
import { RecentLog } from "./recent-log.js";
import { Search } from "../market/search.js";
import { seedChats } from "../seed/chats.js";
import { countryBlocks } from "../seed/countries.js";
import { seedHistory } from "../seed/history.js";
import { openMarket, world, type World } from "../seed/index.js";
import { personas } from "../seed/personas.js";
import { Sessions } from "../market/sessions.js";
import {
  geoDatabase,
  logChannel,
  ordersQueue,
  type OrdersQueue,
  payments,
  quiet,
  shopChat,
  type ShopStats,
  shopStats,
} from "../common/tools.js";

/** A fixed seed: every shop opens with the same people and things. */
const seed = 1_912;

// For commands that the shop sends itself. Longer than the deadline of core (2 s), which bounds the scripts.
const commandTimeoutMs = 3_000;
const ownServerMs = 20_000;
const guestServerMs = 5_000;
const openingMs = 120_000;
const mostHolds = 20;
const priceReaders = 6;
const holdMs = 8_000;

export interface ShopOptions extends Place {
  /** The server belongs to somebody else (`--redis`), so faults, races and measurements are switched off. */
  readonly isGuestServer: boolean;
  /** The server has replicas, so a sale can wait for a copy. */
  readonly hasReplicas: boolean;
  /** Receives the progress while the shop is opened. */
  readonly onProgress?: (text: string) => void;
}

export class Shop {
  readonly redis: Connection;
  readonly place: Place;
  readonly isGuestServer: boolean;
  readonly hasReplicas: boolean;
  readonly world: World;
  readonly personas: ReadonlySet<string>;
  readonly market: Market;
  readonly sessions: Sessions;
  readonly accounts: Accounts;
  readonly auditor: Auditor;
  readonly races: Races;
  readonly lock: Lock;
  readonly locks: HeldLocks;
  readonly priceList: PriceList;
  readonly repricing: Repricing;
  readonly queue: OrdersQueue;
  readonly payments: Semaphore;
  readonly chat: Chat<string>;
  readonly orders: Orders;
  readonly offers: Offers;
  readonly search: Search;
  readonly stats: ShopStats;
  readonly geo: GeoIp;
  readonly countries: Receiver;
  readonly flags: Flags<"maintenance">;
  readonly recentLog: RecentLog;
  /** True if this program seeded the market, false if it found an open one. */
  isNew = false;
  readonly #names: ReadonlyMap<string, string>;
  #hasHistory = false;
  readonly #readWriteLock: ReadWriteLock;
  readonly #holds = new Set<string>();
  readonly #closing = new AbortController();

  private constructor(redis: Connection, { url, prefix, isGuestServer, hasReplicas }: ShopOptions) {
    this.redis = redis;
    this.place = { url, prefix };
    this.isGuestServer = isGuestServer;
    this.hasReplicas = hasReplicas;
    this.world = world(seed);
    this.#names = new Map(this.world.users.map(({ id, name }) => [id, name]));
    this.personas = new Set(personas(this.world).map(({ id }) => id));
    this.lock = createLock(redis, { prefix });
    this.locks = new HeldLocks(this.lock);
    this.market = new Market(redis, this.lock, "main", 0, prefix);
    const { keys } = this.market;
    this.sessions = new Sessions(redis, keys);
    this.accounts = new Accounts(redis, keys, this.sessions, prefix);
    this.auditor = new Auditor(
      this.market,
      this.world.users.map(({ id }) => id),
    );
    this.#readWriteLock = createReadWriteLock(redis, { prefix });
    this.priceList = new PriceList(redis, this.#readWriteLock, keys);
    const buyers = this.world.users.filter(({ isSeller }) => !isSeller);
    this.repricing = new Repricing(
      this.priceList,
      buyers.slice(0, priceReaders).map(({ name }) => name),
    );
    this.races = new Races({ redis, lock: this.lock, place: this.place, world: this.world });
    this.queue = ordersQueue(redis, prefix);
    this.payments = payments(redis, prefix);
    this.chat = shopChat(redis, prefix);
    this.stats = shopStats(redis, prefix);
    this.orders = new Orders({ redis, keys, queue: this.queue, chat: this.chat, sales: this.stats.sales });
    this.offers = new Offers({
      redis,
      keys,
      market: this.market,
      orders: this.orders,
      chat: this.chat,
      queue: this.queue,
    });
    this.search = new Search(redis, prefix, this.world, this.personas);
    this.geo = createGeoIp(redis, geoDatabase, { prefix });
    // Only for inspection: the consumers run in processes of their own.
    this.countries = createReceiver(redis, logChannel, { prefix, consumer: "countries", isolate: false });
    this.flags = createFlags(redis, { maintenance: { whenUnknown: false } }, { prefix });
    this.recentLog = new RecentLog(redis, prefix);
    // These events carry nothing new: in an outage calls reject, and background work is retried.
    quiet(
      this.lock,
      this.#readWriteLock,
      this.queue,
      this.payments,
      this.chat,
      this.stats.stats,
      this.geo,
      this.countries,
      this.flags,
    );
  }

  /** Connects, and seeds the market unless it is open already. */
  static async open(options: ShopOptions): Promise<Shop> {
    const { url, onProgress = () => undefined } = options;
    const redis = await connect({
      ...{ url, connectionName: "bazaar web", options: { commandTimeout: commandTimeoutMs } },
      // Our own server is running, so it gets more time: on a busy machine its first reply may be slow.
      deadlineMs: options.isGuestServer ? guestServerMs : ownServerMs,
    });
    const shop = new Shop(redis, options);
    try {
      await shop.#open(onProgress);
      await shop.flags.ready();
      await shop.recentLog.open(url);
      return shop;
    } catch (error) {
      await shop.close();
      throw error;
    }
  }

  async #open(onProgress: (text: string) => void): Promise<void> {
    const until = performance.now() + openingMs;
    for (;;)
      try {
        // Without the lock, two programs that open the same shop at once would both add the history to the counters.
        return await this.lock.using("shop.main.opening", () => this.#fill(onProgress), { waitMs: 30_000 });
      } catch (error) {
        // On a busy machine a command may time out. Seeding can be repeated.
        if (!isAway(error)) throw error;
        if (performance.now() > until) {
          const cause = error instanceof Error ? error.message : String(error);
          throw new Error(`Redis is too slow: the shop did not open within ${openingMs / 1_000} s: ${cause}`, {
            cause: error,
          });
        }
        await delay(100);
      }
  }

  async #fill(onProgress: (text: string) => void): Promise<void> {
    const { users, items } = this.world;
    // A second attempt finds the market open. It must not reset `isNew`.
    if ((await openMarket(this.redis, this.market.keys, this.world)) === "opened") this.isNew = true;
    onProgress(`${items.length} items and ${users.length} people are stored`);
    await this.search.open();
    onProgress("search index is built");
    const known = await this.geo.info().catch(() => null);
    if (!known)
      await importGeoIp(this.redis, geoDatabase, countryBlocks(), {
        prefix: this.place.prefix,
        attribution: "synthetic geography: reserved addresses with invented countries",
      });
    if (this.isNew && !this.#hasHistory) {
      // Set before the write: after a failure, missing history is better than history counted twice.
      this.#hasHistory = true;
      await seedHistory(this.stats, Date.now());
      onProgress("90 days of sales are counted");
    }
  }

  /** The name of a person, or the id itself if it is unknown. */
  nameOf(user: string): string {
    return user === support ? "Support" : (this.#names.get(user) ?? user);
  }

  /** Adds old chats and one failing job to a new shop. Its pages are already served meanwhile. */
  async furnish(): Promise<void> {
    if (!this.isNew) return;
    await seedChats(this.chat, this.world, [...this.personas], (one, other) => this.search.wrote(one, other));
    await this.queue.add("print", { sheet: "catalogue" }, { id: "catalogue" });
  }

  /**
   * Holds the lock of an item for 8 s on a visitor's behalf, so that others can watch. Resolves when the lock is held.
   *
   * @returns false if this person holds a lock already, if too many are held, or if the lock was not free in time.
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
    this.repricing.close();
    const short = { timeoutMs: 500 };
    await Promise.allSettled([
      this.lock.close(short),
      this.#readWriteLock.close(short),
      this.accounts.close(),
      this.queue.close(short),
      this.payments.close(short),
      this.chat.close(short),
      this.search.close(),
      this.stats.stats.close(short),
      this.geo.close(),
      this.countries.close(short),
      this.flags.close(),
      this.recentLog.close(),
    ]);
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
