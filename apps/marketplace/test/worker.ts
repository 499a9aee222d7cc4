// A process of its own for the tests: a client of one market, as another web server would be.
import { connect } from "@kit/core";
import { createLock } from "@kit/lock";
import { Market, type Way } from "../src/market/market.js";
import { random } from "../src/seed/random.js";

// Several processes start at once, and the machine may be a busy one.
const patienceMs = 20_000;

export type WorkerTask =
  | {
      /** Buys and lists at random, by both ways. */
      readonly kind: "trade";
      readonly url: string;
      readonly market: string;
      readonly seed: number;
      readonly writes: number;
      readonly users: readonly string[];
      readonly items: readonly string[];
    }
  | {
      /** Says `{ token }` once it holds the lock of the item; at the next message it writes by that token. */
      readonly kind: "late";
      readonly url: string;
      readonly market: string;
      readonly item: string;
      readonly buyer: string;
      readonly leaseMs: number;
      readonly price: number;
    };

/** The outcomes that a trader got, and each sale that it was told of. */
export interface TradeReport {
  readonly outcomes: Readonly<Record<string, number>>;
  readonly sales: readonly {
    readonly request: string;
    readonly buyer: string;
    readonly item: string;
    readonly price: number;
  }[];
}

const answer = (message: object): void => void process.send?.(message);

const trade = async (task: Extract<WorkerTask, { kind: "trade" }>): Promise<TradeReport> => {
  await using redis = await connect({ url: task.url, deadlineMs: patienceMs });
  const lock = createLock(redis);
  const market = new Market(redis, lock, task.market);
  const chance = random(task.seed);
  const users = task.users as [string, ...string[]];
  const items = task.items as [string, ...string[]];
  const outcomes: Record<string, number> = {};
  const sales: { request: string; buyer: string; item: string; price: number }[] = [];
  const note = (what: string, kind: string): void => {
    outcomes[`${what} ${kind}`] = (outcomes[`${what} ${kind}`] ?? 0) + 1;
  };
  let count = 0;
  const one = async (): Promise<void> => {
    const item = await market.item(chance.pick(items));
    if (!item) throw new Error("an item is gone");
    const user = chance.pick(users);
    const way: Way = chance.next() < 0.5 ? "lock" : "optimistic";
    const request = `${process.pid}-${++count}`;
    const { revision } = item;
    if (item.listing) {
      note("tried", way);
      // Some saw a price that is not asked any more.
      const price = item.listing.price + (chance.next() < 0.1 ? 1 : 0);
      const purchase = { item: item.id, buyer: user, price, revision, request };
      const outcome = await market.buy(way, purchase, user);
      note("buy", outcome.kind);
      // A form that is sent twice. A refused purchase may succeed now.
      const again = chance.next() < 0.5 ? await market.buy(way, purchase, user) : outcome;
      if (outcome.kind === "sold")
        note("again", again.kind === "sold" && again !== outcome && again.repeat ? "repeat" : "other");
      if (outcome.kind === "sold" || again.kind === "sold") sales.push({ request, buyer: user, item: item.id, price });
      return;
    }
    for (const seller of users) {
      if (!(await market.owns(seller, item.id))) continue;
      note(
        "list",
        (await market.list(way, { item: item.id, seller, price: chance.between(1, 400), revision, request }, seller))
          .kind,
      );
    }
  };
  // Several at once, as one web server has several visitors.
  while (count < task.writes) await Promise.all([one(), one(), one(), one()]);
  await lock.close();
  return { outcomes, sales };
};

const late = async (task: Extract<WorkerTask, { kind: "late" }>): Promise<object> => {
  await using redis = await connect({ url: task.url, deadlineMs: patienceMs });
  const lock = createLock(redis, { leaseMs: task.leaseMs });
  const market = new Market(redis, lock, task.market);
  const { item, buyer, price } = task;
  const told: { outcome?: unknown; lost?: string } = {};
  try {
    await market.holding(item, buyer, async ({ fencingToken }) => {
      const go = new Promise((resolve) => process.once("message", resolve));
      answer({ token: fencingToken });
      await go;
      // The signal is left out on purpose: this is the writer that does not know yet that it lost the lease.
      told.outcome = await market.buyUnder({ fencingToken }, { item, buyer, price, revision: 1, request: "late" });
    });
  } catch (error) {
    told.lost = (error as { code?: string }).code ?? String(error);
  }
  await lock.close();
  return told;
};

process.once("message", (task: WorkerTask) => {
  void (task.kind === "trade" ? trade(task) : late(task)).then(
    (report) => process.send?.(report, () => process.exit(0)),
    (error: unknown) => {
      process.stderr.write(`${String(error)}\n`);
      process.exit(1);
    },
  );
});
process.once("disconnect", () => process.exit(1));
