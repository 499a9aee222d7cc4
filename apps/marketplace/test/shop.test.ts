// The shop as a whole, over HTTP: what follows a sale, who may see what, and what the operator's switches do.
import { eventually } from "@kit/testing";
import { connect, type Connection } from "@kit/core";
import { createLock } from "@kit/lock";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask, field } from "../src/http-client.js";
import { marketKeys } from "../src/keys.js";
import { Market } from "../src/market.js";
import { orderId, Orders, type Step } from "../src/orders.js";
import { screens } from "../src/screens.js";
import { ordersQueue, sessionsPerPersona, shopChat } from "../src/tools.js";
import { type RedisServer, startRedis } from "@kit/testing";
import { freePort, type RunningShop, startShop, Visitor } from "./shop.js";

const json = "application/json";
const keys = marketKeys("main");
const slow = { timeoutMs: 40_000 };

let server: RedisServer;
let shop: RunningShop;
let redis: Connection;

beforeAll(async () => {
  server = await startRedis();
  redis = await connect(server.url);
  shop = await startShop("--redis", server.url, "--port", await freePort());
  await shop.isComplete();
});
afterAll(async () => {
  await shop.stop();
  await redis.close();
  await server.stop();
});

/** What is for sale for little money, and not of this seller. */
const cheap = async (skip: number): Promise<{ id: string; price: string; seller: string; revision: string }> => {
  for (const id of (await redis.zrange(keys.market, "0", "-1")).slice(skip)) {
    const { price = "", seller = "" } = await redis.hgetall(keys.listing(id));
    if (Number(price) < 5_000)
      return { id, price, seller, revision: (await redis.hget(keys.item(id), "revision")) ?? "" };
  }
  throw new Error("nothing is cheap");
};

const enrich = async (user: string): Promise<void> => {
  await redis.hincrby(keys.user(user), "funds", 10_000);
  await redis.hincrby(keys.totals, "money", 10_000);
};

const buy = async (
  user: string,
  skip: number,
): Promise<{ visitor: Visitor; order: string; seller: string; csrf: string; item: string }> => {
  await enrich(user);
  const visitor = new Visitor(shop.origin);
  const csrf = await visitor.signIn(user);
  const { id, price, revision, seller } = await cheap(skip);
  const form = { csrf, request: `r-${user}-${skip}`, price, revision, way: "lock" };
  const bought = await visitor.post(`/item/${id}/buy`, form, json);
  const { order } = JSON.parse(bought.body) as { order: string };
  return { visitor, order, seller, csrf, item: id };
};

const steps = async (order: string): Promise<Step[]> =>
  (await redis.lrange(keys.steps(order), 0, -1)).map((text) => JSON.parse(text) as Step);

describe("After a sale", () => {
  it("charge, label and receipt are done once each, under a permit, and the seller answers in the chat", async () => {
    const { visitor, order, csrf } = await buy("u100", 0);
    await visitor.post(`/order/${order}/say`, { csrf, id: "m1", text: "Does it still work?" });
    await visitor.post(`/order/${order}/say`, { csrf, id: "m1", text: "Does it still work?" });
    await eventually(async () => {
      const done = await redis.hmget(keys.order(order), "done:charge", "done:label", "done:receipt");
      expect(done.filter((at) => at === null)).toEqual([]);
    }, slow);
    const all = await eventually(async () => {
      const seen = await steps(order);
      for (const job of ["charge", "label", "receipt"])
        expect(seen.filter((step) => step.job === job && step.what === "done")).toHaveLength(1);
      return seen;
    }, slow);
    expect(all.some(({ job, what }) => job === "charge" && what === "slot")).toBe(true);
    await eventually(async () => {
      const { body } = await visitor.get(`/order/${order}`);
      expect(body).toContain("As described");
      expect(body.match(/Does it still work\?/g)).toHaveLength(1);
    }, slow);
    await eventually(
      async () => expect((await visitor.get("/mail")).body).toContain(`Receipt for order ${order}`),
      slow,
    );
    // The review waits in the queue until it is due.
    expect(await redis.zcard("kit:queue:{orders}:delayed")).toBeGreaterThan(0);
  });

  it("a sale whose web process died right after it gets its order from a worker", async () => {
    await enrich("u101");
    const lock = createLock(redis);
    const { id, price, revision } = await cheap(60);
    const purchase = { item: id, buyer: "u101", price: Number(price), revision: Number(revision), request: "died" };
    const market = new Market(redis, lock, "main");
    expect(await market.buy("lock", purchase, "u101")).toMatchObject({ kind: "sold" });
    const order = orderId(purchase);
    expect(await redis.exists(keys.order(order))).toBe(0);
    await eventually(async () => expect(await redis.hget(keys.order(order), "done:charge")).not.toBeNull(), slow);
    await lock.close();
  });

  it("placing it twice, and at the same time, gives one order and each job once", async () => {
    const queue = ordersQueue(redis, "twice");
    const chat = shopChat(redis, "twice");
    const own = marketKeys("main", "twice");
    const orders = new Orders({ redis, keys: own, queue, chat });
    const sale = { request: "r", item: "i1", buyer: "u1", seller: "u2", price: 5, at: 1 };
    const ids = await Promise.all([orders.place(sale), orders.place(sale), orders.place(sale)]);
    await orders.place(sale);
    expect(new Set(ids).size).toBe(1);
    expect(await redis.llen("twice:queue:{orders}:waiting")).toBe(3);
    expect(await redis.zcard("twice:queue:{orders}:delayed")).toBe(1);
    expect((await chat.inspect(`order:${ids[0] ?? ""}`)).messages).toBe(1);
    await queue.close();
    await chat.close();
  });
});

