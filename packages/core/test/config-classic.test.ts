import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { type RedisServer, startRedis, useRedis } from "@kit/testing";
import { Redis } from "ioredis";
import { type Component, createComponent, createFlags, withComponent } from "../src/config/index.js";
import { fixtureOf, first, second } from "./config-harness.js";
import { callsOf, own, proxied, rejection, until } from "./harness.js";

/** Each test shows that this package does not have a known defect of the code in "Redis in Action". The name is the defect. */
const redis = useRedis(vitest, { permanentKeys: ["*"] });
const fixture = fixtureOf(redis);

describe("defects of the classic live configuration, absent here", () => {
  it("polls, and sees a change only then", async () => {
    const [writer, reader] = [await fixture.ready({ default: first }), await fixture.ready({ default: first })];
    const reads = await callsOf(redis, "hmget");
    for (let read = 0; read < 10_000; read++) expect(reader.current.port).toBe(first.port);
    expect((await callsOf(redis, "hmget")) - reads).toBe(0);
    const seen = new Promise((resolve) => reader.once("change", resolve));
    await writer.set(second);
    await seen;
    expect(reader.current).toEqual(second);
  });

  it("what is missing reads as an empty one, even after it was there", async () => {
    const config = await fixture.ready({ default: second, pollMs: 100 });
    await config.set(first);
    await redis.client.del(fixture.keyOf("entry"));
    await until(() => config.state === "degraded");
    expect(config.current).toEqual(first);
    expect(await rejection(fixture.make().ready())).toMatchObject({ code: "KIT_CONFIG_MISSING" });
  });

  it("any type is taken", async () => {
    const config = await fixture.ready({ default: first });
    expect(await rejection(config.set({ host: "h", port: "many" } as never))).toMatchObject({
      issues: [{ path: "port" }],
    });
    await config.set(second);
    await fixture.writeUnseen('{"host":7,"port":"many"}');
    await fixture.announce();
    await until(() => config.state === "degraded");
    expect(config.current).toEqual(second);
  });

  it("all callers share one object, and any may change it", async () => {
    const config = await fixture.ready({ default: first });
    expect(() => Object.assign(config.current, { port: 666 })).toThrow(TypeError);
    expect(config.current.port).toBe(first.port);
  });

  it("the last of two writers wins, and the other never learns of it", async () => {
    const config = await fixture.ready({ default: first });
    const seen = await config.set(first);
    await config.set(second, { expected: seen });
    expect(await rejection(config.set(first, { expected: seen }))).toMatchObject({ code: "KIT_CONFIG_CONFLICT" });
    expect((await config.history()).map(({ value }) => value)).toEqual([second, first]);
  });
});

