import type { Redis } from "ioredis";
import { beforeEach, describe, expect, it } from "vitest";
import {
  acquireLock,
  classicKeys,
  type ClassicKeys,
  itemLock,
  listItem,
  MARKET_LOCK,
  purchaseItem,
  purchaseItemWithItemLock,
  purchaseItemWithLock,
  purchaseItemWithoutLock,
  purchaseItemWithOwnerlessLock,
  type PurchaseResult,
} from "../src/index.js";
import { lapse, useClassic } from "./harness.js";

const classic = useClassic();
let admin: Redis;
let keys: ClassicKeys;
let prefix: string;

beforeEach(async () => {
  admin = await classic.connect();
  prefix = classic.prefix;
  keys = classicKeys(prefix);
});

describe("the classic listing", () => {
  it("moves the item from the inventory to the market", async () => {
    await owns("ada", "lamp");
    expect(await listItem(admin, "lamp", "ada", 97, { prefix })).toEqual({ outcome: "listed", retries: 0 });
    expect(await admin.zrange(keys.market, "0", "-1", "WITHSCORES")).toEqual(["lamp.ada", "97"]);
    expect(await admin.exists(keys.inventory("ada"))).toBe(0);
  });

  it("refuses an item that the seller does not have", async () => {
    expect((await listItem(admin, "lamp", "ada", 97, { prefix })).outcome).toBe("notInInventory");
    expect(await admin.exists(keys.market)).toBe(0);
  });

  it("no back-off: 16 listings of one seller at once need over four retries each", async () => {
    const clients = await classic.connectMany(16);
    // The port: 100 to 120. With a jittered back-off of a few milliseconds: 35 to 42. A busy machine may spread them, too, so
    // that the listings meet in another round only.
    let retries = 0;
    for (let round = 0; retries <= 64 && round < 100; round++) {
      const items = clients.map((_, index) => `item-${round}-${index}`);
      await owns("ada", ...items);
      const listings = clients.map((redis, index) => listItem(redis, items[index]!, "ada", 10, { prefix }));
      const results = await Promise.all(listings);
      expect(results.filter(({ outcome }) => outcome === "listed")).toHaveLength(16);
      retries = retriesOf(results);
    }
    expect(retries).toBeGreaterThan(64);
  });

  it("`item.seller` is ambiguous when ids hold dots: two listings become one row, and an item is gone", async () => {
    await owns("bo.ltd", "lamp");
    await owns("ltd", "lamp.bo");
    expect((await listItem(admin, "lamp", "bo.ltd", 97, { prefix })).outcome).toBe("listed");
    expect((await listItem(admin, "lamp.bo", "ltd", 5, { prefix })).outcome).toBe("listed");
    expect(await admin.zrange(keys.market, "0", "-1", "WITHSCORES")).toEqual(["lamp.bo.ltd", "5"]);
    await has("eve", 100);
    expect((await purchaseItem(admin, "eve", "lamp", "bo.ltd", 5, { prefix })).outcome).toBe("bought");
    expect(await funds("bo.ltd")).toBe(5);
    expect((await purchaseItem(admin, "eve", "lamp.bo", "ltd", 5, { prefix })).outcome).toBe("notForSale");
  });
});

type Buy = (redis: Redis, buyer: string, item: string) => Promise<PurchaseResult>;
const buys: Record<string, Buy> = {
  WATCH: (redis, buyer, item) => purchaseItem(redis, buyer, item, "ada", 97, { prefix }),
  "one lock": (redis, buyer, item) => purchaseItemWithLock(redis, buyer, item, "ada", { prefix }),
  "a lock per item": (redis, buyer, item) => purchaseItemWithItemLock(redis, buyer, item, "ada", { prefix }),
  "SETNX without owner": (redis, buyer, item) =>
    purchaseItemWithOwnerlessLock(redis, buyer, item, "ada", 97, { prefix }),
  "no lock": (redis, buyer, item) => purchaseItemWithoutLock(redis, buyer, item, "ada", 97, { prefix }),
};

describe.each(Object.entries(buys))("the classic purchase (%s)", (_name, buy) => {
  it("moves the money and the item", async () => {
    await forSale("lamp", 97);
    await has("eve", 100);
    expect(await buy(admin, "eve", "lamp")).toEqual({ outcome: "bought", retries: 0 });
    expect([await funds("eve"), await funds("ada")]).toEqual([3, 97]);
    expect(await admin.smembers(keys.inventory("eve"))).toEqual(["lamp"]);
    expect(await admin.exists(keys.market, keys.lock(MARKET_LOCK), keys.lock(itemLock("lamp", "ada")))).toBe(0);
  });

  it("refuses a buyer that cannot pay, and an unknown item", async () => {
    await forSale("lamp", 97);
    await has("eve", 96);
    expect((await buy(admin, "eve", "lamp")).outcome).toBe("cannotAfford");
    expect((await buy(admin, "eve", "sofa")).outcome).toBe("notForSale");
    expect([await funds("eve"), await funds("ada")]).toEqual([96, 0]);
    expect(await admin.zcard(keys.market)).toBe(1);
  });
});

