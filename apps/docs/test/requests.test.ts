import { readdirSync, readFileSync } from "node:fs";
import { once } from "node:events";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { type Connection, connect } from "@kit/core";
import { createLimiter, type Limiter, type LimiterOptions } from "@kit/limiter";
import { eventually, FaultProxy, startRedis } from "@kit/testing";
import { Program } from "@tooling/vitest/helpers";
import { rateLimit as rateLimit8 } from "express-rate-limit";
import { rateLimit as rateLimit7 } from "express-rate-limit7";
import { Hono } from "hono";
import { rateLimiter } from "hono-rate-limiter";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { answering } from "./answering.mjs";
import { addressOf, headersOf, keyOf } from "./requests/requests.mjs";
import { storeOf } from "./requests/stores.mjs";
import { patient, said } from "./said.js";

const folder = new URL("requests/", import.meta.url);

it("the page shows each program as it is", () => {
  const page = readFileSync(new URL("../../../packages/limiter/docs/http.md", import.meta.url), "utf8");
  for (const file of readdirSync(folder)) expect(page).toContain(readFileSync(new URL(file, folder), "utf8").trim());
});

let server: Awaited<ReturnType<typeof startRedis>>;
let redis: Connection;
beforeEach(async () => {
  server = await startRedis();
  redis = await connect(server.url);
  onTestFinished(async () => {
    await redis.close();
    await server.stop();
  });
});

const start = async (file: string, url = server.url): Promise<(path?: string, from?: string) => Promise<Response>> => {
  const execArgv = file.endsWith(".ts") ? ["--import", new URL("frameworks/typescript.mjs", import.meta.url).href] : [];
  const program = new Program(new URL(file, folder), { REDIS_URL: url, PORT: "0" }, execArgv);
  onTestFinished(async () => void (await program.end("SIGKILL")));
  const origin = `http://127.0.0.1:${await said(program, "listens")}`;
  return (path = "/", from = "192.0.2.1") => fetch(origin + path, { headers: { "x-forwarded-for": from } });
};

const statuses = async (requests: readonly Promise<Response>[]): Promise<number[]> =>
  (await Promise.all(requests)).map(({ status }) => status);

const inOrder = (numbers: readonly number[]): number[] => numbers.toSorted((a, b) => a - b);

describe.each(["http.mjs", "express.mjs", "hono.mjs", "fastify.mjs", "nest.ts"])("%s", (file) => {
  it("limits each client in all processes together, and names the time to wait", async () => {
    const [one, two] = [await start(file), await start(file)];
    const replies = await statuses([one(), two(), one(), two(), one(), two()]);
    expect(inOrder(replies)).toEqual([200, 200, 200, 429, 429, 429]);
    const refused = await one();
    expect(refused.status).toBe(429);
    const wait = Number(refused.headers.get("retry-after"));
    expect(wait).toBeGreaterThan(30);
    expect(wait).toBeLessThanOrEqual(file === "nest.ts" ? 120 : 66);
    // A claim of the client comes before the address that the proxy adds.
    expect((await two("/", "198.51.100.7, 192.0.2.1")).status).toBe(429);
    expect((await two("/", "203.0.113.9")).status).toBe(200);
  });

  it("counts all addresses of a /64 together", async () => {
    const ask = await start(file);
    const from = (last: number): Promise<Response> => ask("/", `2001:db8:1:2:${last.toString(16)}::1`);
    expect(inOrder(await statuses([from(1), from(2), from(3), from(4)]))).toEqual([200, 200, 200, 429]);
    expect((await ask("/", "2001:db8:1:3::1")).status).toBe(200);
  });
});

it("fastify.mjs has a limit for a single route", async () => {
  const ask = await start("fastify.mjs");
  expect(await statuses([ask("/search")])).toEqual([200]);
  expect(await statuses([ask("/search"), ask("/")])).toEqual([429, 200]);
});

it("http.mjs limits while Redis is unreachable", async () => {
  await using proxy = await FaultProxy.start({ port: server.nodes[0]!.port });
  const ask = await start("http.mjs", proxy.url);
  expect((await ask()).status).toBe(200);
  proxy.down.hole = true;
  // A process enforces half of three: one call at a time.
  expect(inOrder(await statuses([ask("/", "192.0.2.2"), ask("/", "192.0.2.2")]))).toEqual([200, 429]);
});

const limited = (options: Partial<LimiterOptions> = {}): Limiter => {
  const algorithm = "fixed-window";
  const limiter = createLimiter(redis, "test", { limits: { few: { count: 2, perMs: 60_000, algorithm } }, ...options });
  onTestFinished(() => limiter.close());
  return limiter;
};

/** The tokens of a key that are in use, also beyond the limit. */
const usedOf = async (key: string): Promise<number> =>
  Number((await redis.get(`kit:limiter:{test}:key:${key}`))?.split(":").at(-1));

const listen = async (app: { listen(port?: number): Server }): Promise<string> => {
  const listening = app.listen(0);
  onTestFinished(() => void listening.close());
  await once(listening, "listening");
  return `http://127.0.0.1:${(listening.address() as AddressInfo).port}`;
};

const windowMs = 60_000;
const old = (options: object): unknown => rateLimit7(options);
const recent = (options: object): unknown => rateLimit8(options);
const expressOf = (middleware: unknown): Promise<string> =>
  listen(answering(middleware) as { listen(port?: number): Server });