describe("defects of the classic component connections, absent here", () => {
  const start = async (): Promise<RedisServer> => {
    const server = await startRedis();
    redis.defer(() => server.stop());
    return server;
  };
  const ours = async (server: RedisServer): Promise<Component> => {
    const logs = createComponent(redis.client, "logs", { prefix: redis.prefix });
    redis.defer(() => logs.close());
    await logs.config.set({ url: server.url });
    await logs.ready();
    return logs;
  };
  const point = async (logs: Component, server: RedisServer): Promise<void> => {
    const swapped = new Promise((resolve) => logs.once("swap", resolve));
    await logs.config.set({ url: server.url });
    await swapped;
  };
  const clientsOf = async (server: RedisServer): Promise<number> =>
    String(await server.call("CLIENT", "LIST"))
      .trim()
      .split("\n")
      .filter((line) => !/ name=kit-/.test(line)).length;

  it("without a configuration it connects to localhost", async () => {
    const logs = createComponent(redis.client, "logs", { prefix: redis.prefix });
    redis.defer(() => logs.close());
    const ping = withComponent(logs, async (db) => await db.ping());
    expect(await rejection(ping())).toMatchObject({ code: "KIT_CONFIG_MISSING" });
    expect(await rejection(logs.config.set({ url: "redis://" }))).toMatchObject({ code: "KIT_CONFIG_INVALID" });
  });

  it("a read by anyone else hides the change, so the swap never happens", async () => {
    const [a, b] = [await start(), await start()];
    const logs = await ours(a);
    const ourPort = withComponent(logs, async (db) => Number(/tcp_port:(\d+)/.exec(await db.info("server"))![1]));
    expect(await ourPort()).toBe(a.nodes[0]!.port);
    const swapped = new Promise((resolve) => logs.once("swap", resolve));
    await logs.config.set({ url: b.url });
    expect([await logs.config.get(), logs.config.current]).toEqual([{ url: b.url }, { url: b.url }]);
    await swapped;
    expect(await ourPort()).toBe(b.nodes[0]!.port);
  });

  it("the old connection is never closed", async () => {
    const [a, b] = [await start(), await start()];
    const idle = await clientsOf(a);
    const logs = await ours(a);
    await withComponent(logs, async (db) => await db.ping())();
    await point(logs, b);
    await until(async () => (await clientsOf(a)) === idle);
    expect(await withComponent(logs, async (db) => await db.ping())()).toBe("PONG");
  });

  it("calls in flight are cut, since nobody knows when the old server is free to go", async () => {
    const [a, b] = [await start(), await start()];
    const idle = await clientsOf(a);
    const work = async (
      db: { rpush(key: string, value: string): Promise<number> },
      go: Promise<void>,
    ): Promise<number> => {
      await db.rpush("work", "begun");
      await go;
      return await db.rpush("work", "done");
    };
    let finish = (): void => undefined;
    const logs = await ours(a);
    const call = withComponent(logs, work)(new Promise<void>((resolve) => (finish = resolve)));
    await until(async () => Number(await a.call("LLEN", "work")) === 1);
    await point(logs, b);
    expect(await clientsOf(a)).toBe(idle + 1);
    finish();
    expect(await call).toBe(2);
    await until(async () => (await clientsOf(a)) === idle);
  });
});

describe("defects of the classic maintenance flag, absent here", () => {
  const ours = (client = redis.client as Redis, maxStaleMs?: number) => {
    const flags = createFlags(
      client,
      { maintenance: { whenUnknown: true } },
      { prefix: redis.prefix, pollMs: 100, deadlineMs: 100, maxStaleMs },
    );
    redis.defer(() => flags.close());
    return flags;
  };

  it("any text that is not empty, even `no`, means on", async () => {
    const flags = ours();
    await flags.set("maintenance", false, { deadlineMs: 30_000 });
    await redis.client.hset(fixture.keyOf("entry", "flags"), { revision: 2, value: '{"maintenance":{"on":"no"}}' });
    await until(() => flags.state === "degraded");
    expect(flags.isOn("maintenance")).toBe(false);
    expect(await rejection(flags.set("maintenance", "no" as never))).toBeInstanceOf(TypeError);
  });

  it("a failed read keeps the old answer for a second, unseen", async () => {
    const proxy = await proxied(redis);
    const flags = ours((await own(redis, { url: proxy.url })) as unknown as Redis, 500);
    await flags.ready({ waitMs: 30_000 });
    await flags.set("maintenance", false, { deadlineMs: 30_000 });
    proxy.refuse = true;
    proxy.resetAll();
    // Seen at once, and by policy no answer for longer than was agreed.
    await until(() => flags.state === "stale");
    expect(flags.get("maintenance")).toMatchObject({ on: false, isKnown: true });
    await until(() => !flags.get("maintenance").isKnown);
    expect(flags.isOn("maintenance")).toBe(true);
    proxy.refuse = false;
  });

  it("each process asks again every second", async () => {
    const flags = createFlags(redis.client, { maintenance: { whenUnknown: true } }, { prefix: redis.prefix });
    redis.defer(() => flags.close());
    await flags.ready();
    const reads = await callsOf(redis, "hmget");
    for (let read = 0; read < 10_000; read++) expect(flags.isOn("maintenance")).toBe(false);
    const reported = new Promise((resolve) => flags.once("change", resolve));
    expect(await callsOf(redis, "hmget")).toBe(reads);
    await ours().set("maintenance", true, { deadlineMs: 30_000 });
    await reported;
    expect(flags.isOn("maintenance")).toBe(true);
  });
});
