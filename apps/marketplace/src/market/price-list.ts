// The price list: a guide price for each category. Readers and writers go through it line by line, so one that is read
// while it is re-priced would be half old, half new. A read/write lock keeps readers and writers apart.
import type { Connection } from "@kit/core";
import type { AcquireOptions, ReadWriteInspection, ReadWriteLock } from "@kit/lock/read-write";
import { type MarketKeys, priceListLock } from "../common/keys.js";
import { reprice } from "../scripts/index.js";
import { categories } from "../seed/categories.js";

const lifeMs = 10 * 60_000;
/** How far a price is from the middle of its category, at most. */
const widest = 0.15;

export interface PriceLine {
  readonly category: string;
  readonly name: string;
  readonly edition: number;
  readonly price: number;
}

type Category = (typeof categories)[number];

const middleOf = ({ pounds: [lowest, highest] }: Category): number => ((lowest + highest) / 2) * 100;

const lineOf = (category: Category, text: string | null | undefined): PriceLine => {
  const { id, name } = category;
  const [edition = 1, price = middleOf(category)] = text?.split(" ").map(Number) ?? [];
  return { category: id, name, edition, price };
};

const newPrice = (category: Category): number => {
  const factor = 1 + (Math.random() * 2 - 1) * widest;
  return Math.round((middleOf(category) * factor) / 100) * 100;
};

/** Awaited before each line. */
type Turn = () => Promise<unknown>;

export class PriceList {
  readonly #redis: Connection;
  readonly #lock: ReadWriteLock;
  readonly #key: string;

  constructor(redis: Connection, lock: ReadWriteLock, { prices }: MarketKeys) {
    this.#redis = redis;
    this.#lock = lock;
    this.#key = prices;
  }

  /** All lines at this instant, without the lock. */
  async lines(): Promise<PriceLine[]> {
    const found = await this.#redis.hgetall(this.#key);
    return categories.map((category) => lineOf(category, found[category.id]));
  }

  async inspect(): Promise<ReadWriteInspection> {
    return await this.#lock.inspect(priceListLock);
  }

  /** Reads line by line, beside other readers and beside no writer. */
  async read(options: AcquireOptions, turn: Turn): Promise<PriceLine[]> {
    const readAll = async (): Promise<PriceLine[]> => {
      const lines: PriceLine[] = [];
      for (const category of categories) {
        await turn();
        lines.push(lineOf(category, await this.#redis.hget(this.#key, category.id)));
      }
      return lines;
    };
    return await this.#lock.read.using(priceListLock, readAll, options);
  }

  /**
   * Writes a new edition line by line, beside no reader. Resolves with its number, and with the time for which the writer waited.
   *
   * @throws {Error} the lease was lost, and a later writer has begun: the list refuses older fencing tokens.
   */
  async reprice(options: AcquireOptions, turn: Turn): Promise<{ edition: number; waitedMs: number }> {
    const askedAt = performance.now();
    return await this.#lock.write.using(
      priceListLock,
      async ({ fencingToken, signal }) => {
        const waitedMs = performance.now() - askedAt;
        const edition = Math.max(...(await this.lines()).map((line) => line.edition)) + 1;
        for (const category of categories) {
          await turn();
          const line = { category: category.id, line: `${edition} ${newPrice(category)}` };
          const isWritten = await reprice.run(
            this.#redis,
            { prices: this.#key },
            { ...line, fencingToken, lifeMs },
            { signal },
          );
          if (!isWritten) throw new Error("A later price change has started");
        }
        return { edition, waitedMs };
      },
      options,
    );
  }
}
