// The shop as a whole, over HTTP: what follows a sale, who may see what, and what the operator's switches do.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { connect } from "@kit/core";
import { eventually } from "@kit/testing";
import { createLock } from "@kit/lock";
import { createReadWriteLock } from "@kit/lock/read-write";
import { listJobs } from "@kit/queue/manage";
import { describe, expect, inject, it } from "vitest";
import { ask, field } from "../src/common/http-client.js";
import { priceListLock } from "../src/common/keys.js";
import { Market } from "../src/market/market.js";
import { orderFlow, orderId, type Step, support } from "../src/orders/orders.js";
import { screens } from "../src/pages/screens.js";
import { orderChat, queueName, sessionsPerPersona, shopChat } from "../src/common/tools.js";
import { useSharedShop, Visitor } from "./shop.js";

const json = "application/json";
const slow = { timeoutMs: 40_000 };

const shop = useSharedShop("toys", "plants");
const { keys } = shop;

const buy = async (
  user: string,
): Promise<{ visitor: Visitor; order: string; seller: string; csrf: string; item: string }> => {
  await shop.enrich(user);
  const visitor = new Visitor(shop.origin);
  const csrf = await visitor.signIn(user);
  const { id, price, revision, seller } = await shop.cheap();
  const form = { csrf, request: `r-${user}-${id}`, price, revision, way: "lock" };
  const bought = await visitor.post(`/item/${id}/buy`, form, json);
  const { order } = JSON.parse(bought.body) as { order: string };
  return { visitor, order, seller, csrf, item: id };
};

const steps = async (order: string): Promise<Step[]> =>
  (await shop.redis.lrange(keys.steps(order), 0, -1)).map((text) => JSON.parse(text) as Step);

describe("After a sale", () => {
  it("the jobs of its flow are done once each, each after those it waits for, and the seller answers in the chat", async () => {
    const { visitor, order, csrf } = await buy("u100");
    await visitor.post(`/order/${order}/say`, { csrf, id: "m1", text: "Does it still work?" });
    await visitor.post(`/order/${order}/say`, { csrf, id: "m1", text: "Does it still work?" });
    await eventually(async () => {
      const done = await shop.redis.hmget(keys.order(order), "done:charge", "done:label", "done:receipt");
      expect(done.filter((at) => at === null)).toEqual([]);
    }, slow);
    const all = await eventually(async () => {
      const seen = await steps(order);
      for (const job of Object.keys(orderFlow))
        expect(seen.filter((step) => step.job === job && step.what === "done")).toHaveLength(1);
      return seen;
    }, slow);
    const at = (job: string, what: Step["what"]): number =>
      all.findIndex((step) => step.job === job && step.what === what);
    for (const [job, children] of Object.entries(orderFlow))
      for (const child of children) expect(at(job, "taken")).toBeGreaterThan(at(child, "done"));
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
    expect(await shop.redis.zcard("kit:queue:{orders}:delayed")).toBeGreaterThan(0);
  });

  it("who bought something and sells it on answers as well, unless a person plays them", async () => {
    const { item } = await buy("u130");
    await shop.redis.del(keys.present("u130"));
    const owner = new Visitor(shop.origin);
    await owner.signIn("u130");
    const offer = await owner.get(`/item/${item}`);
    const fields = Object.fromEntries(["csrf", "request", "revision"].map((name) => [name, field(offer.body, name)]));
    await owner.post(`/item/${item}/list`, { ...fields, pounds: "1", way: "lock" });
    await owner.leave();
    await shop.redis.del(keys.present("u130"));
    await shop.enrich("u131");
    const buyer = new Visitor(shop.origin);
    const csrf = await buyer.signIn("u131");
    const page = await buyer.get(`/item/${item}`);
    const form = Object.fromEntries(["request", "price", "revision"].map((name) => [name, field(page.body, name)]));
    const bought = await buyer.post(`/item/${item}/buy`, { ...form, csrf, way: "lock" }, json);
    const { order } = JSON.parse(bought.body) as { order: string };
    await buyer.post(`/order/${order}/say`, { csrf, id: "m1", text: "Does it still work?" });
    await eventually(async () => {
      const { body } = await buyer.get(`/order/${order}`);
      expect(body).toContain("As described");
      expect(body).toMatch(/class="seen">\s*Seen by/);
    }, slow);
  });

  it("a question that its seller cannot answer does not keep the others waiting", async () => {
    const chat = shopChat(shop.redis, "kit");
    const [asks, sells] = ["u141", "u142"];
    const question = async (order: string, ...members: readonly string[]): Promise<string> => {
      await shop.redis.hset(keys.order(order), { buyer: asks, seller: sells });
      const name = orderChat(order);
      await chat.create(name, { members: [asks, support, ...members] });
      await chat.send(name, { from: asks, body: "Does it still work?" });
      return name;
    };
    // Its seller is no member of the others. Chats are delivered in no particular order.
    for (const name of ["a", "b", "c"]) await question(`left-${name}`);
    const second = await question("with-its-seller", sells);
    for (const name of ["x", "y", "z"]) await question(`left-${name}`);
    await eventually(async () => {
      const { messages } = await chat.history(second, { limit: 10 });
      expect(messages.map(({ from }) => from)).toEqual([asks, sells]);
    }, slow);
    await chat.close();
  });

  it("a sale whose web process died right after it gets its order from a worker", async () => {
    await shop.enrich("u101");
    const lock = createLock(shop.redis);
    const { id, price, revision } = await shop.cheap();
    const purchase = { item: id, buyer: "u101", price: Number(price), revision: Number(revision), request: "died" };
    const market = new Market(shop.redis, lock, "main");
    expect(await market.buy("lock", purchase, "u101")).toMatchObject({ kind: "sold" });
    const order = orderId(purchase);
    expect(await shop.redis.exists(keys.order(order))).toBe(0);
    await eventually(async () => expect(await shop.redis.hget(keys.order(order), "done:charge")).not.toBeNull(), slow);
    await lock.close();
  });
});

