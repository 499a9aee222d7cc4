import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { eventually, useRedis } from "../src/index.js";
import { fakeRunner } from "./fake-runner.js";

const file = fakeRunner();
const redis = useRedis(file.hooks, { mode: "cluster" });
beforeAll(() => file.before());
afterAll(() => file.after());

describe("useRedis in cluster mode", () => {
  it("finds the keys of a test on all masters, and lets a clean test pass", async () => {
    const problem = await file.run(async () => {
      const names = Array.from({ length: 20 }, (_, index) => `${redis.prefix}:${index}`);
      const own = redis.connect();
      await Promise.all(names.map((name) => own.set(name, "1", "PX", 60_000)));
      expect(await redis.keys()).toEqual(names.sort());
      expect(own.status).toBe("ready");
    });
    expect(problem).toBeUndefined();
  });

  it("fails a test that leaves keys without expiry on some master", async () => {
    const problem = await file.leak(async () => {
      await Promise.all([1, 2, 3, 4, 5, 6].map((n) => redis.client.set(`${redis.prefix}:${n}`, "1")));
    });
    expect(problem?.match(/a string key without expiry/g)).toHaveLength(6);
  });

  it("fails a test that leaves a Cluster open, even one that only listens", async () => {
    const connections: { disconnect(): void }[] = [];
    const problem = await file.leak(async () => {
      const connection = redis.client.duplicate();
      connections.push(connection);
      await connection.subscribe("news");
    });
    for (const connection of connections) connection.disconnect();
    expect(problem).toMatch(/an open connection \(.*\(subscriber\).*last command "subscribe"/);
    await eventually(async () => expect(await file.run(() => {})).toBeUndefined());
  });

  it("stays calm when a test restarts all masters", async () => {
    const problem = await file.run(async () => {
      for (const node of redis.server.nodes) {
        await node.kill();
        await node.start();
      }
    });
    expect(problem).toBeUndefined();
    expect(await file.run(() => redis.client.set(`${redis.prefix}:a`, "1", "PX", 60_000))).toBeUndefined();
  });
});