describe.each([
  ["7", old],
  ["8", recent],
])("the store in express-rate-limit %s", (_, rateLimit) => {
  it("refuses beyond the limit, with the headers of the library", async () => {
    const store = storeOf(limited(), 2);
    const origin = await expressOf(rateLimit({ store, limit: 2, windowMs, standardHeaders: "draft-7" }));
    const first = await fetch(`${origin}/200`);
    expect(first.headers.get("ratelimit")).toMatch(/^limit=2, remaining=1, reset=(?:60|59)$/);
    expect(await statuses([fetch(`${origin}/200`)])).toEqual([200]);
    expect(await statuses([fetch(`${origin}/200`)])).toEqual([429]);
  });

  it("takes back exactly what it counted with skipFailedRequests, refused requests as well", async () => {
    const limiter = limited();
    const options = {
      store: storeOf(limiter, 2),
      limit: 2,
      windowMs,
      keyGenerator: () => "k",
      skipFailedRequests: true,
    };
    const origin = await expressOf(rateLimit(options));
    const left = async (count: number): Promise<void> => {
      await eventually(async () => expect((await limiter.check("k")).remaining).toBe(count));
    };
    expect((await fetch(`${origin}/500`)).status).toBe(500);
    await left(2);
    expect(await statuses([fetch(`${origin}/200`), fetch(`${origin}/200`)])).toEqual([200, 200]);
    for (let count = 0; count < 3; count++) expect((await fetch(`${origin}/200`)).status).toBe(429);
    await eventually(async () => expect(await usedOf("k")).toBe(2));
  });

  it("forgets a key by resetKey", async () => {
    const middleware = rateLimit({ store: storeOf(limited(), 2), limit: 2, windowMs, keyGenerator: () => "k" });
    const origin = await expressOf(middleware);
    for (const status of [200, 200, 429]) expect((await fetch(`${origin}/200`)).status).toBe(status);
    (middleware as { resetKey(key: string): void }).resetKey("k");
    await eventually(async () => expect((await fetch(`${origin}/200`)).status).toBe(200), patient);
  });
});

it("the store in hono-rate-limiter takes back exactly what it counted with skipSuccessfulRequests", async () => {
  const app = new Hono();
  const store = storeOf(limited(), 2);
  app.use(rateLimiter({ store, limit: 2, windowMs, keyGenerator: () => "k", skipSuccessfulRequests: true }));
  app.get("/:status", (c) => c.text("", Number(c.req.param("status")) as 200));
  const ask = async (status: number): Promise<number> => (await app.request(`/${String(status)}`)).status;
  expect([await ask(200), await ask(200), await ask(200)]).toEqual([200, 200, 200]);
  expect([await ask(401), await ask(401), await ask(401), await ask(200)]).toEqual([401, 401, 429, 429]);
  expect(await usedOf("k")).toBe(2);
});

describe("addressOf", () => {
  const of = (remoteAddress: string, forwarded?: string): string =>
    addressOf({ headers: { "x-forwarded-for": forwarded }, socket: { remoteAddress } } as never);

  it("is the last address that is not a proxy's", () => {
    expect(of("203.0.113.1")).toBe("203.0.113.1");
    expect(of("203.0.113.1", "192.0.2.1")).toBe("203.0.113.1");
    expect(of("::ffff:10.1.2.3", "192.0.2.1")).toBe("192.0.2.1");
    expect(of("127.0.0.1", "198.51.100.1, 192.0.2.1, 10.0.0.7")).toBe("192.0.2.1");
    expect(of("fe80::1%eth0")).toBe("fe80::1");
  });

  it("is the farthest proxy if there is no other address, and never fails", () => {
    expect(of("127.0.0.1", "10.0.0.7")).toBe("10.0.0.7");
    expect(of("127.0.0.1", " , ,")).toBe("127.0.0.1");
    expect(of("127.0.0.1", "unknown")).toBe("unknown");
  });
});

it("keyOf is an IPv4 address, or the /64 of an IPv6 address", () => {
  const keys = ["192.0.2.1", "2001:db8:0:1::", "2001:0DB8::1", "::1", "2001:db8:a:b:c:d:e:f"].map(keyOf);
  expect(keys).toEqual(["192.0.2.1", "2001:db8:0:1::/64", "2001:db8:0:0::/64", "0:0:0:0::/64", "2001:db8:a:b::/64"]);
});

describe("headersOf", () => {
  const answer = { allowed: true, remaining: 7, resetMs: 1_001, retryAfterMs: 0, refusedBy: null };
  const perMinute = { count: 10, perMs: 60_000 };

  it("has the policy and what is left of one limit", () => {
    expect(headersOf(answer, { perMinute })).toEqual({
      "RateLimit-Policy": '"perMinute";q=10;w=60',
      RateLimit: '"perMinute";r=7;t=2',
    });
  });

  it("names the limit that refuses, and the seconds to wait", () => {
    const refused = { ...answer, allowed: false, remaining: 0, retryAfterMs: 30_500, refusedBy: "perDay" };
    expect(headersOf(refused, { perMinute, perDay: { count: 50, perMs: 86_400_000 } })).toEqual({
      "RateLimit-Policy": '"perMinute";q=10;w=60, "perDay";q=50;w=86400',
      RateLimit: '"perDay";r=0;t=31',
      "Retry-After": "31",
    });
    expect(headersOf({ ...refused, refusedBy: "block" }, { perMinute })).toEqual({
      "RateLimit-Policy": '"perMinute";q=10;w=60',
      "Retry-After": "31",
    });
  });
});