describe("A sale whose reply was lost", () => {
  it("has its order as soon as the form is sent again, before any worker looks for it", async () => {
    const visitor = new Visitor(shop.origin);
    const csrf = await visitor.signIn("u132");
    await shop.enrich("u132");
    const lock = createLock(shop.redis);
    const { id, price, revision } = await shop.cheap();
    const request = "lost";
    const purchase = { item: id, buyer: "u132", price: Number(price), revision: Number(revision), request };
    // No worker looks for sales without an order meanwhile.
    await lock.using("shop.main.dispatch", async () => {
      expect(await new Market(shop.redis, lock, "main").buy("lock", purchase, "u132")).toMatchObject({ kind: "sold" });
      const again = await visitor.post(`/item/${id}/buy`, { csrf, price, revision, request, way: "lock" }, json);
      expect(JSON.parse(again.body)).toMatchObject({ outcome: { kind: "sold", repeat: true } });
      const { order } = JSON.parse(again.body) as { order: string };
      expect(await shop.redis.hget(keys.order(order), "placed")).toBe("1");
    });
    await lock.close();
  });
});

describe("An offer", () => {
  const offer = async (user: string, share: number) => {
    const visitor = new Visitor(shop.origin);
    const csrf = await visitor.signIn(user);
    await shop.enrich(user);
    const item = await shop.cheap();
    const pence = Math.ceil(Number(item.price) * share);
    const post = async (pounds: string, revision = item.revision): Promise<number> =>
      (await visitor.post(`/item/${item.id}/offer`, { csrf, pounds, revision }, json)).status;
    return { visitor, csrf, item, pence, post, pounds: (pence / 100).toFixed(2) };
  };

  /** The form behind the button that accepts the offer of `buyer`, as the page of the item shows it. */
  const acceptForm = async (seller: Visitor, item: string, buyer: string): Promise<Record<string, string>> => {
    const { body } = await seller.get(`/item/${item}`);
    const forms = body.split("<form").filter((form) => form.includes(`action="/item/${item}/accept"`));
    const form = forms.find((one) => one.includes(`value="${buyer}"`)) ?? "";
    const inputs = [...form.matchAll(/<(?:input|button)[^>]* name="(\w+)" value="([^"]*)"/g)];
    return Object.fromEntries(inputs.map(([, name = "", value = ""]) => [name, value]));
  };

  it("is accepted at the price that the seller was shown, and at no other that the buyer offers meanwhile", async () => {
    const { item, pounds, post } = await offer("u126", 0.95);
    const seller = new Visitor(shop.origin);
    await seller.signIn(item.seller);
    const accept = async (form: Record<string, string>): Promise<number> =>
      (await seller.post(`/item/${item.id}/accept`, form, json)).status;
    expect(await post(pounds)).toBe(200);
    const shown = await acceptForm(seller, item.id, "u126");
    expect(shown).toMatchObject({ buyer: "u126" });
    expect(await post("0.01")).toBe(200);
    expect(await accept(shown)).toBe(409);
    expect(await shop.redis.hget(keys.listing(item.id), "seller")).toBe(item.seller);
    // Looked at again, it is the seller's to decide.
    expect(await accept(await acceptForm(seller, item.id, "u126"))).toBe(200);
    expect(await shop.redis.sismember(keys.inventory("u126"), item.id)).toBe(1);
  });

  it("waits in the group of its seller", async () => {
    const { item, pence, pounds, post } = await offer("u125", 0.5);
    expect(await post(pounds)).toBe(200);
    const page = { state: "delayed", name: "offer", group: item.seller } as const;
    const { jobs } = await listJobs(shop.redis, { queue: queueName }, page);
    expect(jobs.map(({ id }) => id)).toContain(`offer-${item.id}-${item.revision}-${String(pence)}-u125`);
  });

  it("is not made for an item that has changed since its page was made", async () => {
    const { item, pounds, post } = await offer("u127", 0.9);
    expect(await post(pounds, String(Number(item.revision) + 1))).toBe(409);
    expect(await shop.redis.exists(keys.offers(item.id))).toBe(0);
  });

  it("is accepted by a seller's program if it is good: sold at that price, once, with an order and a message", async () => {
    const { visitor, item, pence, pounds, post } = await offer("u120", 0.9);
    for (const bad of ["0", "-1", "x", (Number(item.price) / 100).toFixed(2)]) expect(await post(bad)).toBe(409);
    expect(await post(pounds)).toBe(200);
    expect((await visitor.get(`/item/${item.id}`)).body).toMatch(/offers <b>£/);
    await eventually(async () => expect(await shop.redis.sismember(keys.inventory("u120"), item.id)).toBe(1), slow);
    await eventually(async () => {
      const { body } = await visitor.get(`/messages/with/${item.seller}`);
      expect(body).toMatch(/Agreed: you get /s);
    }, slow);
    const sales = (await shop.redis.xrevrange(keys.ledger, "+", "-")).filter(([, fields]) => fields.includes(item.id));
    expect(sales.map(([, fields]) => fields[fields.indexOf("price") + 1])).toEqual([String(pence)]);
    expect((await visitor.get("/me")).body).toContain("/order/");
  });

  it("is declined if it is poor, and stands for nobody else", async () => {
    const { visitor, item, pounds, post } = await offer("u122", 0.4);
    expect(await post(pounds)).toBe(200);
    await eventually(async () => {
      expect((await visitor.get(`/messages/with/${item.seller}`)).body).toContain("is too little for");
    }, slow);
    expect(await shop.redis.hget(keys.listing(item.id), "seller")).toBe(item.seller);
  });

  it("that a program declined can be accepted by a person, and the buyer is told", async () => {
    const { visitor, item, pounds, post } = await offer("u124", 0.4);
    expect(await post(pounds)).toBe(200);
    const messages = async (): Promise<string> => (await visitor.get(`/messages/with/${item.seller}`)).body;
    await eventually(async () => expect(await messages()).toContain("is too little for"), slow);
    const seller = new Visitor(shop.origin);
    await seller.signIn(item.seller);
    const form = await acceptForm(seller, item.id, "u124");
    expect((await seller.post(`/item/${item.id}/accept`, form, json)).status).toBe(200);
    expect(await messages()).toMatch(/Agreed: you get /s);
  });

  it("is considered again when others kept the item busy for longer than a sale waits", async () => {
    const lock = createLock(shop.redis);
    const { item, pounds, post } = await offer("u125", 0.9);
    await lock.using(`shop.main.${item.id}`, async () => {
      expect(await post(pounds)).toBe(200);
      const waiters = async (): Promise<number> => (await lock.inspect(`shop.main.${item.id}`)).waiters;
      await eventually(async () => expect(await waiters()).toBe(1), slow);
      await eventually(async () => expect(await waiters()).toBe(0), slow);
    });
    await eventually(async () => expect(await shop.redis.sismember(keys.inventory("u125"), item.id)).toBe(1), slow);
    await lock.close();
  });

  it("waits for a person who plays the seller, who alone can accept it", async () => {
    const { visitor, csrf, item, pounds, post } = await offer("u123", 0.9);
    const seller = new Visitor(shop.origin);
    await seller.signIn(item.seller);
    expect(await post(pounds)).toBe(200);
    expect((await seller.get(`/item/${item.id}`)).body).toContain("Accept £");
    const accept = await acceptForm(seller, item.id, "u123");
    expect((await visitor.post(`/item/${item.id}/accept`, { ...accept, csrf }, json)).status).toBe(404);
    // A new price ends the offer.
    const page = await seller.get(`/item/${item.id}`);
    const fields = Object.fromEntries(["csrf", "request", "revision"].map((name) => [name, field(page.body, name)]));
    await seller.post(`/item/${item.id}/list`, { ...fields, pounds: "49.99", way: "lock" });
    expect((await seller.post(`/item/${item.id}/accept`, accept, json)).status).toBe(409);
    expect(await post(pounds, String(Number(item.revision) + 1))).toBe(200);
    const anew = await acceptForm(seller, item.id, "u123");
    const accepted = await seller.post(`/item/${item.id}/accept`, anew, json);
    expect(JSON.parse(accepted.body)).toMatchObject({ outcome: { kind: "sold" } });
    expect(await shop.redis.sismember(keys.inventory("u123"), item.id)).toBe(1);
  });
});

