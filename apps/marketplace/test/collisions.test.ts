// Every package in one database, and two shops beside each other in it: no key is written by two of them.
import { eventually } from "@kit/testing";
import { beforeAll, describe, expect, it } from "vitest";
import { marketKeys } from "../src/common/keys.js";
import { type RunningShop, startShop, useSharedShop, Visitor } from "./shop.js";

const prefixes = ["kit", "other"] as const;
/** The segment behind the prefix, by who writes it. `config` is core's. */
const segments = ["autocomplete", "chat", "config", "geoip", "lock", "logship", "queue", "semaphore", "shop", "stats"];
/** Its keys end after eleven seconds. */
const brief = "limiter";

const shared = useSharedShop("textiles");
let shops: readonly Pick<RunningShop, "origin">[];

/** Every key, with its type. */
const allKeys = async (): Promise<Map<string, string>> => {
  const found: string[] = [];
  for (let cursor = "0"; ;) {
    const [next, keys] = await shared.redis.scan(cursor, "COUNT", 1_000);
    found.push(...keys);
    if (next === "0") break;
    cursor = next;
  }
  const unique = [...new Set(found)];
  const types = await Promise.all(unique.map((key) => shared.redis.type(key)));
  return new Map(unique.map((key, at) => [key, types[at] ?? "none"]));
};

/** A visitor who touches every package: search, lock, session, order, jobs, chat, statistics. */
const visit = async (shop: Pick<RunningShop, "origin">, prefix: string): Promise<string> => {
  const keys = marketKeys("main", prefix);
  const visitor = new Visitor(shop.origin);
  const csrf = await visitor.signIn("u120");
  await visitor.get("/search?q=brass");
  const [id = ""] = await shared.redis.zrange(keys.shelf("textiles"), "0", "0");
  const price = (await shared.redis.hget(keys.listing(id), "price")) ?? "";
  const revision = (await shared.redis.hget(keys.item(id), "revision")) ?? "";
  const given = Number(price);
  await shared.redis.multi().hincrby(keys.user("u120"), "funds", given).hincrby(keys.totals, "money", given).exec();
  const form = { csrf, request: "here", price, revision, way: "lock" };
  const bought = await visitor.post(`/item/${id}/buy`, form, "application/json");
  const { order } = JSON.parse(bought.body) as { order: string };
  await visitor.post(`/order/${order}/say`, { csrf, id: "hello", text: `Hello from ${prefix}` });
  return order;
};

beforeAll(async () => {
  const other = await startShop("--redis", shared.url, "--prefix", "other");
  await other.isComplete();
  shops = [shared, other];
});

describe("In one database", () => {
  it("every key belongs to one package of one shop, and no shop sees the other's", async () => {
    const orders = await Promise.all(shops.map((shop, at) => visit(shop, prefixes[at] ?? "")));
    // The same buyer, item and request in both: everything that could meet does.
    expect(orders[0]).toBe(orders[1]);
    const limited = await shared.redis.keys(`*:${brief}:*`);
    for (const prefix of prefixes) expect(limited.some((key) => key.startsWith(`${prefix}:`))).toBe(true);
    for (const prefix of prefixes)
      await eventually(
        async () => {
          const keys = marketKeys("main", prefix);
          expect(await shared.redis.hget(keys.order(orders[0] ?? ""), "done:charge")).not.toBeNull();
          expect(await shared.redis.hlen(`${prefix}:logship:{access}:channel`)).toBeGreaterThan(0);
        },
        { timeoutMs: 60_000 },
      );

    const keys = await allKeys();
    const unknown = [...keys.keys()].filter((key) => {
      const [prefix, segment] = key.split(":");
      return !prefixes.some((one) => one === prefix) || ![...segments, brief].includes(segment ?? "");
    });
    expect(unknown).toEqual([]);
    for (const prefix of prefixes) {
      const found = new Set(
        [...keys.keys()].filter((key) => key.startsWith(`${prefix}:`)).map((key) => key.split(":")[1]),
      );
      expect(segments.filter((one) => !found.has(one))).toEqual([]);
    }

    // Keys of the same name in both shops have the same type, and their own content.
    const twins = [...keys].flatMap(([key, type]) => {
      const twin = key.startsWith("kit:") ? keys.get(`other:${key.slice("kit:".length)}`) : undefined;
      return twin === undefined ? [] : [{ key, type, twin }];
    });
    expect(twins.length).toBeGreaterThan(1_000);
    // A key that ended between SCAN and TYPE has the type "none".
    const lasting = twins.filter(({ type, twin }) => type !== "none" && twin !== "none");
    expect(lasting.filter(({ type, twin }) => type !== twin)).toEqual([]);
    for (const [at, shop] of shops.entries()) {
      const visitor = new Visitor(shop.origin);
      await visitor.signIn("u120");
      const { body } = await visitor.get(`/order/${orders[0] ?? ""}`);
      expect(body).toContain(`Hello from ${prefixes[at] ?? ""}`);
      expect(body).not.toContain(`Hello from ${prefixes[1 - at] ?? ""}`);
    }
  });

  it("neither shop's invariants are touched by the other", async () => {
    for (const shop of shops) {
      const { body } = await new Visitor(shop.origin).get("/invariants");
      const {
        money,
        openingMoney,
        items,
        openingItems,
        itemsTwice,
        sales = 0,
      } = JSON.parse(body) as Record<string, number>;
      expect([money, items, itemsTwice]).toEqual([openingMoney, openingItems, 0]);
      expect(sales).toBeGreaterThan(0);
    }
  });

  it("one closes for maintenance: buying there is refused, looking is not, and the other stays open", async () => {
    const [open, closed] = await Promise.all(
      shops.map(async (shop) => {
        const visitor = new Visitor(shop.origin);
        return { visitor, csrf: await visitor.signIn("u121") };
      }),
    );
    if (!open || !closed) throw new Error("there are two shops");
    const buy = async ({ visitor, csrf }: typeof open): Promise<number> => {
      const form = { csrf, request: "closed", price: "1", revision: "1", way: "lock" };
      return (await visitor.post("/item/i1/buy", form)).status;
    };
    expect((await closed.visitor.post("/ops/maintenance", { csrf: closed.csrf, on: "1" })).status).toBe(303);
    expect([await buy(open), await buy(closed)]).toEqual([303, 503]);
    expect((await closed.visitor.get("/item/i1")).body).toContain("Closed to buyers");
    await closed.visitor.post("/ops/maintenance", { csrf: closed.csrf, on: "0" });
    expect(await buy(closed)).toBe(303);
  });
});
