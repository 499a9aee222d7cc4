import { type RedisServer, startRedis } from "@kit/testing";
import type { Redis } from "ioredis";
import { afterEach, describe, expect, it, vi } from "vitest";
import {
  ClassicConfigs,
  type ClassicConnections,
  ClassicMaintenance,
  configKey,
  maintenanceKey,
  redisConnection,
  setConfig,
} from "../src/index.js";
import { calls, useClassic } from "./harness.js";

const classic = useClassic();
afterEach(() => {
  vi.useRealTimers();
});
/** Advances the clock of the classic code. */
const later = (ms: number): void => {
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + ms });
};

describe("the classic configuration", () => {
  const open = async (): Promise<{ redis: Redis; configs: ClassicConfigs }> => {
    const redis = await classic.connect();
    return { redis, configs: new ClassicConfigs(redis, classic.prefix) };
  };
  const set = (redis: Redis, config: Record<string, unknown>): Promise<void> =>
    setConfig(redis, "search", "web", config, classic.prefix);

  it("reads a configuration, and a change once the wait is over", async () => {
    const { redis, configs } = await open();
    await set(redis, { port: 1 });
    expect(await configs.get("search", "web")).toEqual({ port: 1 });
    await set(redis, { port: 2 });
    expect(await configs.get("search", "web")).toEqual({ port: 1 });
    later(1_001);
    expect(await configs.get("search", "web")).toEqual({ port: 2 });
  });

  it("polls: it reads an unchanged configuration again and again", async () => {
    const { redis, configs } = await open();
    const before = await calls(redis, "get");
    for (let second = 0; second < 60; second++) {
      await configs.get("search", "web");
      later(1_001);
    }
    expect((await calls(redis, "get")) - before).toBe(60);
  });

  it("a missing configuration reads as an empty one", async () => {
    const { configs } = await open();
    expect(await configs.get("search", "web")).toEqual({});
  });

  it("takes any type", async () => {
    const { redis, configs } = await open();
    await set(redis, { port: "many" });
    expect(await configs.get("search", "web")).toEqual({ port: "many" });
  });

  it("callers share one object that each may change", async () => {
    const { redis, configs } = await open();
    await set(redis, { port: 1 });
    (await configs.get("search", "web"))["port"] = 666;
    expect(await configs.get("search", "web")).toEqual({ port: 666 });
    expect(await redis.get(configKey("search", "web", classic.prefix))).toBe('{"port":1}');
  });
});

describe("the classic component connection", () => {
  const open = async () => {
    const redis = await classic.connect();
    const configs = new ClassicConfigs(redis, classic.prefix);
    const connections: ClassicConnections = { current: new Map(), all: [] };
    const call = redisConnection(configs, connections, "logs", async (db, key: string) => await db.incr(key), 0);
    const point = async (server: RedisServer): Promise<void> =>
      await setConfig(redis, "redis", "logs", { port: server.nodes[0]!.port }, classic.prefix);
    const close = (): void => connections.all.forEach((connection) => connection.disconnect());
    return { redis, configs, connections, call, point, close };
  };

  it("swaps when the configuration names another server, and never closes the old connection", async () => {
    await using a = await startRedis();
    await using b = await startRedis();
    const { call, point, connections, close } = await open();
    await point(a);
    expect(await call("n")).toBe(1);
    later(5);
    expect(await call("n")).toBe(2);
    later(5);
    await point(b);
    expect(await call("n")).toBe(1);
    expect(connections.all.map(({ status }) => status)).toEqual(["ready", "ready"]);
    close();
  });

  it("without a configuration it means localhost", async () => {
    const { configs, connections } = await open();
    const where = redisConnection(configs, connections, "logs", async (db) => await Promise.resolve(db.options));
    expect(await where()).toMatchObject({ host: "localhost", port: 6379 });
  });

  it("a read by other code hides the change", async () => {
    await using a = await startRedis();
    await using b = await startRedis();
    const { call, configs, point, close } = await open();
    await point(a);
    await call("n");
    await point(b);
    later(5);
    await configs.get("redis", "logs", 0);
    later(10);
    expect(await call("n")).toBe(2);
    close();
  });
});

describe("the classic maintenance flag", () => {
  it("reads the key at most once a second", async () => {
    const redis = await classic.connect();
    const flag = new ClassicMaintenance(redis, classic.prefix);
    expect(await flag.isUnderMaintenance()).toBe(false);
    await redis.set(maintenanceKey(classic.prefix), "yes");
    expect(await flag.isUnderMaintenance()).toBe(false);
    later(1_001);
    expect(await flag.isUnderMaintenance()).toBe(true);
  });

  it("any text means on, also `no`", async () => {
    const redis = await classic.connect();
    await redis.set(maintenanceKey(classic.prefix), "no");
    expect(await new ClassicMaintenance(redis, classic.prefix).isUnderMaintenance()).toBe(true);
  });

  it("after a failed read the old value silently holds for a second", async () => {
    const redis = await classic.connect();
    const flag = new ClassicMaintenance(redis, classic.prefix);
    await flag.isUnderMaintenance();
    await redis.set(maintenanceKey(classic.prefix), "yes");
    redis.disconnect();
    later(1_001);
    await expect(flag.isUnderMaintenance()).rejects.toThrow("closed");
    expect(await flag.isUnderMaintenance()).toBe(false);
  });
});