describe("What is only somebody's", () => {
  it.each([
    ["another buyer", "u103", 404],
    ["nobody", null, 401],
  ] as const)("an order is not there for %s: page, chat, stream", async (_, user, status) => {
    const { order } = await buy("u102", 120);
    const other = new Visitor(shop.origin);
    const csrf = user === null ? "" : await other.signIn(user);
    expect((await other.get(`/order/${order}`)).status).toBe(status);
    expect((await other.get(`/live?order=${order}`)).status).toBe(status);
    expect((await other.post(`/order/${order}/say`, { csrf, id: "x", text: "hello" })).status).toBe(status);
  });

  it("an order is there for its seller, too, with what they have not read; reading it is seen", async () => {
    const { visitor, order, seller, csrf } = await buy("u104", 160);
    const other = new Visitor(shop.origin);
    await other.signIn(seller);
    // A person plays the seller now, so the program leaves the message unread.
    await visitor.post(`/order/${order}/say`, { csrf, id: "q", text: "Anybody there?" });
    expect((await other.get("/")).body).toMatch(/class="badge"\s*>\d/);
    expect((await visitor.get(`/order/${order}`)).body).toMatch(/class="seen">\s*Sent/);
    const page = await other.get(`/order/${order}`);
    expect([page.status, page.body]).toEqual([200, expect.stringContaining("Anybody there?")]);
    expect((await visitor.get(`/order/${order}`)).body).toMatch(/class="seen">\s*Seen by/);
  });

  it("a chat of two is not there for a third, and cannot be begun by its address", async () => {
    const third = new Visitor(shop.origin);
    const csrf = await third.signIn("u105");
    expect((await third.get("/messages/with/u106")).status).toBe(404);
    expect((await third.post("/messages/with/u106/say", { csrf, id: "x", text: "hello" })).status).toBe(404);
    for (const id of ["u105", "u0", "support", "a~b", "{x}"])
      expect((await third.get(`/messages/with/${id}`)).status).toBe(404);
  });
});

describe("Names and messages of all kinds", () => {
  const nasty = [
    "<script>alert(1)</script>",
    `"onmouseover="alert(1)`,
    "{{7*7}} ${7*7}",
    "‮ evil",
    "𝒵̵͖ 👨‍👩‍👧 क्षि",
    "a\u2028b",
  ];

  it.each(nasty)("are text, and nothing else: %j", async (text) => {
    const { visitor, order, csrf } = await buy("u107", 200 + nasty.indexOf(text) * 15);
    expect((await visitor.post(`/order/${order}/say`, { csrf, id: "n", text })).status).toBe(303);
    const { body } = await visitor.get(`/order/${order}`);
    expect(body).not.toContain("<script>alert");
    expect(body).not.toMatch(/<[^>]* onmouseover=/);
    const found = await visitor.get(`/search?q=${encodeURIComponent(text)}`);
    expect(found.status).toBe(200);
    expect(found.body).not.toContain("<script>alert");
    expect((await visitor.get(`/suggest?q=${encodeURIComponent(text)}`)).status).toBe(200);
  });

  it.each([
    ["nothing", ""],
    ["blanks", "   "],
    ["too much", "x".repeat(2_001)],
  ])("are refused: %s", async (_, text) => {
    const { visitor, order, csrf } = await buy("u108", 300);
    expect((await visitor.post(`/order/${order}/say`, { csrf, id: "n", text })).status).toBe(400);
  });
});

