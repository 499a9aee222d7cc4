import { connect } from "@kit/core";
import { contract, eventually, FaultProxy } from "@kit/testing";
import { onMovingSlots } from "@tooling/vitest/helpers";
import { html } from "hono/html";
import { describe, expect, it, vi } from "vitest";
import { Accounts } from "../src/market/accounts.js";
import { Auditor } from "../src/market/auditor.js";
import { Live, watch } from "../src/web/live.js";
import type { Market, Offer, Purchase, Way } from "../src/market/market.js";
import * as scripts from "../src/scripts/index.js";
import { orderId, Orders, type Sale } from "../src/orders/orders.js";
import { marketKeys } from "../src/common/keys.js";
import { accountSessions, ordersQueue, sessionsPerPersona, shopChat, shopStats } from "../src/common/tools.js";
import { type Session, Sessions } from "../src/market/sessions.js";
import { dump, person, thing, useMarkets } from "./harness.js";

const fixture = useMarkets();
const ground = {
  get server() {
    return fixture.server;
  },
  get client() {
    return fixture.redis;
  },
};
onMovingSlots(ground, scripts);
const ways = ["lock", "optimistic"] as const;

const buyBy = (market: Market, way: Way, purchase: Partial<Purchase>, fencingToken = "100") => {
  const asked = { item: "i1", buyer: "b", price: 500, revision: 1, request: "r1", ...purchase };
  return way === "lock" ? market.buyUnder({ fencingToken }, asked) : market.buy(way, asked, "tester");
};

const listBy = (market: Market, way: Way, offer: Partial<Offer>, fencingToken = "100") => {
  const asked = { item: "i2", seller: "s", price: 700, revision: 1, request: "r1", ...offer };
  return way === "lock" ? market.listUnder({ fencingToken }, asked) : market.list(way, asked, "tester");
};

const open = (lifeMs?: number): Promise<Market> =>
  fixture.open(
    {
      users: [person("s", 0), person("b", 1_000), person("c", 100)],
      items: [thing("i1", "s", 500), thing("i2", "s", null)],
    },
    lifeMs,
  );

/** The data that an outcome leaves behind, without the fields that the two ways write differently on purpose. */
const left = async (market: Market): Promise<Record<string, unknown>> => {
  const content = await dump(fixture.redis, market.keys);
  for (const [name, value] of Object.entries(content)) {
    if (name.startsWith("item:")) delete (value as Record<string, string>)["fence"];
    if (name.startsWith("receipt:")) content[name] = String(value).replace(/ 100$/, "");
    if (name === "ledger") content[name] = (value as string[][]).map((fields) => fields.slice(0, 12));
  }
  return content;
};

describe("Scripts", () => {
  it("keep the contract of script files", async () => {
    const list = Object.values(scripts).map(({ name, sources, keys, args }) => ({ name, source: sources, keys, args }));
    expect(list.length).toBeGreaterThan(5);
    expect(await contract(list, fixture.server)).toEqual([]);
  });
});

describe("The presence of a person", () => {
  const accountsOf = async () => {
    const { keys } = await open();
    const sessions = new Sessions(fixture.redis, keys);
    const accounts = new Accounts(fixture.redis, keys, sessions, "kit");
    const isPresent = async (): Promise<boolean> => (await fixture.redis.exists(keys.present("s"))) === 1;
    const signIn = async (): Promise<Session> => {
      const session = await accounts.signIn("s", true);
      if (!session) throw new Error("five sessions are open");
      return session;
    };
    return { keys, accounts, signIn, isPresent };
  };

  it("ends with the last of their sessions", async () => {
    const { accounts, signIn, isPresent } = await accountsOf();
    const [one, other] = [await signIn(), await signIn()];
    await accounts.signOut(one);
    expect(await isPresent()).toBe(true);
    await accounts.signOut(other);
    expect(await isPresent()).toBe(false);
    await accounts.close();
  });

  it("is prolonged by their visits, ten minutes apart at least, and started by none", async () => {
    const { keys, accounts, signIn, isPresent } = await accountsOf();
    const session = await signIn();
    const minuteMs = 60_000;
    let clockMs = performance.now();
    const visitAfter = (ms: number): void => {
      const clock = vi.spyOn(performance, "now").mockReturnValue((clockMs += ms));
      accounts.seen(session);
      clock.mockRestore();
    };
    visitAfter(0);
    await fixture.redis.pexpire(keys.present("s"), minuteMs);
    visitAfter(11 * minuteMs);
    await eventually(async () => expect(await fixture.redis.pttl(keys.present("s"))).toBeGreaterThan(20 * minuteMs));
    await fixture.redis.del(keys.present("s"));
    visitAfter(11 * minuteMs);
    expect(await isPresent()).toBe(false);
    await accounts.signOut(session);
    await accounts.close();
  });
});