describe("A person's own page", () => {
  it("has all of their orders, twenty to a page", async () => {
    const visitor = new Visitor(shop.origin);
    await visitor.signIn("u150");
    for (let n = 1; n <= 45; n++) {
      const order = {
        request: "r",
        item: "i1",
        title: `Order number ${n}`,
        buyer: "u150",
        seller: "u1",
        price: 1,
        at: n,
      };
      await shop.redis.hset(keys.order(`old-${n}`), order);
      await shop.redis.zadd(keys.ordersOf("u150"), n, `old-${n}`);
    }
    const titles = async (page: number): Promise<string[]> =>
      [...(await visitor.get(`/me?page=${page}`)).body.matchAll(/Order number (\d+)/g)].map(([, n = ""]) => n);
    const all = [...(await titles(1)), ...(await titles(2)), ...(await titles(3))];
    expect((await titles(1)).length).toBe(20);
    expect(all).toEqual(Array.from({ length: 45 }, (_, n) => String(45 - n)));
    expect((await visitor.get("/me?page=2")).body).toMatch(/href="\/me\?page=1".*Page 2 of 3.*href="\/me\?page=3"/s);
  });
});

describe("Private things", () => {
  it.each([
    ["another buyer", "u103", 404],
    ["nobody", null, 401],
  ] as const)("an order is not there for %s: page, chat, stream", async (_, user, status) => {
    const { order } = await buy("u102");
    const other = new Visitor(shop.origin);
    const csrf = user === null ? "" : await other.signIn(user);
    expect((await other.get(`/order/${order}`)).status).toBe(status);
    expect((await other.get(`/live?order=${order}`)).status).toBe(status);
    expect((await other.post(`/order/${order}/say`, { csrf, id: "x", text: "hello" })).status).toBe(status);
  });

  it("an order is there for its seller as well, with what they have not read; reading it is seen", async () => {
    const { visitor, order, seller, csrf } = await buy("u104");
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

  it("a stream of an order ends when its person leaves", async () => {
    const { visitor, order, csrf } = await buy("u109");
    const response = await fetch(`${shop.origin}/live?order=${order}`, { headers: { cookie: visitor.cookie ?? "" } });
    const reader = response.body?.getReader();
    await reader?.read();
    await visitor.post("/logout", { csrf });
    // Events that were on their way come first.
    let isOver: boolean | undefined = false;
    while (!isOver) isOver = (await reader?.read())?.done;
    expect(isOver).toBe(true);
  });

  it("a chat of two is not there for a third, and cannot be started by its address", async () => {
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
    const { visitor, order, csrf } = await buy("u107");
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
    const { visitor, order, csrf } = await buy("u108");
    expect((await visitor.post(`/order/${order}/say`, { csrf, id: "n", text })).status).toBe(400);
  });
});

describe("The id of a message", () => {
  it("belongs to its text and to nothing of ours: what was written arrives, once", async () => {
    const { visitor, order, csrf } = await buy("u133");
    const say = async (id: string, text: string): Promise<number> =>
      (await visitor.post(`/order/${order}/say`, { csrf, id, text }, json)).status;
    // The shop's own first message has this id.
    expect(await say("opened", "First words")).toBe(200);
    expect(await say("m1", "Second words")).toBe(200);
    expect(await say("m1", "Second words")).toBe(200);
    // The reply was lost, and the text was changed before it was sent again.
    expect(await say("m1", "Third words")).toBe(200);
    const { body } = await visitor.get(`/order/${order}`);
    for (const text of ["First words", "Second words", "Third words"])
      expect([text, body.split(text).length - 1]).toEqual([text, 1]);
  });
});

describe("Sessions", () => {
  it("are five of one persona at most; the sixth is told so, and has room when one leaves", async () => {
    const devices = Array.from({ length: sessionsPerPersona }, () => new Visitor(shop.origin));
    for (const device of devices) await device.signIn("u110");
    const sixth = new Visitor(shop.origin);
    const page = await sixth.get("/personas");
    const refused = await sixth.post("/login", { user: "u110", csrf: field(page.body, "csrf") });
    expect([refused.status, refused.body]).toEqual([429, expect.stringContaining("already has 5 open sessions")]);
    await devices[0]?.leave();
    await sixth.signIn("u110");
    expect((await sixth.get("/me")).status).toBe(200);
  });
});

describe("The operator", () => {
  it("moves the diary where the button said, however old the page", async () => {
    const visitor = new Visitor(inject("full"));
    const page = async (): Promise<string> => (await visitor.get("/ops")).body;
    const at = (body: string): string => /kept at <code>([^<]*)</.exec(body)?.[1] ?? "";
    const button = (body: string): Record<string, string> => {
      const [form = ""] = body.split("<form").filter((one) => one.includes(`action="/ops/logs"`));
      const inputs = [...form.matchAll(/<(?:input|button)[^>]* name="(\w+)" value="([^"]*)"/g)];
      return Object.fromEntries(inputs.map(([, name = "", value = ""]) => [name, value]));
    };
    const before = await page();
    // Two windows with the same page: the second press changes nothing.
    for (let press = 0; press < 2; press++) await visitor.post("/ops/logs", button(before));
    const after = await eventually(async () => {
      const body = await page();
      expect(at(body)).not.toBe(at(before));
      return body;
    }, slow);
    await visitor.post("/ops/logs", button(after));
    await eventually(async () => expect(at(await page())).toBe(at(before)), slow);
  });

  it("sees every package at work, and a program may read it", async () => {
    const { body } = await ask(shop.origin, "/ops");
    for (const name of ["worker 1", "worker 2", "worker 3", "partners", "sellers", "shipper", "countries", "status"])
      expect(body).toContain(`<b>${name}</b>`);
    const metrics = await ask(shop.origin, "/metrics");
    expect(metrics.body).toMatch(/^# TYPE shop_request_ms histogram$/m);
    expect(metrics.body).toMatch(/^shop_jobs_total\{job="charge",outcome="done"\} [1-9]/m);
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

describe("The price list", () => {
  it("is read by several together and re-priced by one; who reads later waits behind, and every list is whole", async () => {
    const visitor = new Visitor(inject("full"));
    const [, url = ""] = /At <code>([^<]*)</.exec((await visitor.get("/ops")).body) ?? [];
    await using redis = await connect(url);
    await using lock = createLock(redis);
    await using prices = createReadWriteLock(redis);
    const page = async (): Promise<string> => (await visitor.get("/race/prices")).body;
    const first = await page();
    const form = { csrf: field(first, "csrf") };
    expect(first).toContain("free");

    // A reader who takes its time, so the writer waits for as long as this test looks.
    const reading = await prices.read.acquire(priceListLock, { holder: "a slow reader" });
    const item = await lock.acquire("shop.main.i1", { holder: "somebody" });
    for (let press = 0; press < 2; press++)
      expect((await visitor.post("/race/prices", form)).location).toBe("/race/prices");
    await eventually(async () => {
      const body = await page();
      expect(body).toMatch(/chip read">reading.*a slow reader/s);
      expect(body).toMatch(
        /<ol class="queue">\s*<li><bdi>the shop<\/bdi>, to write<\/li>(\s*<li>[^]*?, to read<\/li>){6}/,
      );
    }, slow);
    const command = /<pre class="command"[^>]*><code>([^<]*)</.exec(first)?.[1] ?? "false";
    const run = async (text: string): Promise<string> => (await promisify(execFile)("sh", ["-c", text])).stdout;
    expect(await run(command)).toMatch(/held by 1 reader, 7 waiting[^]*a slow reader[^]*the shop \(writes\)/);
    const all = await run(command.replace(`inspect lock ${priceListLock}`, "list locks"));
    expect(all).toMatch(/^shop\.main\.i1\s+somebody/m);
    expect(all).toMatch(/^shop\.prices\s+a slow reader, expires in .*7: the shop \(writes\)/m);

    await Promise.all([reading.release(), item.release()]);
    await eventually(async () => expect(await page()).toContain("each from one edition"), slow);
    const editions = [...(await page()).matchAll(/<\/th>\s*<td class="number">(\d+)</g)].map(([, edition]) => edition);
    expect(editions).toEqual(Array.from({ length: 12 }, () => editions[0]));
    expect(Number(editions[0])).toBeGreaterThan(1);
  });
});

describe("The explanation of a screen", () => {
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
