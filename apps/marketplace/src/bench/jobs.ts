// The work of the client processes in the market cases.
import { setTimeout as sleep } from "node:timers/promises";
import { type OpenJobs, sentOf } from "@tooling/bench";
import { now } from "@tooling/lab";
import { implementations } from "./implementations.js";

export interface OpenTask {
  readonly market: string;
  readonly buyers: number;
  readonly items: number;
}

export interface BuyTask {
  readonly market: string;
  /** The buyers of this process, and how many buyers there are in all. */
  readonly buyers: readonly number[];
  readonly ofBuyers: number;
  /** Items that each buyer buys. */
  readonly turns: number;
  readonly startAt: number;
}

export interface BuyResult {
  /** Milliseconds from the call to the sale, per sale. */
  readonly waits: readonly number[];
  readonly doneAt: number;
  readonly retries: number;
}

export const jobs: OpenJobs = async (opening) => {
  const stall = await implementations.open(opening);
  const buyers = new Map<number, ReturnType<typeof stall.buyer>>();
  const buyerOf = (index: number): ReturnType<typeof stall.buyer> => {
    const buyer = buyers.get(index) ?? stall.buyer(index);
    buyers.set(index, buyer);
    return buyer;
  };
  const tries = (): number => (stall.tryCommand === undefined ? 0 : sentOf(stall.tryCommand));

  return {
    open: ({ market, buyers: count, items }: OpenTask) => stall.open(market, count, items),
    buy: async ({ market, buyers: indexes, ofBuyers, turns, startAt }: BuyTask): Promise<BuyResult> => {
      const ready = indexes.map((index) => ({ index, buy: buyerOf(index) }));
      await sleep(Math.max(0, startAt - now()));
      const triesBefore = tries();
      const waits: number[] = [];
      const shop = async (index: number, buy: ReturnType<typeof stall.buyer>): Promise<void> => {
        for (let turn = 0; turn < turns; turn++) {
          const wantedAt = now();
          await buy(market, turn * ofBuyers + index);
          waits.push(now() - wantedAt);
        }
      };
      await Promise.all(ready.map(({ index, buy }) => shop(index, buy)));
      const retries = stall.tryCommand === undefined ? 0 : tries() - triesBefore - waits.length;
      return { waits, doneAt: now(), retries };
    },
  };
};