describe("The seat of a session", () => {
  const minuteMs = 60_000;

  it("is given back when the session cannot be opened", async () => {
    const { keys } = await open();
    const gone = await connect(fixture.server.url);
    await gone.close();
    const accounts = new Accounts(fixture.redis, keys, new Sessions(gone, keys), "kit");
    for (let n = 0; n <= sessionsPerPersona; n++)
      await expect(accounts.signIn("refused", true)).rejects.toThrow(/was not sent/);
    expect(await accounts.open("refused")).toBe(0);
    await accounts.close();
  });

  it("is kept for a minute, until the first visit keeps it for as long as the session", async () => {
    const { keys } = await open();
    const accounts = new Accounts(fixture.redis, keys, new Sessions(fixture.redis, keys), "kit");
    const seats = accountSessions(fixture.redis, "kit", minuteMs);
    const msLeft = async (): Promise<number> => (await seats.inspect({ tenant: "kept" })).holders[0]?.msLeft ?? 0;
    const session = await accounts.signIn("kept", true);
    if (!session) throw new Error("no seat");
    expect(await msLeft()).toBeLessThanOrEqual(minuteMs);
    accounts.seen(session);
    await eventually(async () => expect(await msLeft()).toBeGreaterThan(11 * 60 * minuteMs));
    await accounts.signOut(session);
    expect(await accounts.open("kept")).toBe(0);
    await accounts.close();
    await seats.close();
  });

  it("is kept by the next visit when Redis did not answer at the first", async () => {
    const { keys } = await open();
    await using proxy = await FaultProxy.start({ port: Number(new URL(fixture.server.url).port) });
    await using own = await connect({ url: proxy.url, options: { commandTimeout: 500 } });
    const sessions = new Sessions(own, keys);
    const accounts = new Accounts(fixture.redis, keys, sessions, "kit");
    const seats = accountSessions(fixture.redis, "kit", minuteMs);
    const session = await accounts.signIn("late", true);
    if (!session) throw new Error("no seat");
    const permit = vi.spyOn(sessions, "permit");
    proxy.down.hole = true;
    accounts.seen(session);
    await expect(permit.mock.results[0]?.value).rejects.toThrow("timed out");
    proxy.heal();
    await eventually(async () => {
      accounts.seen(session);
      expect((await seats.inspect({ tenant: "late" })).holders[0]?.msLeft).toBeGreaterThan(11 * 60 * minuteMs);
    });
    await accounts.signOut(session);
    await accounts.close();
    await seats.close();
  });
});

