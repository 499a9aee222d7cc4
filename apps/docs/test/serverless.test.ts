import { readFileSync } from "node:fs";
import { createPrefixIndex } from "@kit/autocomplete";
import { createChat } from "@kit/chat";
import { type Connection, connect, KitError, type RedisLike } from "@kit/core";
import { httpClient } from "@kit/core/http";
import { createGeoIp, importGeoIp } from "@kit/geoip";
import { createLock } from "@kit/lock";
import { createQueue } from "@kit/queue";
import { createQueueEvents } from "@kit/queue/events";
import { createStats } from "@kit/stats";
import { startRedis } from "@kit/testing";
import { cutAfter, HttpBridge, served, status } from "@tooling/vitest/helpers";
import { beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";

const program = new URL("serverless/route.mjs", import.meta.url);

interface Route {
  POST(request: Request): Promise<Response>;
  GET(request: Request): Promise<Response>;
}

let socket: Connection;
let bridge: HttpBridge;
let redis: RedisLike;
beforeEach(async () => {
  const server = await startRedis();
  socket = await connect(server.url);
  bridge = await HttpBridge.start(socket);
  redis = httpClient({ url: bridge.url, token: bridge.token });
  onTestFinished(async () => {
    await bridge[Symbol.asyncDispose]();
    await socket.close();
    await server.stop();
  });
});

/** A new instance of the function. */
const instance = async (): Promise<Route> => {
  vi.stubEnv("UPSTASH_REDIS_REST_URL", bridge.url);
  vi.stubEnv("UPSTASH_REDIS_REST_TOKEN", bridge.token);
  onTestFinished(() => void vi.unstubAllEnvs());
  vi.resetModules();
  return (await import(program.href)) as Route;
};

const post = (key: string, body: object = {}): Request =>
  new Request("https://shop.test/orders", {
    method: "POST",
    headers: { "idempotency-key": key },
    body: JSON.stringify(body),
  });
const get = (id: string): Request => new Request(`https://shop.test/orders?id=${id}`);
const said = async (response: Response): Promise<readonly [number, unknown]> => [
  response.status,
  await response.json(),
];
const scripts = (): number => bridge.commands.splice(0).filter(([name = ""]) => name.startsWith("eval")).length;

describe("the route", () => {
  it("stands in the page as it is", () => {
    const page = readFileSync(new URL("../../../packages/core/docs/http.md", import.meta.url), "utf8");
    expect(page).toContain(readFileSync(program, "utf8").trim());
  });

  it("adds a job once, though a request and a reply are repeated, and a worker elsewhere runs it", async () => {
    const route = await instance();
    bridge.faults.push(cutAfter, cutAfter, cutAfter);
    const [code, first] = await said(await route.POST(post("o-1", { item: "lamp" })));
    expect([code, first]).toEqual([202, { id: expect.any(String) as string, isAdded: true }]);
    const { id: added } = first as { id: string };
    const repeat = async (): Promise<unknown> => said(await (await instance()).POST(post("o-1", { item: "lamp" })));
    expect(await repeat()).toEqual([202, { id: added, isAdded: false }]);
    expect(await said(await route.GET(get(added)))).toMatchObject([200, { state: "ready" }]);
    const queue = createQueue(socket, "shop");
    onTestFinished(() => queue.close());
    const ran: unknown[] = [];
    await new Promise<void>((resolve) => {
      const worker = queue.work({ order: ({ id, data }) => void ran.push([id, data]) });
      worker.once("completed", () => resolve());
    });
    expect(ran).toEqual([[added, { item: "lamp" }]]);
    expect(await repeat()).toMatchObject([202, { isAdded: false }]);
    expect(await said(await route.GET(get(added)))).toMatchObject([200, { state: "none" }]);
    expect(await said(await route.POST(post("")))).toMatchObject([400, {}]);
  });

  it("sends as many requests as the page says", async () => {
    await (await instance()).POST(post("o-0"));
    scripts();
    const route = await instance();
    await route.POST(post("o-1"));
    const cold = bridge.commands.length;
    bridge.commands.length = 0;
    await route.POST(post("o-2"));
    expect([cold, bridge.commands.length]).toEqual([6, 2]);
  });

  it("replies with 503 while the endpoint is away", async () => {
    const route = await instance();
    bridge.faults.push(status(429, {}, { "retry-after": "60" }));
    expect(await said(await route.POST(post("o-1")))).toEqual([503, { error: "KIT_UNAVAILABLE" }]);
    expect(await socket.keys("*shop*")).toEqual([]);
  });
});

const refused = async (promise: Promise<unknown>): Promise<unknown> =>
  await promise.catch((error: unknown) => (KitError.is(error) ? error.code : error));

describe("over HTTP", () => {
  it("queues take jobs, calls poll for outcomes, and workers and readers of events are refused", async () => {
    const queue = createQueue(redis, "mail");
    const elsewhere = createQueue(socket, "mail");
    onTestFinished(async () => void (await Promise.all([queue.close(), elsewhere.close()])));
    expect(() => queue.work({ a: () => undefined })).toThrow(
      expect.objectContaining({ code: "KIT_UNSUPPORTED" }) as Error,
    );
    expect(() => createQueueEvents(redis, "mail")).toThrow(/works over HTTP/);
    expect(await refused(queue.add("raw", Buffer.from([0xff])))).toBe("KIT_UNSUPPORTED");
    expect(await queue.addAll([{ name: "a" }, { name: "b", data: "é\0" }])).toHaveLength(2);
    elsewhere.work({ a: () => undefined, b: () => undefined, sum: ({ data }) => (data as number) + 1 });
    expect(await queue.call("sum", 1, { waitMs: 60_000 })).toBe(2);
  });

  it("queues take jobs where INFO is refused in scripts, and say so", async () => {
    const queue = createQueue(redis, "mail");
    onTestFinished(() => queue.close());
    const errors: unknown[] = [];
    queue.on("error", ({ code }) => errors.push(code));
    bridge.faults.push(served, served, status(400, { error: "ERR INFO is not allowed from script" }));
    await queue.add("a");
    expect(errors).toEqual(["KIT_SERVER"]);
  });

  it("statistics count and read, and tails are refused", async () => {
    const stats = createStats(redis);
    onTestFinished(() => stats.close());
    const views = stats.counter("views_total");
    views.inc(2);
    expect(await views.add()).toBe(3);
    const took = stats.distribution("took_ms");
    took.observe(20);
    const log = stats.messages("web");
    log.log("info", "started");
    await stats.flush();
    const now = await views.read({ lastMs: 60_000, stepMs: 60_000 });
    expect(now.reduce((sum, { value }) => sum + value, 0)).toBe(3);
    expect((await log.recent()).entries.map(({ text }) => text)).toEqual(["started"]);
    expect(await refused(log.tail().next())).toBe("KIT_UNSUPPORTED");
  });

  it("addresses and names are looked up, and a search on the server is refused", async () => {
    await importGeoIp(socket, "city", [{ network: "192.0.2.0/24", place: { country: "XA" } }]);
    const place = async (mode: "cached" | "local" | "server"): Promise<unknown> => {
      const geo = createGeoIp(redis, "city", { mode });
      onTestFinished(() => geo.close());
      return await refused(geo.lookup("192.0.2.200").then((found) => found.place?.country));
    };
    expect([await place("cached"), await place("local"), await place("server")]).toEqual([
      "XA",
      "XA",
      "KIT_UNSUPPORTED",
    ]);
    const cities = createPrefixIndex(redis, "cities", { order: "weight" });
    onTestFinished(() => cities.close());
    await cities.putMany([{ id: "1", text: "São Paulo", weight: 1, payload: { country: "BR" } }]);
    expect((await cities.suggest("sao")).items).toMatchObject([{ text: "São Paulo" }]);
  });

  it("locks poll, and chats send and read, but do not wait", async () => {
    const lock = createLock(redis);
    const others = createLock(socket);
    onTestFinished(async () => void (await Promise.all([lock.close(), others.close()])));
    const held = await others.acquire("x");
    const waiting = lock.acquire("x", { waitMs: 60_000 });
    await vi.waitUntil(() => scripts() > 1, { timeout: 60_000 });
    await held.release();
    await (await waiting).release();
    const chat = createChat(redis);
    onTestFinished(() => chat.close());
    await chat.create("c", { members: ["a", "b"], retain: { count: 10 } });
    await chat.send("c", { from: "a", body: "hello", clientId: "1" });
    const { chats } = await chat.fetch("b");
    expect(chats[0]?.messages.map(({ body }) => body)).toEqual(["hello"]);
    for (const message of chats[0]?.messages ?? []) await chat.ack("b", message);
    expect(await refused(chat.wait("b", { waitMs: 60_000 }))).toBe("KIT_UNSUPPORTED");
  });
});
