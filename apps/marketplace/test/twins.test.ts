// Rows 39 to 41 of the mission, each known fault of the textbook twice: red on its faithful port, green on ours.
import {
  checkToken,
  classicKeys,
  listItem,
  purchaseItem,
  purchaseItemWithItemLock,
  purchaseItemWithLock,
  purchaseItemWithoutLock,
  updateToken,
} from "@tooling/classic";
import { Gate } from "@tooling/classic/gate";
import { Redis } from "ioredis";
import { afterEach, describe, expect, it } from "vitest";
import type { Purchase } from "../src/market.js";
import { Sessions, viewsKept } from "../src/sessions.js";
import { person, thing, useMarkets } from "./harness.js";

const bench = useMarkets();

const opened: Redis[] = [];
afterEach(async () => {
  // One behind a gate has lost its connection already.
  await Promise.all(opened.splice(0).map((client) => client.quit().catch(() => undefined)));
});

/** Every buyer of the textbook has a connection of its own. */
const plain = async (url: string = bench.server.url): Promise<Redis> => {
  const client = new Redis(url, { lazyConnect: true });
  client.on("error", () => undefined);
  await client.connect();
  opened.push(client);
  return client;
};

let prefixes = 0;
/** A market in the layout of the textbook. */
const classicMarket = async (
  users: Readonly<Record<string, number>>,
  rows: readonly { readonly item: string; readonly seller: string; readonly price: number }[],
) => {
  const prefix = `classic${++prefixes}:`;
  const keys = classicKeys(prefix);
  const redis = await plain();
  for (const [user, funds] of Object.entries(users)) await redis.hset(keys.user(user), { name: user, funds });
  for (const { item, seller, price } of rows) await redis.zadd(keys.market, price, keys.marketMember(item, seller));
  return { prefix, keys, redis, funds: async (user: string) => Number(await redis.hget(keys.user(user), "funds")) };
};

const fifty = Array.from({ length: 50 }, (_, n) => n + 1);

describe("ids with dots", () => {
  it("classic: two listings become one row, and an item is gone", async () => {
    const { prefix, keys, redis } = await classicMarket({}, []);
    await redis.sadd(keys.inventory("c"), "a.b");
    await redis.sadd(keys.inventory("b.c"), "a");
    expect((await listItem(redis, "a.b", "c", 10, { prefix })).outcome).toBe("listed");
    expect((await listItem(redis, "a", "b.c", 20, { prefix })).outcome).toBe("listed");
    expect(await redis.zcard(keys.market)).toBe(1);
  });

  it.each(["lock", "optimistic"] as const)("ours (%s): ids with dots stay apart", async (way) => {
    const market = await bench.open({
      users: [person("c"), person("b.c")],
      items: [thing("a.b", "c", null), thing("a", "b.c", null)],
    });
    const offer = { revision: 1, request: "r" };
    await market.list(way, { ...offer, item: "a.b", seller: "c", price: 10 }, "c");
    await market.list(way, { ...offer, item: "a", seller: "b.c", price: 20 }, "b.c");
    expect(await bench.redis.zcard(market.keys.market)).toBe(2);
    expect(await market.item("a.b")).toMatchObject({ listing: { price: 10, seller: "c" } });
    expect(await market.item("a")).toMatchObject({ listing: { price: 20, seller: "b.c" } });
  });
});

describe("sixteen listings of one seller at once", () => {
  it("classic: every other listing undoes it, and it begins again at once", async () => {
    const { prefix, keys, redis } = await classicMarket({}, []);
    const [ours = "", ...others] = fifty.slice(0, 16).map((n) => `i${n}`);
    await redis.sadd(keys.inventory("s"), ours, ...others);
    await using gate = await Gate.open(Number(new URL(bench.server.url).port));
    const slow = await plain(gate.url);
    const quicker = [...others];
    gate.before = async (text) => {
      const next = /exec/i.test(text) ? quicker.pop() : undefined;
      if (next !== undefined) await listItem(redis, next, "s", 10, { prefix });
    };
    expect(await listItem(slow, ours, "s", 10, { prefix })).toEqual({ outcome: "listed", retries: others.length });
    expect(await redis.zcard(keys.market)).toBe(16);
  });

  it.each(["lock", "optimistic"] as const)("ours (%s): all are listed", async (way) => {
    const items = fifty.slice(0, 16).map((n) => thing(`i${n}`, "s", null));
    const market = await bench.open({ users: [person("s")], items });
    const told = await Promise.all(
      items.map(({ id }) => market.list(way, { item: id, seller: "s", price: 5, revision: 1, request: id }, "s")),
    );
    expect(told.map(({ kind }) => kind)).toEqual(items.map(() => "listed"));
  });
});