describe("Live streams", () => {
  it("share their looks: twenty streams look at a thing four times a second at most, and only so many are opened", async () => {
    const market = await open();
    const live = new Live(new Auditor(market, ["s", "b", "c"]));
    let looks = 0;
    const startedAt = performance.now();
    const one = watch({
      ...{ key: "item", everyTicks: 1, parts: (seen: number) => [["lock", html`${seen}`]] as const },
      look: () => Promise.resolve(++looks),
    });
    const streams = Array.from({ length: 20 }, () => live.open([one]));
    const readers = streams.map((stream) => stream?.getReader());
    const texts = await Promise.all(
      readers.map(async (reader) => {
        let text = "";
        while (!text.includes("#lock")) text += new TextDecoder().decode((await reader?.read())?.value);
        return text;
      }),
    );
    for (const text of texts) expect(text).toMatch(/id: [\w.-]+\ndata: .*hx-target="#bar-money".*hx-target="#lock"/);
    await eventually(() => expect(looks).toBeGreaterThan(4));
    // One for each stream that was opened, and one for each quarter of a second.
    expect(looks).toBeLessThanOrEqual(20 + (performance.now() - startedAt) / 250 + 1);
    expect(Array.from({ length: 181 }, () => live.open([])).filter((stream) => stream === null)).toHaveLength(1);
    live.close();
  });

  it("continue next to one whose parts cannot be drawn", async () => {
    const market = await open();
    const live = new Live(new Auditor(market, ["s", "b", "c"]));
    const look = (): Promise<number> => Promise.resolve(1);
    const broken = watch({
      ...{ key: "broken", everyTicks: 1, look },
      parts: () => {
        throw new Error("a step that cannot be read");
      },
    });
    const fine = watch({ ...{ key: "fine", everyTicks: 1, look }, parts: () => [["lock", html`drawn`]] as const });
    live.open([broken]);
    const reader = live.open([fine])?.getReader();
    let text = "";
    while (!text.includes("drawn")) text += new TextDecoder().decode((await reader?.read())?.value);
    expect(text).toContain("#lock");
    live.close();
  });

  it("are resumed by the id of the last event: what changed since comes, what did not is not sent again", async () => {
    const market = await open();
    const live = new Live(new Auditor(market, ["s", "b", "c"]));
    const state = { jobs: "one done", chat: "hello" };
    const all = watch({
      ...{ key: "order", everyTicks: 1, look: () => Promise.resolve({ ...state }) },
      parts: (seen: typeof state) => [["jobs", html`${seen.jobs}`] as const, ["chat", html`${seen.chat}`] as const],
    });
    /** The first event of a stream: its id, and the parts that it fills. */
    const first = async (lastEventId: string): Promise<{ id: string; targets: string[] }> => {
      const reader = live.open([all], lastEventId)?.getReader();
      let text = "";
      while (!text.includes("data: ")) text += new TextDecoder().decode((await reader?.read())?.value);
      await reader?.cancel();
      const targets = [...text.matchAll(/hx-target="#([\w-]+)"/g)].map(([, target = ""]) => target);
      return { id: /^id: (.*)$/m.exec(text)?.[1] ?? "", targets };
    };
    const { id, targets } = await first("");
    expect(targets).toEqual(["bar-money", "bar-items", "bar-sales", "jobs", "chat"]);
    state.chat = "hello, and goodbye";
    expect(await first(id)).toEqual({ id: expect.not.stringMatching(id) as string, targets: ["chat"] });
    // An id of another page, or of nothing, hides nothing.
    expect((await first("x.y")).targets).toEqual(targets);
    live.close();
  });
});

