// The known faults of the textbook's market, each absent here. Its faithful port in tooling/classic shows them, test by test.
import { eventually } from "@kit/testing";
import { describe, expect, it } from "vitest";
import { lockName, personLockName } from "../src/common/keys.js";
import type { Purchase } from "../src/market/market.js";
import { Sessions, viewsKept } from "../src/market/sessions.js";
import { person, thing, useMarkets } from "./harness.js";

const fixture = useMarkets();

const fifty = Array.from({ length: 50 }, (_, n) => n + 1);

describe("ids with dots", () => {
  it.each(["lock", "optimistic"] as const)("%s: ids with dots stay apart", async (way) => {
    const market = await fixture.open({
      users: [person("c"), person("b.c")],
      items: [thing("a.b", "c", null), thing("a", "b.c", null)],
    });
    const offer = { revision: 1, request: "r" };
    await market.list(way, { ...offer, item: "a.b", seller: "c", price: 10 }, "c");
    await market.list(way, { ...offer, item: "a", seller: "b.c", price: 20 }, "b.c");
    expect(await fixture.redis.zcard(market.keys.market)).toBe(2);
    expect(await market.item("a.b")).toMatchObject({ listing: { price: 10, seller: "c" } });
    expect(await market.item("a")).toMatchObject({ listing: { price: 20, seller: "b.c" } });
  });
});

describe("sixteen listings of one seller at once", () => {
  it.each(["lock", "optimistic"] as const)("%s: all are listed", async (way) => {
    const items = fifty.slice(0, 16).map((n) => thing(`i${n}`, "s", null));
    const market = await fixture.open({ users: [person("s")], items });
    const told = await Promise.all(
      items.map(({ id }) => market.list(way, { item: id, seller: "s", price: 5, revision: 1, request: id }, "s")),
    );
    expect(told.map(({ kind }) => kind)).toEqual(items.map(() => "listed"));
  });
});

describe("fifty purchases at once by a buyer who can afford one", () => {
  it.each(["lock", "optimistic"] as const)("%s: exactly one succeeds", async (way) => {
    const items = fifty.map((n) => thing(`i${n}`, "s", 100));
    const market = await fixture.open({ users: [person("s", 0), person("b", 100)], items });
    const told = await Promise.all(
      items.map(({ id }) => market.buy(way, { item: id, buyer: "b", price: 100, revision: 1, request: id }, "b")),
    );
    expect(told.filter(({ kind }) => kind === "sold")).toHaveLength(1);
    expect(told.filter(({ kind }) => kind === "short")).toHaveLength(49);
    expect(await market.user("b")).toMatchObject({ funds: 0 });
    expect(await market.inventory("b")).toMatchObject({ total: 1 });
  });
});

describe("an optimistic and a locked buyer of one item", () => {
  it("it is sold once, whoever read first", async () => {
    const market = await fixture.open({
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

  it("fifty of them at once, half and half, leave one owner", async () => {
    const buyers = fifty.map((n) => person(`b${n}`));
    const market = await fixture.open({ users: [person("s", 0), ...buyers], items: [thing("i", "s", 500)] });
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

describe("the locks of a sale", () => {
  const offer = (item: string, buyer: string): Purchase => ({ item, buyer, price: 100, revision: 1, request: "r" });
  const state = async (name: string): Promise<string> => {
    const { state: is, waiters } = await fixture.lock.inspect(name);
    return `${is}, ${waiters} waiting`;
  };

  it("are those of item, buyer and seller, and no person's is held while the item is waited for", async () => {
    const users = [person("s", 0), person("b")];
    const market = await fixture.open({ users, items: [thing("i", "s", 100), thing("j", "s", 100)] });
    const item = lockName(market.id, "i");
    const [buyer, seller] = ["b", "s"].map((user) => personLockName(market.id, user));
    if (!buyer || !seller) throw new Error("there are two people");
    let sale: Promise<unknown> = Promise.resolve();
    await fixture.lock.using(item, async () => {
      sale = market.buy("lock", offer("i", "b"), "b");
      await eventually(async () => expect(await state(item)).toBe("held, 1 waiting"));
      await eventually(async () => expect(await state(buyer)).toBe("free, 0 waiting"));
      await eventually(async () => expect(await state(seller)).toBe("free, 0 waiting"));
    });
    expect(await sale).toMatchObject({ kind: "sold" });
    for (const who of [buyer, seller]) {
      await fixture.lock.using(who, async () => {
        sale =
          who === buyer
            ? market.buy("lock", offer("j", "b"), "b")
            : market.list("lock", { ...offer("i", "b"), seller: "s" }, "s");
        await eventually(async () => expect(await state(who)).toBe("held, 1 waiting"));
      });
      expect(await sale).toMatchObject({ kind: who === buyer ? "sold" : "not-yours" });
    }
  });

  it("never keep two waiting for each other who buy from each other at once", async () => {
    const pairs = fifty.slice(0, 20);
    const items = pairs.flatMap((n) => [thing(`a${n}`, "a", 100), thing(`b${n}`, "b", 100)]);
    const market = await fixture.open({ users: [person("a", 2_000), person("b", 2_000)], items });
    const sales = pairs.flatMap((n) => [offer(`a${n}`, "b"), offer(`b${n}`, "a")]);
    const told = await Promise.all(sales.map((sale) => market.buy("lock", sale, sale.buyer)));
    expect(told.map(({ kind }) => kind)).toEqual(sales.map(() => "sold"));
    expect(await market.user("a")).toMatchObject({ funds: 2_000 });
  });
});

describe("every other sale", () => {
  it("disturbs nobody who wants another item", async () => {
    const items = fifty.map((n) => thing(`i${n}`, "s", 100));
    const buyers = fifty.map((n) => person(`b${n}`));
    const market = await fixture.open({ users: [person("s", 0), ...buyers], items });
    // A disturbed attempt shows as one more WATCH.
    const watches = async (): Promise<number> =>
      Number(/cmdstat_watch:calls=(\d+)/.exec(await fixture.redis.info("commandstats"))?.[1] ?? 0);
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
  it.each(["lock", "optimistic"] as const)("%s: is checked; another price is its own answer", async (way) => {
    const market = await fixture.open({ users: [person("s", 0), person("b")], items: [thing("i", "s", 100)] });
    await market.list(way, { item: "i", seller: "s", price: 900, revision: 1, request: "r" }, "s");
    const told = await market.buy(way, { item: "i", buyer: "b", price: 100, revision: 1, request: "r" }, "b");
    expect(told).toEqual({ kind: "price-changed", price: 900 });
    expect(await market.user("b")).toMatchObject({ funds: 1_000 });
  });
});

describe("pence", () => {
  it.each(["lock", "optimistic"] as const)("%s: pence are exact", async (way) => {
    const market = await fixture.open({
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
  it("sessions, recent items and view counts expire, and the counts are bounded", async () => {
    const market = await fixture.open({ users: [person("u")], items: [] });
    const sessions = new Sessions(fixture.redis, market.keys);
    for (const n of fifty) await sessions.visit((await sessions.open("u")).id, `i${n}`);
    const { redis } = fixture;
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

  it("a page view is one command", async () => {
    const market = await fixture.open({ users: [person("u")], items: [] });
    const sessions = new Sessions(fixture.redis, market.keys);
    const { id } = await sessions.open("u");
    await sessions.visit(id, "i1");
    const calls = async (): Promise<string[]> =>
      (await fixture.redis.info("commandstats"))
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
