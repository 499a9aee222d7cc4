// Every package in one database, and two shops beside each other in it: no key is written by two of them.
import { connect, type Connection } from "@kit/core";
import { eventually, type RedisServer, startRedis } from "@kit/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { marketKeys } from "../src/keys.js";
import { type RunningShop, startShop, Visitor } from "./shop.js";

const prefixes = ["kit", "other"] as const;
/** The segment behind the prefix, by who writes it. `config` is core's. */
const segments = ["autocomplete", "chat", "config", "geoip", "lock", "logship", "queue", "semaphore", "shop", "stats"];

let server: RedisServer;
let redis: Connection;
let shops: readonly RunningShop[];

/** Every key, with its type. */
const allKeys = async (): Promise<Map<string, string>> => {
  const found: string[] = [];
  for (let cursor = "0"; ;) {
    const [next, keys] = await redis.scan(cursor, "COUNT", 1_000);
    found.push(...keys);
    if (next === "0") break;
    cursor = next;
  }
  const unique = [...new Set(found)];
  const types = await Promise.all(unique.map((key) => redis.type(key)));
  return new Map(unique.map((key, at) => [key, types[at] ?? "none"]));
};

/** A visitor who touches every package: search, lock, session, order, jobs, chat, statistics. */
const visit = async (shop: RunningShop, prefix: string): Promise<string> => {
  const keys = marketKeys("main", prefix);
  const visitor = new Visitor(shop.origin);
  const csrf = await visitor.signIn("u120");
  await redis.hincrby(keys.user("u120"), "funds", 100_000);
  await redis.hincrby(keys.totals, "money", 100_000);
  await visitor.get("/search?q=brass");
  const [id = ""] = await redis.zrange(keys.market, "0", "0");
  const price = (await redis.hget(keys.listing(id), "price")) ?? "";
  await redis.hincrby(keys.user("u120"), "funds", Number(price));
  await redis.hincrby(keys.totals, "money", Number(price));
  const form = { csrf, request: "here", price, revision: "1", way: "lock" };
  const bought = await visitor.post(`/item/${id}/buy`, form, "application/json");
  const { order } = JSON.parse(bought.body) as { order: string };
  await visitor.post(`/order/${order}/say`, { csrf, id: "hello", text: `Hello from ${prefix}` });
  return order;
};

beforeAll(async () => {
  server = await startRedis();
  redis = await connect(server.url);
  const started: RunningShop[] = [];
  for (const prefix of prefixes) started.push(await startShop("--redis", server.url, "--prefix", prefix));
  shops = started;
  for (const shop of shops) await shop.isComplete();
});
afterAll(async () => {
  for (const shop of shops) await shop.stop();
  await redis.close();
  await server.stop();
});

describe("In one database", () => {
  it("every key belongs to one package of one shop, and no shop sees the other's", async () => {
    const orders = await Promise.all(shops.map((shop, at) => visit(shop, prefixes[at] ?? "")));
    // The same buyer, item and request in both: everything that could meet does.
    expect(orders[0]).toBe(orders[1]);
    for (const prefix of prefixes)
      await eventually(
        async () => {
          const keys = marketKeys("main", prefix);
          expect(await redis.hget(keys.order(orders[0] ?? ""), "done:charge")).not.toBeNull();
          expect(await redis.hlen(`${prefix}:logship:{access}:channel`)).toBeGreaterThan(0);
        },
        { timeoutMs: 60_000 },
      );

    const keys = await allKeys();
    const unknown = [...keys.keys()].filter((key) => {
      const [prefix, segment] = key.split(":");
      return !prefixes.some((one) => one === prefix) || !segments.includes(segment ?? "");
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
      const visitor = new Visitor(shop.origin);
      const { money, openingMoney, items, openingItems, itemsTwice, sales } = JSON.parse(
        (await visitor.get("/invariants")).body,
      ) as Record<string, number>;
      expect([money, items, itemsTwice, sales]).toEqual([openingMoney, openingItems, 0, 1]);
    }
  });
});