describe.each(ways)("Buying (%s)", (way) => {
  it("sells: money and item move, the listing goes, the ledger and the receipt say so", async () => {
    const market = await open();
    const outcome = await buyBy(market, way, {});
    expect(outcome).toMatchObject({ kind: "sold", price: 500, repeat: false });
    expect(await left(market)).toMatchObject({
      "user:s": { funds: "500" },
      "user:b": { funds: "500" },
      "inventory:b": ["i1"],
      "item:i1": { revision: "2" },
      "receipt:b:buy:i1:1:500:r1": "s",
      ledger: [["request", "r1", "item", "i1", "seller", "s", "buyer", "b", "price", "500", "revision", "1"]],
      totals: { sales: "1" },
    });
    const content = await left(market);
    for (const gone of ["listing:i1", "market", "shelf:books"]) expect(content).not.toHaveProperty([gone]);
  });

  it("answers the same request with its first result, and sells once", async () => {
    const market = await open();
    await buyBy(market, way, {});
    const before = await left(market);
    expect(await buyBy(market, way, {})).toMatchObject({ kind: "sold", price: 500, repeat: true });
    expect(await left(market)).toEqual(before);
  });

  it("takes a request id that was used for another item for another request: that item is sold", async () => {
    const market = await fixture.open({
      users: [person("s", 0), person("b", 1_000)],
      items: [thing("i1", "s", 500), thing("i3", "s", 200)],
    });
    await buyBy(market, way, {});
    const second = await buyBy(market, way, { item: "i3", price: 200 });
    expect(second).toMatchObject({ kind: "sold", price: 200, repeat: false });
    expect(await market.owns("b", "i3")).toBe(true);
    // Nor does it repeat a listing, or the sale at another price or revision.
    expect(await listBy(market, way, { item: "i3", seller: "b", revision: 2, price: 300 })).toMatchObject({
      kind: "listed",
      repeat: false,
    });
    expect(await buyBy(market, way, { price: 501 })).toEqual({ kind: "not-for-sale" });
    expect(await buyBy(market, way, { revision: 2 })).toEqual({ kind: "not-for-sale" });
  });

  it("gives the receipt of one buyer to nobody else", async () => {
    const market = await open();
    await buyBy(market, way, {});
    expect(await buyBy(market, way, { buyer: "c" })).toEqual({ kind: "not-for-sale" });
  });

  const refusals = [
    ["an item that is not listed", { item: "i2" }, { kind: "not-for-sale" }],
    ["an item that does not exist", { item: "i9" }, { kind: "not-for-sale" }],
    ["another price than the buyer saw", { price: 499 }, { kind: "price-changed", price: 500 }],
    ["another listing than the buyer saw", { revision: 2 }, { kind: "changed" }],
    ["a buyer without the money", { buyer: "c" }, { kind: "short", funds: 100 }],
    ["a buyer nobody knows", { buyer: "x" }, { kind: "short", funds: 0 }],
    ["the seller", { buyer: "s" }, { kind: "own-item" }],
  ] as const;
  it.each(refusals)("refuses %s and changes nothing", async (_, purchase, outcome) => {
    const market = await open();
    const before = await left(market);
    expect(await buyBy(market, way, purchase)).toEqual(outcome);
    expect(await left(market)).toEqual(before);
  });

  it("gives a market with a life no key without one", async () => {
    const market = await open(60_000);
    await buyBy(market, way, {});
    await listBy(market, way, { request: "r2" });
    const { redis } = fixture;
    const names = await redis.keys(market.keys.totals.replace(/totals$/, "*"));
    expect(names.length).toBeGreaterThan(8);
    for (const name of names) expect([name, (await redis.pttl(name)) > 0]).toEqual([name, true]);
  });
});

describe.each(ways)("Listing (%s)", (way) => {
  it("puts an item up for sale", async () => {
    const market = await open();
    expect(await listBy(market, way, {})).toEqual({ kind: "listed", price: 700, repeat: false });
    const content = await left(market);
    expect(content).toMatchObject({
      "item:i2": { revision: "2" },
      "listing:i2": { price: "700", seller: "s" },
      "receipt:s:list:i2:1:700:r1": "listed",
      market: ["i1", "1", "i2", "3"],
      "shelf:books": ["i1", "1", "i2", "3"],
      totals: { listings: "3" },
    });
    expect(content).not.toHaveProperty(["inventory:s"]);
  });

  it("gives a listing of the same seller another price", async () => {
    const market = await open();
    expect(await listBy(market, way, { item: "i1", price: 450 })).toEqual({ kind: "repriced", price: 450 });
    expect(await market.item("i1")).toMatchObject({ revision: 2, listing: { price: 450, seller: "s" } });
    expect(await buyBy(market, way, {})).toEqual({ kind: "price-changed", price: 450 });
  });

  it("answers the same request with its first result", async () => {
    const market = await open();
    await listBy(market, way, {});
    const before = await left(market);
    expect(await listBy(market, way, {})).toEqual({ kind: "listed", price: 700, repeat: true });
    // The same form with another price is another request, and its page is out of date.
    expect(await listBy(market, way, { price: 800 })).toEqual({ kind: "changed" });
    expect(await left(market)).toEqual(before);
  });

  const refusals = [
    ["an item of somebody else", { seller: "b" }, { kind: "not-yours" }],
    ["a listing of somebody else", { item: "i1", seller: "b" }, { kind: "not-yours" }],
    ["an item that does not exist", { item: "i9" }, { kind: "not-yours" }],
    ["an item that changed since", { revision: 7 }, { kind: "changed" }],
  ] as const;
  it.each(refusals)("refuses %s and changes nothing", async (_, offer, outcome) => {
    const market = await open();
    const before = await left(market);
    expect(await listBy(market, way, offer)).toEqual(outcome);
    expect(await left(market)).toEqual(before);
  });
});