describe("Sessions", () => {
  it("are five of one persona at most; the sixth is told so, and has room when one leaves", async () => {
    const devices = Array.from({ length: sessionsPerPersona }, () => new Visitor(shop.origin));
    for (const device of devices) await device.signIn("u110");
    const sixth = new Visitor(shop.origin);
    const page = await sixth.get("/personas");
    const refused = await sixth.post("/login", { user: "u110", csrf: field(page.body, "csrf") });
    expect([refused.status, refused.body]).toEqual([429, expect.stringContaining("5 sessions open already")]);
    await devices[0]?.leave();
    await sixth.signIn("u110");
    expect((await sixth.get("/me")).status).toBe(200);
  });
});

describe("The operator", () => {
  it("closes for maintenance: buying is refused, looking is not; and opens again", async () => {
    const { visitor, csrf } = await buy("u111", 400);
    const { id, price, revision } = await cheap(440);
    const form = { csrf, request: "closed", price, revision, way: "lock" };
    expect((await visitor.post("/ops/maintenance", { csrf, on: "1" })).status).toBe(303);
    expect((await visitor.post(`/item/${id}/buy`, form)).status).toBe(503);
    expect((await visitor.get(`/item/${id}`)).body).toContain("Closed to buyers");
    await visitor.post("/ops/maintenance", { csrf, on: "0" });
    await enrich("u111");
    expect((await visitor.post(`/item/${id}/buy`, form)).status).toBe(303);
  });

  it("sees every package at work, and a program may read it", async () => {
    const { body } = await ask(shop.origin, "/ops");
    for (const name of ["worker 1", "worker 2", "worker 3", "partners", "sellers", "shipper", "countries", "status"])
      expect(body).toContain(`<b>${name}</b>`);
    const metrics = await ask(shop.origin, "/metrics");
    expect(metrics.body).toMatch(/^# TYPE shop_request_ms histogram$/m);
    expect(metrics.body).toMatch(/^shop_jobs_total\{job="charge",outcome="done"\} [1-9]/m);
  });

  it("has no faults, races and moves in a Redis of somebody else", async () => {
    const visitor = new Visitor(shop.origin);
    const csrf = await visitor.signIn("u112");
    expect((await visitor.get("/faults")).body).toContain("Switched off");
    for (const [path, form] of [
      ["/faults", { fault: "worker" }],
      ["/race/pause", {}],
      ["/pipeline", {}],
      ["/ops/logs", {}],
    ] as const)
      expect([path, (await visitor.post(path, { csrf, ...form })).status]).toEqual([path, 403]);
  });

  it.each([
    "/faults",
    "/race/pause",
    "/pipeline",
    "/ops/letters",
    "/ops/maintenance",
    "/ops/logs",
    "/logs/ship",
    "/messages/send",
  ])("%s wants a form of this very session", async (path) => {
    const visitor = new Visitor(shop.origin);
    await visitor.signIn("u113");
    expect((await visitor.post(path, { csrf: "AAAAAAAAAAAAAAAAAAAAAA" })).status).toBe(403);
    expect((await ask(shop.origin, path, { form: {} })).status).toBeGreaterThanOrEqual(401);
    const { headers } = { headers: { origin: "http://evil.example" } };
    expect((await ask(shop.origin, path, { cookie: visitor.cookie, form: {}, headers })).status).toBe(403);
  });

  it.each([
    "/live?on=nothing",
    "/live?on=__proto__",
    "/live?order=x",
    "/live?with=u1",
    "/stats?span=x",
    "/stats?route=x",
    "/seller/u0",
    "/docs/../../etc",
  ])("finds nothing under %s", async (path) => {
    expect([401, 404]).toContain((await ask(shop.origin, path)).status);
  });
});

describe("What a screen says of itself", () => {
  it.each(screens.map((screen) => [screen.name, screen] as const))(
    "%s: its code is there, and short",
    (_, { code, packages, keys: of }) => {
      const lines = code.split("\n");
      expect(lines.length).toBeGreaterThanOrEqual(5);
      expect(lines.length).toBeLessThanOrEqual(12);
      expect(packages.length).toBeGreaterThan(0);
      expect(of.length).toBeGreaterThan(0);
    },
  );

  it("every package that it names has its README here", async () => {
    for (const name of new Set(screens.flatMap(({ packages }) => packages))) {
      const { status, body } = await ask(shop.origin, `/docs/${name}`);
      expect([name, status]).toEqual([name, 200]);
      expect(body).toContain(`@kit/${name}`);
    }
    expect((await ask(shop.origin, "/docs/nothing")).status).toBe(404);
  });
});
