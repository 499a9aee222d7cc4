import { once } from "node:events";
import { connect as connectSocket } from "node:net";
import { eventually } from "@kit/testing";
import { describe, expect, it } from "vitest";
import { ask, field } from "../src/common/http-client.js";
import { formLimiters } from "../src/common/tools.js";
import { useSharedShop, Visitor } from "./shop.js";

const json = "application/json";
const form = "application/x-www-form-urlencoded";

const shop = useSharedShop("books", "records");
const { keys } = shop;
const richBuyer = "u61";

describe("A visitor", () => {
  it("sees the market, a category, and an item without a session being made", async () => {
    const visitor = new Visitor(shop.origin);
    const market = await visitor.get("/");
    expect(market.status).toBe(200);
    expect(market.body.match(/class="card"/g)).toHaveLength(24);
    const { id } = await shop.cheap();
    expect((await visitor.get(`/item/${id}`)).status).toBe(200);
    expect((await visitor.get("/?category=clocks&page=2")).status).toBe(200);
    expect(visitor.cookie).toBeUndefined();
  });

  it("buys by both ways, is told so once, and finds it in the cupboard", async () => {
    await shop.enrich(richBuyer);
    for (const way of ["lock", "optimistic"] as const) {
      const visitor = new Visitor(shop.origin);
      await visitor.signIn(richBuyer);
      const { id } = await shop.cheap();
      const page = await visitor.get(`/item/${id}`);
      const names = ["csrf", "request", "price", "revision"] as const;
      const fields = Object.fromEntries(names.map((name) => [name, field(page.body, name)]));
      const bought = await visitor.post(`/item/${id}/buy`, { ...fields, way });
      expect([bought.status, bought.location]).toEqual([303, expect.stringMatching(/^\/order\/(\w{4}-){3}\w{4}$/)]);
      expect((await visitor.get(bought.location ?? "")).body).toContain("You bought ");
      expect((await visitor.get(bought.location ?? "")).body).not.toContain("You bought ");
      expect((await visitor.get("/me")).body).toContain(`/item/${id}`);
      expect((await visitor.get("/")).body).toMatch(/Just sold[^]*sold in the last hour[^]*\/item\//);
      // The form again, as by the back button: one purchase.
      const again = await visitor.post(`/item/${id}/buy`, { ...fields, way }, json);
      expect(JSON.parse(again.body)).toMatchObject({ outcome: { kind: "sold", repeat: true } });
    }
  });

  it("lists what is theirs, changes the price, and is told what is no price", async () => {
    const { redis } = shop;
    const [owned = ""] = await redis.keys(keys.inventory("*"));
    const owner = owned.split(":").at(-1) ?? "";
    const visitor = new Visitor(shop.origin);
    const csrf = await visitor.signIn(owner);
    const [id = ""] = await redis.smembers(owned);
    const post = async (pounds: string, request: string) => {
      const revision = (await redis.hget(keys.item(id), "revision")) ?? "";
      return await visitor.post(`/item/${id}/list`, { csrf, request, revision, pounds, way: "lock" }, json);
    };
    for (const bad of ["", "0", "-5", "1e3", "12.345", "1,00", "10000001", "£", "<b>"])
      expect(JSON.parse((await post(bad, "bad")).body)).toEqual({ outcome: { kind: "bad-price" } });
    expect(JSON.parse((await post("£1,234.5", "a")).body)).toMatchObject({
      outcome: { kind: "listed", price: 123_450 },
    });
    expect(JSON.parse((await post("12", "b")).body)).toMatchObject({ outcome: { kind: "repriced", price: 1_200 } });
    expect(await redis.hget(keys.listing(id), "price")).toBe("1200");
  });

  it("gets a new session id with every persona, and none of the old ones is worth anything", async () => {
    const visitor = new Visitor(shop.origin);
    await visitor.get("/personas");
    const planted = visitor.cookie;
    await visitor.signIn("u61");
    const first = visitor.cookie;
    await visitor.signIn("u62");
    expect(new Set([planted, first, visitor.cookie]).size).toBe(3);
    for (const cookie of [planted, first]) {
      const page = await ask(shop.origin, "/me", { cookie });
      expect([page.status, page.location]).toEqual([303, "/personas"]);
    }
    const left = await visitor.post("/logout", { csrf: field((await visitor.get("/")).body, "csrf") });
    expect(left.status).toBe(303);
    expect((await visitor.get("/me")).status).toBe(303);
  });
});

describe("Authorization", () => {
  const roles = ["nobody", "a session", "another persona", "the owner"] as const;
  /** Answers by role, in the order of `roles`; `:id` is an item that u63 has on the market. */
  const get: Readonly<Record<string, readonly number[]>> = {
    "/": [200, 200, 200, 200],
    "/item/:id": [200, 200, 200, 200],
    "/me": [303, 303, 200, 200],
    "/messages": [303, 303, 200, 200],
    "/messages/suggest?q=a": [401, 401, 200, 200],
    "/order/0000-0000": [401, 401, 404, 404],
    "/messages/with/u64": [401, 401, 404, 404],
    "/ops": [200, 200, 200, 200],
    "/health": [200, 200, 200, 200],
  };
  const post: Readonly<Record<string, readonly number[]>> = {
    "/login": [403, 400, 400, 400],
    "/item/:id/buy": [401, 401, 400, 400],
    "/item/:id/list": [401, 401, 403, 409],
    "/item/nope/hold": [401, 401, 404, 404],
    "/item/:id/offer": [401, 401, 303, 303],
    "/item/:id/accept": [401, 401, 404, 400],
    "/order/0000-0000/say": [401, 401, 404, 404],
    "/messages/send": [401, 401, 400, 400],
    "/ops/letters": [403, 400, 400, 400],
    "/ops/maintenance": [403, 400, 400, 400],
    "/ops/logs": [403, 403, 403, 403],
    "/race": [403, 403, 403, 403],
    "/race/pause": [403, 403, 403, 403],
    "/race/prices": [403, 403, 403, 403],
    "/pipeline": [403, 403, 403, 403],
    "/faults": [403, 403, 403, 403],
  };

  it("is the same for each route, by role", async () => {
    const { id } = await shop.cheap();
    await shop.redis.hset(keys.listing(id), "seller", "u63");
    const fresh = new Visitor(shop.origin);
    const tokens = ["", field((await fresh.get("/personas")).body, "csrf")];
    const visitors = [new Visitor(shop.origin), fresh];
    for (const user of ["u62", "u63"]) {
      const visitor = new Visitor(shop.origin);
      tokens.push(await visitor.signIn(user));
      visitors.push(visitor);
    }
    for (const [n, role] of roles.entries()) {
      const [visitor, csrf] = [visitors[n] ?? fresh, tokens[n] ?? ""];
      for (const [path, answers] of Object.entries(get))
        expect([role, path, (await visitor.get(path.replace(":id", id))).status]).toEqual([role, path, answers[n]]);
      for (const [path, answers] of Object.entries(post)) {
        const accept = /list|accept/.test(path) ? json : "text/html";
        const form = { way: "lock", pounds: "1", revision: "7", request: "r", fault: "worker" };
        const send = async (csrf: string): Promise<number> =>
          (await visitor.post(path.replace(":id", id), { ...form, csrf }, accept)).status;
        expect([role, path, await send(csrf)]).toEqual([role, path, answers[n]]);
        // With the token of another session nobody comes further than without a persona.
        expect([role, path, [401, 403].includes(await send("AAAAAAAAAAAAAAAAAAAAAA"))]).toEqual([role, path, true]);
      }
    }
  });

  it("money of somebody else is not spent: the buyer is who the session says", async () => {
    const visitor = new Visitor(shop.origin);
    const csrf = await visitor.signIn("u61");
    await shop.enrich("u61");
    const { id, price, revision } = await shop.cheap();
    const before = await shop.redis.hget(keys.user("u70"), "funds");
    const fields = { csrf, request: "mine", price, revision, way: "lock", buyer: "u70", user: "u70" };
    const reply = await visitor.post(`/item/${id}/buy`, fields, json);
    expect(JSON.parse(reply.body)).toMatchObject({ outcome: { kind: "sold" } });
    expect(await shop.redis.hget(keys.user("u70"), "funds")).toBe(before);
    expect(await shop.redis.sismember(keys.inventory("u61"), id)).toBe(1);
  });
});

describe("Forms from elsewhere", () => {
  const attempts: readonly (readonly [string, Record<string, string>])[] = [
    ["another origin", { origin: "http://evil.example" }],
    ["no origin at all", { origin: "" }],
    ["origin null", { origin: "null" }],
    ["a site the browser calls foreign", { "sec-fetch-site": "cross-site" }],
    ["another port, which the browser calls the same site", { "sec-fetch-site": "same-site" }],
  ];
  it.each(attempts)("are refused: %s", async (_, headers) => {
    const visitor = new Visitor(shop.origin);
    const csrf = await visitor.signIn("u61");
    const reply = await ask(shop.origin, "/logout", { cookie: visitor.cookie, form: { csrf }, headers });
    expect(reply.status).toBe(403);
    expect((await visitor.get("/me")).status).toBe(200);
  });

  it.each([
    ["none", ""],
    ["a wrong one", "AAAAAAAAAAAAAAAAAAAAAA"],
  ])("are refused: token %s", async (_, csrf) => {
    const visitor = new Visitor(shop.origin);
    await visitor.signIn("u61");
    expect((await visitor.post("/logout", { csrf })).status).toBe(403);
  });

  it("are refused: the token of another session", async () => {
    const visitor = new Visitor(shop.origin);
    await visitor.signIn("u61");
    const other = await new Visitor(shop.origin).signIn("u61");
    expect((await visitor.post("/logout", { csrf: other })).status).toBe(403);
  });

  it("are refused: the id of a job that is longer than any", async () => {
    const visitor = new Visitor(shop.origin);
    const csrf = await visitor.signIn("u61");
    for (const [length, status] of [
      [160, 303],
      [161, 400],
      [513, 400],
    ] as const)
      expect((await visitor.post("/ops/letters", { csrf, do: "drop", id: "x".repeat(length) })).status).toBe(status);
  });

  it("are refused: a name bent to point here", async () => {
    const reply = await ask(shop.origin, "/", { headers: { host: "evil.example" } });
    expect(reply.status).toBe(421);
  });

  it("nothing changes by GET", async () => {
    const { id } = await shop.cheap();
    for (const path of [`/item/${id}/buy`, `/item/${id}/list`, "/login", "/logout"])
      expect((await ask(shop.origin, path)).status).toBe(404);
  });
});

describe("Every answer", () => {
  it.each(["/", "/race", "/pipeline", "/personas", "/nowhere", "/health", "/live", "/pictures/i1.svg", "/invariants"])(
    "%s carries a strict policy and gives nothing away",
    async (path) => {
      const response = await fetch(`${shop.origin}${path}`, { signal: AbortSignal.timeout(5_000) });
      const policy = response.headers.get("content-security-policy") ?? "";
      expect(policy).toContain(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'",
      );
      expect(policy).toContain("form-action 'self'; base-uri 'none'; frame-ancestors 'none'");
      expect(policy).not.toContain("unsafe");
      expect(response.headers.get("x-content-type-options")).toBe("nosniff");
      expect(response.headers.get("referrer-policy")).toBe("same-origin");
      expect(response.headers.get("cross-origin-opener-policy")).toBe("same-origin");
      expect(response.headers.get("x-powered-by")).toBeNull();
      await response.body?.cancel();
    },
  );

  it("has no inline script, no inline style, and loads nothing from elsewhere", async () => {
    const visitor = new Visitor(shop.origin);
    await visitor.signIn("u61");
    const { id } = await shop.cheap();
    for (const path of ["/", `/item/${id}`, "/race", "/pipeline", "/personas", "/me", "/nowhere"]) {
      const { body } = await visitor.get(path);
      expect(body).not.toMatch(/<script(?![^>]*\ssrc=)/);
      expect(body).not.toMatch(/<style|\sstyle=|\son\w+=/);
      expect(body).not.toMatch(/(?:src|href|action)="(?:https?:)?\/\//);
    }
  });

  it("sets a cookie that scripts cannot read and other sites cannot use", async () => {
    const response = await fetch(`${shop.origin}/personas`);
    expect(response.headers.get("set-cookie")).toMatch(/^sid=[\w-]{22}; Path=\/; HttpOnly; SameSite=Lax$/);
  });

  it("keeps the session itself out of Redis: only its digest is there", async () => {
    const visitor = new Visitor(shop.origin);
    await visitor.signIn("u61");
    const id = visitor.cookie?.slice("sid=".length) ?? "";
    const names = await shop.redis.keys("*");
    expect(names.length).toBeGreaterThan(1_000);
    expect(names.filter((name) => name.includes(id))).toEqual([]);
  });
});

describe("Hostile input", () => {
  const hostile = [
    "../../etc/passwd",
    "i1:x",
    "{main}",
    "i1%00",
    "%0d%0aSet-Cookie:x",
    "<script>",
    "i".repeat(500),
    "%ff",
    "i1'",
  ];

  it.each(hostile)("finds nothing under %s", async (text) => {
    for (const path of [`/item/${text}`, `/race/${text}`, `/pictures/${text}.svg`, `/assets/${text}/shop.css`]) {
      const { status, body } = await ask(shop.origin, path);
      expect(status).toBe(404);
      expect(body).not.toMatch(/\bat .*\.js:\d+|node_modules|Error:/);
    }
  });

  it.each(["?category=%3Cb%3E", "?page=0", "?page=-1", "?page=1e9", "?page=99999", "?page=x"])(
    "%s is not a page",
    async (query) => {
      expect((await ask(shop.origin, `/${query}`)).status).toBe(404);
    },
  );

  it.each([
    ["no way", { way: "steal" }],
    ["a price that is no whole number", { price: "1.5" }],
    ["a negative price", { price: "-100" }],
    ["a price with an exponent", { price: "1e3" }],
    ["a revision that is none", { revision: "x" }],
    ["a request id with a colon", { request: "a:b" }],
    ["an endless request id", { request: "a".repeat(65) }],
  ])("is refused: %s", async (_, change) => {
    const visitor = new Visitor(shop.origin);
    const csrf = await visitor.signIn("u61");
    const { id, price, revision } = await shop.cheap();
    const reply = await visitor.post(`/item/${id}/buy`, {
      csrf,
      way: "lock",
      price,
      revision,
      request: "r",
      ...change,
    });
    expect(reply.status).toBe(400);
  });

  it("is refused: a persona nobody knows", async () => {
    const visitor = new Visitor(shop.origin);
    const csrf = field((await visitor.get("/personas")).body, "csrf");
    for (const user of ["", "u0", "u861", "__proto__", "u1 u2"])
      expect((await visitor.post("/login", { csrf, user })).status).toBe(400);
  });

  it("is escaped where it is shown: a name of the database is only text", async () => {
    const { id, seller } = await shop.cheap();
    const name = await shop.redis.hget(keys.user(seller), "name");
    await shop.redis.hset(keys.user(seller), "name", `<img src=x onerror=alert(1)>"'&`);
    const { body } = await ask(shop.origin, `/item/${id}`);
    await shop.redis.hset(keys.user(seller), "name", name ?? "");
    expect(body).toContain("&lt;img src=x onerror=alert(1)&gt;&quot;&#39;&amp;");
    expect(body).not.toContain("<img src=x");
  });

  it("as a path, whatever the answer, is no label of the statistics", async () => {
    const odd = "no-page-of-ours";
    expect((await ask(shop.origin, `/tour/1.000`)).status).toBe(404);
    expect((await ask(shop.origin, `/post-${odd}`, { form: {}, headers: { origin: "null" } })).status).toBe(403);
    expect((await ask(shop.origin, `/host-${odd}`, { headers: { host: "evil.example" } })).status).toBe(421);
    expect((await ask(shop.origin, "/item/i1")).status).toBe(200);
    await eventually(
      async () => {
        const { body } = await ask(shop.origin, "/metrics");
        for (const route of ["none", "/item/:id"]) expect(body).toContain(`route="${route}"`);
        expect(body).not.toContain(odd);
        expect(body).not.toContain("/tour/1.000");
      },
      { timeoutMs: 20_000 },
    );
  });

  it.each(["from=100000000000&to=100000060000", "from=99999999999990&to=99999999999999"])(
    "asks for sales of another century, and is shown the nearest: %s",
    async (query) => {
      expect((await ask(shop.origin, `/stats?${query}`)).status).toBe(200);
    },
  );

  it("over 64 kB is refused with 413, announced or not", async () => {
    const big = "x".repeat(64 * 1024 + 1);
    expect((await ask(shop.origin, "/login", { form: { csrf: big } })).status).toBe(413);
    const { port } = new URL(shop.origin);
    const socket = connectSocket(Number(port), "127.0.0.1");
    socket.on("error", () => undefined);
    const head = `POST /login HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nOrigin: ${shop.origin}\r\nContent-Type: ${form}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n`;
    socket.write(`${head}${big.length.toString(16)}\r\n${big}\r\n0\r\n\r\n`);
    const [first] = (await once(socket, "data")) as [Buffer];
    socket.destroy();
    expect(first.toString()).toMatch(/^HTTP\/1\.1 413 /);
  });

  it("that comes byte by byte is not waited for", async () => {
    const { port } = new URL(shop.origin);
    const socket = connectSocket(Number(port), "127.0.0.1");
    socket.on("error", () => undefined);
    socket.write("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ");
    const timer = setInterval(() => socket.write("x"), 200);
    socket.resume();
    // An error before that is fine.
    await new Promise((resolve) => socket.once("close", resolve));
    clearInterval(timer);
    expect((await ask(shop.origin, "/health")).status).toBe(200);
  });

  // By address, too: but here all files have one.
  it("of more forms than anybody fills in is refused for a while, by session and by persona", async () => {
    const visitor = new Visitor(shop.origin);
    const csrf = await visitor.signIn("u64");
    const form = { csrf, pounds: "0", way: "lock", revision: "1", request: "r" };
    const send = async (): Promise<number> => (await visitor.post("/item/i1/list", form, json)).status;
    const replies = await Promise.all(Array.from({ length: 130 }, send));
    expect(replies.includes(429)).toBe(true);
    const headers = { cookie: visitor.cookie ?? "", origin: shop.origin };
    const body = new URLSearchParams(form);
    const refused = await fetch(`${shop.origin}/item/i1/list`, { method: "POST", headers, body });
    expect(refused.status).toBe(429);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    const another = new Visitor(shop.origin);
    const fields = { ...form, csrf: await another.signIn("u64") };
    const limiters = formLimiters(shop.redis, "kit");
    await limiters.persona.penalize("u64", 100_000);
    expect((await another.post("/item/i1/list", fields, json)).status).toBe(429);
    await limiters.persona.reset("u64");
    for (const limiter of Object.values(limiters)) await limiter.close();
  });

  it("of another kind than a form is refused", async () => {
    const visitor = new Visitor(shop.origin);
    const csrf = await visitor.signIn("u61");
    const headers = { "content-type": "text/plain" };
    expect((await ask(shop.origin, "/logout", { cookie: visitor.cookie, form: { csrf }, headers })).status).toBe(400);
  });
});

describe("The live stream", () => {
  it("shows a lock being held and let go; a purchase meanwhile waits, and goes through then", async () => {
    const { id, price, revision } = await shop.cheap();
    const visitor = new Visitor(shop.origin);
    const csrf = await visitor.signIn("u61");
    const stop = new AbortController();
    const response = await fetch(`${shop.origin}/live?item=${id}&revision=1`, { signal: stop.signal });
    const reader = response.body?.getReader();
    let text = "";
    const until = async (pattern: RegExp): Promise<void> => {
      while (!pattern.test(text)) text += new TextDecoder().decode((await reader?.read())?.value);
      text = "";
    };
    await until(/chip free/);
    expect((await visitor.post(`/item/${id}/hold`, { csrf })).status).toBe(303);
    await until(/chip held.*data-lock="left">\d\.\d s.*data-lock="fence">\d{16}</s);
    const buyer = new Visitor(shop.origin);
    const token = await buyer.signIn("u65");
    await shop.enrich("u65");
    const fields = { csrf: token, request: "waits", price, revision, way: "lock" };
    const bought = buyer.post(`/item/${id}/buy`, fields, json);
    await until(/data-lock="waiters">1</);
    expect(JSON.parse((await bought).body)).toMatchObject({ outcome: { kind: "sold" } });
    stop.abort();
  });

  it("is refused for an item that does not exist", async () => {
    expect((await ask(shop.origin, "/live?item=nope")).status).toBe(404);
  });

  it("is not kept open for those who ask for its head only", async () => {
    const heads = Array.from({ length: 201 }, () => fetch(`${shop.origin}/live`, { method: "HEAD" }));
    expect((await Promise.all(heads)).filter(({ status }) => status !== 200)).toEqual([]);
    const response = await fetch(`${shop.origin}/live`);
    expect(response.status).toBe(200);
    await response.body?.cancel();
  });

  it("is refused to a page elsewhere", async () => {
    for (const site of ["cross-site", "same-site"])
      expect((await ask(shop.origin, "/live", { headers: { "sec-fetch-site": site } })).status).toBe(403);
  });
});