describe("Accepting an offer", () => {
  it("sells, although the buyer has used its request id for something else", async () => {
    const market = await open();
    await listBy(market, "lock", { item: "i2", price: 300 });
    await fixture.redis.hset(market.keys.offers("i2"), "b", "250 2");
    const request = "offer-i2-2";
    expect(await buyBy(market, "lock", { request })).toMatchObject({ kind: "sold", price: 500 });
    const accepted = await buyBy(market, "lock", { item: "i2", price: 250, revision: 2, request, isOffer: true });
    expect(accepted).toMatchObject({ kind: "sold", price: 250, repeat: false });
    expect(await market.owns("b", "i2")).toBe(true);
  });
});

describe("Both ways", () => {
  it("leave the same market behind", async () => {
    const contents = [];
    for (const way of ways) {
      const market = await open();
      await buyBy(market, way, {});
      await listBy(market, way, { request: "r2" });
      await listBy(market, way, { request: "r3", revision: 2, price: 650 });
      await listBy(market, way, { request: "r4", item: "i1", seller: "b", revision: 2 });
      contents.push(await left(market));
    }
    expect(contents[0]).toEqual(contents[1]);
  });
});

describe("Fencing token", () => {
  it("refuses a purchase and a listing older than the newest token seen", async () => {
    const market = await open();
    await listBy(market, "lock", { item: "i1", price: 500 }, "101");
    expect(await buyBy(market, "lock", { revision: 2 }, "100")).toEqual({ kind: "stale-fence", fence: "101" });
    expect(await listBy(market, "lock", { item: "i1", request: "r2", revision: 2 }, "100")).toEqual({
      kind: "stale-fence",
      fence: "101",
    });
    expect(await buyBy(market, "lock", { revision: 2 }, "101")).toMatchObject({ kind: "sold" });
  });

  it("counts as seen when its write was refused", async () => {
    const market = await open();
    expect(await buyBy(market, "lock", { buyer: "c" }, "200")).toMatchObject({ kind: "short" });
    expect(await buyBy(market, "lock", {}, "199")).toEqual({ kind: "stale-fence", fence: "200" });
  });

  it("is compared as a number, also past the digits a double can hold", async () => {
    const market = await open();
    await buyBy(market, "lock", { buyer: "c" }, "9007199254740993");
    expect(await buyBy(market, "lock", {}, "9007199254740992")).toMatchObject({ kind: "stale-fence" });
    expect(await buyBy(market, "lock", {}, "999")).toMatchObject({ kind: "stale-fence" });
    expect(await buyBy(market, "lock", {}, "10000000000000000")).toMatchObject({ kind: "sold" });
  });

  it("of a holder from before a sale without a lock buys nothing: sold and offered again at the same price", async () => {
    const market = await open();
    // Somebody holds the lock under token 100 and sleeps; others trade without one.
    expect(await buyBy(market, "optimistic", {})).toMatchObject({ kind: "sold" });
    expect(await buyBy(market, "lock", { buyer: "c", price: 500 }, "100")).toEqual({ kind: "not-for-sale" });
    await listBy(market, "optimistic", { item: "i1", seller: "b", price: 500, revision: 2, request: "r2" });
    await fixture.redis.hset(market.keys.user("c"), "funds", 1_000);
    expect(await buyBy(market, "lock", { buyer: "c", price: 500 }, "100")).toEqual({ kind: "changed" });
  });
});