describe("fifty purchases at once by a buyer who can afford one", () => {
  it("classic: a lock per item does not guard the funds: more than one succeeds, and the buyer is in debt", async () => {
    const rows = fifty.map((n) => ({ item: `i${n}`, seller: "s", price: 100 }));
    const { prefix, funds } = await classicMarket({ s: 0, b: 100 }, rows);
    await using gate = await Gate.open(Number(new URL(bench.server.url).port));
    const slow = await plain(gate.url);
    const write = gate.hold(/hincrby/i);
    const buy = (redis: Redis, item: string) => purchaseItemWithItemLock(redis, "b", item, "s", { prefix });
    const [first, ...others] = rows;
    const slowBuy = buy(slow, first?.item ?? "");
    await write.reached;
    const clients = await Promise.all(others.map(() => plain()));
    const quick = await Promise.all(others.map(({ item }, n) => buy(clients[n] as Redis, item)));
    write.release();
    const results = [await slowBuy, ...quick];
    expect(results.filter(({ outcome }) => outcome === "bought").length).toBeGreaterThan(1);
    expect(await funds("b")).toBeLessThan(0);
  });

  it.each(["lock", "optimistic"] as const)("ours (%s): exactly one succeeds", async (way) => {
    const items = fifty.map((n) => thing(`i${n}`, "s", 100));
    const market = await bench.open({ users: [person("s", 0), person("b", 100)], items });
    const told = await Promise.all(
      items.map(({ id }) => market.buy(way, { item: id, buyer: "b", price: 100, revision: 1, request: id }, "b")),
    );
    expect(told.filter(({ kind }) => kind === "sold")).toHaveLength(1);
    expect(told.filter(({ kind }) => kind === "short")).toHaveLength(49);
    expect(await market.user("b")).toMatchObject({ funds: 0 });
    expect(await market.inventory("b")).toHaveLength(1);
  });
});

describe("an optimistic and a locked buyer of one item", () => {
  it("classic: both get it when the locked one has read before the other wrote", async () => {
    const { prefix, keys, redis, funds } = await classicMarket({ s: 0, a: 100, b: 100 }, [
      { item: "i", seller: "s", price: 100 },
    ]);
    await using gate = await Gate.open(Number(new URL(bench.server.url).port));
    const locked = await plain(gate.url);
    const write = gate.hold(/hincrby/i);
    const lockedBuyer = purchaseItemWithLock(locked, "a", "i", "s", { prefix });
    await write.reached;
    expect((await purchaseItem(redis, "b", "i", "s", 100, { prefix })).outcome).toBe("bought");
    write.release();
    expect((await lockedBuyer).outcome).toBe("bought");
    expect([await redis.sismember(keys.inventory("a"), "i"), await redis.sismember(keys.inventory("b"), "i")]).toEqual([
      1, 1,
    ]);
    expect(await funds("s")).toBe(200);
  });

  it("ours: it is sold once, whoever read first", async () => {
    const market = await bench.open({
      users: [person("s", 0), person("a"), person("b")],
      items: [thing("i", "s", 500)],
    });
    const purchase = { item: "i", price: 500, revision: 1 };
    const told = await market.holding("i", "a", async ({ fencingToken }) => {
      // The locked buyer has looked already; now the other one is quicker.
      const quick = await market.buy("optimistic", { ...purchase, buyer: "b", request: "b" }, "b");
      const locked = await market.buyUnder({ fencingToken }, { ...purchase, buyer: "a", request: "a" });
      return [quick.kind, locked.kind];
    });
    expect(told).toEqual(["sold", "not-for-sale"]);
    expect(await market.user("s")).toMatchObject({ funds: 500 });
  });

  it("ours: fifty of them at once, half and half, leave one owner", async () => {
    const buyers = fifty.map((n) => person(`b${n}`));
    const market = await bench.open({ users: [person("s", 0), ...buyers], items: [thing("i", "s", 500)] });
    const told = await Promise.all(
      buyers.map(({ id }, n) => {
        const purchase: Purchase = { item: "i", buyer: id, price: 500, revision: 1, request: id };
        return market.buy(n % 2 === 0 ? "lock" : "optimistic", purchase, id);
      }),
    );
    expect(told.filter(({ kind }) => kind === "sold")).toHaveLength(1);
    expect(await market.audit(["s", ...buyers.map(({ id }) => id)])).toMatchObject({
      money: 50_000,
      items: 1,
      itemsTwice: 0,
    });
  });
});