describe.each(Object.entries(buys).filter(([name]) => name !== "no lock"))(
  "the classic purchase under contention (%s)",
  (_name, buy) => {
    it("sells one item once to ten buyers", async () => {
      await forSale("lamp", 97);
      const clients = await classic.connectMany(10);
      for (let index = 0; index < 10; index += 1) await has(`buyer-${index}`, 100);
      const results = await Promise.all(clients.map((redis, index) => buy(redis, `buyer-${index}`, "lamp")));
      expect(results.filter(({ outcome }) => outcome === "bought")).toHaveLength(1);
      expect(await funds("ada")).toBe(97);
    });
  },
);

describe("faults of the classic purchase", () => {
  it("every other sale is a retry, though no two buyers want the same item", async () => {
    const buyers = await classic.connectMany(8);
    for (let index = 0; index < 8; index += 1) {
      await forSale(`item-${index}`, 97);
      await has(`buyer-${index}`, 100);
    }
    const results = await Promise.all(
      buyers.map((redis, index) => buys["WATCH"]!(redis, `buyer-${index}`, `item-${index}`)),
    );
    expect(results.filter(({ outcome }) => outcome === "bought")).toHaveLength(8);
    expect(retriesOf(results)).toBeGreaterThanOrEqual(4);
  });

  it("under the lock the seen price is ignored: the buyer pays the current price", async () => {
    await forSale("lamp", 10);
    await has("eve", 100);
    // Eve has seen 10. The seller raises the price to 90 before she buys, and the call has no parameter for the seen price.
    await forSale("lamp", 90);
    expect((await purchaseItemWithLock(admin, "eve", "lamp", "ada", { prefix })).outcome).toBe("bought");
    expect(await funds("eve")).toBe(10);
  });

  it("a lock per item does not guard the buyer's funds: two purchases at once overspend", async () => {
    await forSale("lamp", 80);
    await forSale("sofa", 80);
    await has("eve", 100);
    const { redis, proxy } = await classic.connectThroughProxy();
    const held = proxy.hold(/hincrby/i);
    const lamp = purchaseItemWithItemLock(redis, "eve", "lamp", "ada", { prefix });
    await held.reached;
    const sofa = await purchaseItemWithItemLock(admin, "eve", "sofa", "ada", { prefix });
    held.release();
    expect([(await lamp).outcome, sofa.outcome]).toEqual(["bought", "bought"]);
    expect(await funds("eve")).toBe(-60);
  });

  it.each([
    ["one lock", purchaseItemWithLock],
    ["a lock per item", purchaseItemWithItemLock],
  ])("a locked buyer (%s) and a WATCH buyer sell one item twice", async (_name, buyLocked) => {
    await forSale("lamp", 97);
    await has("eve", 100);
    await has("bob", 100);
    const { redis, proxy } = await classic.connectThroughProxy();
    const held = proxy.hold(/hincrby/i);
    const locked = buyLocked(redis, "eve", "lamp", "ada", { prefix });
    await held.reached;
    const watching = await purchaseItem(admin, "bob", "lamp", "ada", 97, { prefix });
    held.release();
    expect([(await locked).outcome, watching.outcome]).toEqual(["bought", "bought"]);
    expect(await owners("lamp", "eve", "bob")).toEqual(["eve", "bob"]);
    expect(await funds("ada")).toBe(194);
  });

  it("prices are floats: a price shown as 0.3 is stored as another number and cannot be paid", async () => {
    await forSale("lamp", 0.1 + 0.2);
    await has("eve", 100);
    expect(Number(await admin.zscore(keys.market, "lamp.ada"))).not.toBe(0.3);
    expect((await purchaseItem(admin, "eve", "lamp", "ada", "0.3", { prefix })).outcome).toBe("priceChanged");
  });

  it("prices are compared as strings: 97.50 is not 97.5", async () => {
    await forSale("lamp", 97.5);
    await has("eve", 100);
    expect((await purchaseItem(admin, "eve", "lamp", "ada", "97.50", { prefix })).outcome).toBe("priceChanged");
    expect((await purchaseItem(admin, "eve", "lamp", "ada", "97.5", { prefix })).outcome).toBe("bought");
  });

  it.each(Object.entries({ WATCH: purchaseItem, locked: purchaseItemWithLock }))(
    "fractions are dropped: 97.75 is paid as 97, and 0.75 as nothing (%s)",
    async (name) => {
      await forSale("lamp", 97.75);
      await forSale("pin", 0.75);
      await has("eve", 100);
      for (const [item, price] of [
        ["lamp", 97.75],
        ["pin", 0.75],
      ] as const) {
        const result =
          name === "WATCH"
            ? await purchaseItem(admin, "eve", item, "ada", price, { prefix })
            : await purchaseItemWithLock(admin, "eve", item, "ada", { prefix });
        expect(result.outcome).toBe("bought");
      }
      expect([await funds("eve"), await funds("ada")]).toEqual([3, 97]);
    },
  );

  it("a crash under the one lock closes the market for ever", async () => {
    await forSale("lamp", 97);
    await has("eve", 100);
    const { redis, proxy } = await classic.connectThroughProxy();
    await proxy.crashAt(/hincrby/i, purchaseItemWithLock(redis, "eve", "lamp", "ada", { prefix }));
    const next = await purchaseItemWithLock(admin, "eve", "lamp", "ada", { prefix, timeoutMs: 200 });
    expect(next.outcome).toBe("timedOut");
    expect(await admin.pttl(keys.lock(MARKET_LOCK))).toBe(-1);
  });

  it("with no lock two buyers who read before either wrote both get the item", async () => {
    await forSale("lamp", 97);
    await has("eve", 100);
    await has("bob", 100);
    const { redis, proxy } = await classic.connectThroughProxy();
    const held = proxy.hold(/hincrby/i);
    const first = buys["no lock"]!(redis, "eve", "lamp");
    await held.reached;
    const second = await buys["no lock"]!(admin, "bob", "lamp");
    held.release();
    expect([(await first).outcome, second.outcome]).toEqual(["bought", "bought"]);
    expect(await owners("lamp", "eve", "bob")).toEqual(["eve", "bob"]);
  });

  it("with no lock fifty buyers at once get the one item more than once", async () => {
    await forSale("lamp", 97);
    const clients = await classic.connectMany(50);
    const names = clients.map((_, index) => `buyer-${index}`);
    for (const name of names) await has(name, 100);
    await Promise.all(clients.map((redis, index) => buys["no lock"]!(redis, names[index]!, "lamp")));
    expect((await owners("lamp", ...names)).length).toBeGreaterThan(1);
  });

  it("SETNX without owner sells one item twice once the lock has lapsed under a slow buyer", async () => {
    await forSale("lamp", 97);
    await has("eve", 100);
    await has("bob", 100);
    const { redis, proxy } = await classic.connectThroughProxy();
    const held = proxy.hold(/hincrby/i);
    const slow = buys["SETNX without owner"]!(redis, "eve", "lamp");
    await held.reached;
    await lapse(admin, keys.lock(MARKET_LOCK));
    const next = await buys["SETNX without owner"]!(admin, "bob", "lamp");
    held.release();
    expect([(await slow).outcome, next.outcome]).toEqual(["bought", "bought"]);
    expect(await owners("lamp", "eve", "bob")).toEqual(["eve", "bob"]);
  });

  it("gives up when the lock stays taken", async () => {
    await forSale("lamp", 97);
    await has("eve", 100);
    await acquireLock(admin, itemLock("lamp", "ada"), 1000, prefix);
    const result = await purchaseItemWithItemLock(admin, "eve", "lamp", "ada", { prefix, timeoutMs: 50 });
    expect(result.outcome).toBe("timedOut");
    expect(await funds("eve")).toBe(100);
  });
});

async function owns(user: string, ...items: string[]): Promise<void> {
  await admin.sadd(keys.inventory(user), ...items);
}

async function has(user: string, amount: number): Promise<void> {
  await admin.hset(keys.user(user), "funds", amount);
}

/** Ada offers `item`, or changes its price. */
async function forSale(item: string, price: number): Promise<void> {
  await owns("ada", item);
  await listItem(admin, item, "ada", price, { prefix });
}

async function funds(user: string): Promise<number> {
  return Number(await admin.hget(keys.user(user), "funds"));
}

/** The `users` that have `item`. */
async function owners(item: string, ...users: string[]): Promise<string[]> {
  const found: string[] = [];
  for (const user of users) if ((await admin.sismember(keys.inventory(user), item)) === 1) found.push(user);
  return found;
}

function retriesOf(results: readonly { readonly retries: number }[]): number {
  return results.reduce((sum, { retries }) => sum + retries, 0);
}