describe("A line of the price list", () => {
  it("is written by the newest re-pricing only, and the list expires after it", async () => {
    const { keys } = await open();
    const write = (line: string, fencingToken: string): Promise<boolean> =>
      scripts.reprice.run(
        fixture.redis,
        { prices: keys.prices },
        { category: "toys", line, fencingToken, lifeMs: 60_000 },
      );
    expect(await write("2 500", "100")).toBe(true);
    expect(await write("2 600", "100")).toBe(true);
    expect(await fixture.redis.hgetall(keys.prices)).toEqual({ toys: "2 600", fence: "100" });
    await fixture.redis.pexpire(keys.prices, 1_000);
    expect(await write("3 700", "99")).toBe(false);
    expect(await fixture.redis.pttl(keys.prices)).toBeLessThanOrEqual(1_000);
    expect(await write("4 800", "1000")).toBe(true);
    expect(await fixture.redis.hgetall(keys.prices)).toEqual({ toys: "4 800", fence: "1000" });
    expect(await fixture.redis.pttl(keys.prices)).toBeGreaterThan(1_000);
  });
});

describe("A visit", () => {
  const sessionsOf = async (): Promise<{ sessions: Sessions; market: Market }> => {
    const market = await open();
    return { market, sessions: new Sessions(fixture.redis, market.keys) };
  };

  it("finds its session, returns a notice once, and remembers nothing without an item", async () => {
    const { sessions, market } = await sessionsOf();
    const session = await sessions.open("b");
    await sessions.notify(session, "hello");
    expect(await sessions.visit(session.id)).toMatchObject({
      user: "b",
      csrf: session.csrf,
      notice: "hello",
      recent: [],
    });
    expect(await sessions.visit(session.id)).toMatchObject({ notice: "" });
    expect(await fixture.redis.exists(market.keys.views)).toBe(0);
  });

  it("is nobody's with an unknown id, and writes nothing then", async () => {
    const { sessions, market } = await sessionsOf();
    expect(await sessions.visit("A".repeat(22), "i1")).toBeNull();
    expect(await fixture.redis.exists(market.keys.views)).toBe(0);
  });

  it("keeps the newest 25 items, each once, and counts every view", async () => {
    const { sessions } = await sessionsOf();
    const session = await sessions.open("b");
    // The only one, a second time.
    await sessions.visit(session.id, "i1");
    expect(await sessions.visit(session.id, "i1")).toMatchObject({ recent: ["i1"] });
    for (let n = 1; n <= 30; n++) await sessions.visit(session.id, `i${n}`);
    const seen = await sessions.visit(session.id, "i20");
    expect(seen?.recent).toHaveLength(25);
    expect(seen?.recent.slice(0, 2)).toEqual(["i20", "i30"]);
    expect(seen?.recent.filter((item) => item === "i20")).toHaveLength(1);
    expect(seen?.views).toBe(2);
  });

  it("is over at the end of the session, however often it was used", async () => {
    const { sessions, market } = await sessionsOf();
    const session = await sessions.open("b");
    const [key] = await fixture.redis.keys(market.keys.session("*"));
    await fixture.redis.hset(key ?? "", "endsAt", Date.now() - 1);
    expect(await sessions.visit(session.id)).toBeNull();
  });

  it("leaves no key behind when a word comes after the session", async () => {
    const { sessions, market } = await sessionsOf();
    const session = await sessions.open("b");
    await sessions.close(session);
    await sessions.notify(session, "too late");
    expect(await fixture.redis.keys(market.keys.session("*"))).toEqual([]);
  });
});

describe("The audit", () => {
  it("finds money made from nothing, an item in two places, a lost one, and debt", async () => {
    const market = await open();
    const { redis } = fixture;
    const users = ["s", "b", "c"];
    const fine = { openingMoney: 1_100, money: 1_100, openingItems: 2, items: 2, itemsTwice: 0, inDebt: 0, listed: 1 };
    expect(await market.audit(users)).toMatchObject(fine);
    await redis.hincrby(market.keys.user("b"), "funds", 1);
    expect(await market.audit(users)).toMatchObject({ money: 1_101 });
    await redis.hincrby(market.keys.user("c"), "funds", -200);
    expect(await market.audit(users)).toMatchObject({ money: 901, inDebt: 1 });
    await redis.sadd(market.keys.inventory("b"), "i1");
    expect(await market.audit(users)).toMatchObject({ items: 2, itemsTwice: 1 });
    await redis.srem(market.keys.inventory("s"), "i2");
    expect(await market.audit(users)).toMatchObject({ items: 1 });
  });
});