describe("fifty buyers at once", () => {
  it("classic, no lock: the one item is sold more than once", async () => {
    const { prefix, redis, funds } = await classicMarket(
      Object.fromEntries([["s", 0], ...fifty.map((n) => [`b${n}`, 100] as const)]),
      [{ item: "i", seller: "s", price: 100 }],
    );
    const told = await Promise.all(
      fifty.map((n) => purchaseItemWithoutLock(redis, `b${n}`, "i", "s", 100, { prefix })),
    );
    const sold = told.filter(({ outcome }) => outcome === "bought").length;
    expect(sold).toBeGreaterThan(1);
    expect(await funds("s")).toBe(100 * sold);
  });
});

describe("every other sale", () => {
  it("classic: is a retry, though no two buyers want the same item", async () => {
    const [ours = "", ...others] = fifty.slice(0, 10).map((n) => `i${n}`);
    const rows = [ours, ...others].map((item) => ({ item, seller: "s", price: 100 }));
    const users = Object.fromEntries([["s", 0], ...rows.map(({ item }) => [`b-${item}`, 100] as const)]);
    const { prefix, keys, redis } = await classicMarket(users, rows);
    const buy = (client: Redis, item: string) => purchaseItem(client, `b-${item}`, item, "s", 100, { prefix });
    await using gate = await Gate.open(Number(new URL(bench.server.url).port));
    const slow = await plain(gate.url);
    const quicker = [...others];
    gate.before = async (text) => {
      const next = /exec/i.test(text) ? quicker.pop() : undefined;
      if (next !== undefined) await buy(redis, next);
    };
    expect(await buy(slow, ours)).toEqual({ outcome: "bought", retries: others.length });
    expect(await redis.zcard(keys.market)).toBe(0);
  });

  it("ours, optimistic: disturbs nobody who wants another item", async () => {
    const items = fifty.map((n) => thing(`i${n}`, "s", 100));
    const buyers = fifty.map((n) => person(`b${n}`));
    const market = await bench.open({ users: [person("s", 0), ...buyers], items });
    // A disturbed attempt shows as one more WATCH.
    const watches = async (): Promise<number> =>
      Number(/cmdstat_watch:calls=(\d+)/.exec(await bench.redis.info("commandstats"))?.[1] ?? 0);
    const before = await watches();
    const told = await Promise.all(
      fifty.map((n) =>
        market.buy("optimistic", { item: `i${n}`, buyer: `b${n}`, price: 100, revision: 1, request: "r" }, "b"),
      ),
    );
    expect(told.map(({ kind }) => kind)).toEqual(fifty.map(() => "sold"));
    expect((await watches()) - before).toBe(50);
  });
});

describe("the price the buyer saw", () => {
  it("classic: is dropped under the lock: the buyer pays what is asked by now", async () => {
    const { prefix, keys, redis, funds } = await classicMarket({ s: 0, b: 1_000 }, [
      { item: "i", seller: "s", price: 100 },
    ]);
    await redis.zadd(keys.market, 900, keys.marketMember("i", "s"));
    expect((await purchaseItemWithLock(redis, "b", "i", "s", { prefix })).outcome).toBe("bought");
    expect(await funds("b")).toBe(100);
  });

  it.each(["lock", "optimistic"] as const)(
    "ours (%s): is checked; another price is an answer of its own",
    async (way) => {
      const market = await bench.open({ users: [person("s", 0), person("b")], items: [thing("i", "s", 100)] });
      await market.list(way, { item: "i", seller: "s", price: 900, revision: 1, request: "r" }, "s");
      const told = await market.buy(way, { item: "i", buyer: "b", price: 100, revision: 1, request: "r" }, "b");
      expect(told).toEqual({ kind: "price-changed", price: 900 });
      expect(await market.user("b")).toMatchObject({ funds: 1_000 });
    },
  );
});

describe("pence", () => {
  it("classic: prices are floats and text: what is shown as 0.3 cannot be bought, nor 97.50", async () => {
    const { prefix, redis } = await classicMarket({ s: 0, b: 1_000 }, [
      { item: "i", seller: "s", price: 0.1 + 0.2 },
      { item: "j", seller: "s", price: 97.5 },
    ]);
    expect((await purchaseItem(redis, "b", "i", "s", "0.3", { prefix })).outcome).toBe("priceChanged");
    expect((await purchaseItem(redis, "b", "j", "s", "97.50", { prefix })).outcome).toBe("priceChanged");
  });

  it("classic: the fraction is never paid", async () => {
    const { prefix, redis, funds } = await classicMarket({ s: 0, b: 1_000 }, [{ item: "i", seller: "s", price: 97.5 }]);
    await purchaseItem(redis, "b", "i", "s", 97.5, { prefix });
    expect([await funds("b"), await funds("s")]).toEqual([903, 97]);
  });

  it.each(["lock", "optimistic"] as const)("ours (%s): pence are exact", async (way) => {
    const market = await bench.open({
      users: [person("s", 1), person("b", 100_000_001)],
      items: [thing("i", "s", 9_750), thing("j", "s", 99_990_250)],
    });
    await market.buy(way, { item: "i", buyer: "b", price: 9_750, revision: 1, request: "i" }, "b");
    await market.buy(way, { item: "j", buyer: "b", price: 99_990_250, revision: 1, request: "j" }, "b");
    expect(await market.user("b")).toMatchObject({ funds: 1 });
    expect(await market.user("s")).toMatchObject({ funds: 100_000_001 });
  });
});

describe("sessions, recently viewed, view counts", () => {
  it("classic: `login:`, `recent:`, `viewed:` and the counts never shrink; one key per token for ever", async () => {
    const prefix = `classic${++prefixes}:`;
    const redis = await plain();
    for (const n of fifty) await updateToken(redis, `token${n}`, "u", `i${n}`, prefix);
    const keys = await redis.keys(`${prefix}*`);
    expect(keys).toHaveLength(3 + 50);
    for (const key of keys) expect(await redis.ttl(key)).toBe(-1);
    expect(await redis.zcard(classicKeys(prefix).views)).toBe(50);
    expect(await checkToken(redis, "token1", prefix)).toBe("u");
  });

  it("ours: sessions, recent items and view counts expire, and the counts are bounded", async () => {
    const market = await bench.open({ users: [person("u")], items: [] });
    const sessions = new Sessions(bench.redis, market.keys);
    for (const n of fifty) await sessions.visit((await sessions.open("u")).id, `i${n}`);
    const { redis } = bench;
    const keys = [market.keys.session("*"), market.keys.recent("*"), market.keys.views];
    const found = (await Promise.all(keys.map((key) => redis.keys(key)))).flat();
    expect(found).toHaveLength(50 + 50 + 1);
    for (const key of found) expect(await redis.pttl(key)).toBeGreaterThan(0);

    // The least looked at go first.
    await redis.zadd(market.keys.views, ...Array.from({ length: viewsKept }, (_, n) => [5, `x${n}`]).flat());
    await sessions.visit((await sessions.open("u")).id, "x1");
    expect(await redis.zcard(market.keys.views)).toBe(viewsKept);
    expect(await redis.zscore(market.keys.views, "x1")).toBe("6");
  });

  it("ours: a page view is one command", async () => {
    const market = await bench.open({ users: [person("u")], items: [] });
    const sessions = new Sessions(bench.redis, market.keys);
    const { id } = await sessions.open("u");
    await sessions.visit(id, "i1");
    const calls = async (): Promise<string[]> =>
      (await bench.redis.info("commandstats"))
        .split("\r\n")
        .filter((line) => /cmdstat_(evalsha|eval|hget|zincrby):/.test(line));
    const count = (lines: readonly string[], command: string): number =>
      Number(/calls=(\d+)/.exec(lines.find((line) => line.startsWith(`cmdstat_${command}:`)) ?? "")?.[1] ?? 0);
    const before = await calls();
    await sessions.visit(id, "i2");
    const after = await calls();
    expect(count(after, "evalsha") - count(before, "evalsha")).toBe(1);
    expect(count(after, "eval") - count(before, "eval")).toBe(0);
  });
});