describe("An order", () => {
  /** Orders of a market of their own, on the packages as the shop uses them. */
  const ordersOf = async (prefix: string) => {
    const { redis } = fixture;
    const queue = ordersQueue(redis, prefix);
    const chat = shopChat(redis, prefix);
    const { stats, sales } = shopStats(redis, prefix);
    const keys = marketKeys("main", prefix);
    return {
      ...{ keys, queue, chat },
      orders: new Orders({ redis, keys, queue, chat, sales }),
      counted: async (): Promise<number> => {
        await stats.flush();
        return await sales.total();
      },
      close: async () => {
        await queue.close();
        await chat.close();
        await stats.close();
      },
    };
  };
  const sale: Sale = { request: "r", item: "i1", buyer: "u1", seller: "u2", price: 5, revision: 1, at: 1 };

  it("is placed once, if it is placed often and at the same time: one order, each job once, one sale counted", async () => {
    const { orders, chat, counted, close } = await ordersOf("kit");
    const placed = await Promise.all([orders.place(sale), orders.place(sale), orders.place(sale)]);
    placed.push(await orders.place(sale));
    const [id = ""] = new Set(placed.map((order) => order.id));
    expect(placed.map((order) => order.id)).toEqual([id, id, id, id]);
    expect(placed.filter(({ isNew }) => isNew)).toHaveLength(1);
    // The payment and the stock; the other three wait for children, and the review for its day.
    expect(await fixture.redis.llen("kit:queue:{orders}:waiting")).toBe(2);
    expect(await fixture.redis.zcard("kit:queue:{orders}:delayed")).toBe(4);
    expect((await chat.inspect(`order:${id}`)).messages).toBe(1);
    expect(await counted()).toBe(1);
    await close();
  });

  it("that cannot be placed does not hold up the sales after it, and is placed once it can be", async () => {
    const { orders, keys, counted, close } = await ordersOf("stuck");
    const { redis } = fixture;
    const other = { ...sale, item: "i2" };
    // A request may have any name, also that of a field.
    for (const { item, buyer, seller, price, revision, request } of [
      sale,
      other,
      { ...sale, item: "i3", request: "seller" },
    ])
      await redis.xadd(
        keys.ledger,
        ...["*", "request", request, "item", item, "seller", seller, "buyer", buyer],
        ...["price", price, "revision", revision, "way", "lock", "fence", "1"],
      );
    await redis.set(keys.order(orderId(sale)), "no hash");
    while ((await orders.dispatch()) > 0);
    expect(await orders.order(orderId(other))).toMatchObject({ item: "i2" });
    expect((await orders.newest(5)).map(({ item, seller }) => [item, seller])).toEqual(
      expect.arrayContaining([
        ["i2", "u2"],
        ["i3", "u2"],
      ]),
    );
    expect(await orders.undispatched()).toBe(1);
    await redis.del(keys.order(orderId(sale)));
    await orders.dispatch();
    expect(await orders.order(orderId(sale))).toMatchObject({ item: "i1" });
    expect(await orders.undispatched()).toBe(0);
    expect(await counted()).toBe(3);
    await close();
  });

  it("has its own id: another item, another revision, and room for a billion", () => {
    const ids = [sale, { ...sale, item: "i2" }, { ...sale, revision: 2 }, { ...sale, buyer: "u3" }].map(orderId);
    expect(new Set(ids).size).toBe(4);
    const letters = ids[0]?.replaceAll("-", "").length ?? 0;
    // Of a billion ids, two are the same once in a million shops.
    expect(1e9 ** 2 / 2 / 32 ** letters).toBeLessThan(1e-6);
  });
});
