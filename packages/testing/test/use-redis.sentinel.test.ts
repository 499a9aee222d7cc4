import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { eventually, useRedis, type RedisNode } from "../src/index.js";
import { fakeRunner } from "./fake-runner.js";

const file = fakeRunner();
const redis = useRedis(file.hooks, { mode: "sentinel", downAfterMs: 500 });
beforeAll(() => file.before());
afterAll(() => file.after());

const failOver = async () => {
  const [old] = redis.server.nodes as [RedisNode];
  await old.kill();
  await eventually(async () => expect(await redis.server.master()).not.toBe(old), { timeoutMs: 60_000 });
  await old.start();
};

describe("useRedis in sentinel mode", () => {
  it("keeps its server through a test that changes nothing about it", async () => {
    const urls: string[] = [];
    const problem = await file.run(async () => {
      urls.push(redis.url);
      const own = redis.connect();
      await own.set(`${redis.prefix}:a`, "1", "PX", 60_000);
      expect(await redis.keys()).toEqual([`${redis.prefix}:a`]);
    });
    await file.run(() => urls.push(redis.url));
    expect([problem, urls[1]]).toEqual([undefined, urls[0]]);
  });

  it("starts the test after a failover with a new server, whose first node is master", async () => {
    let url = "";
    const problem = await file.run(async () => {
      url = redis.url;
      await failOver();
    });
    expect(problem).toBeUndefined();
    await file.run(async () => {
      expect(redis.url).not.toBe(url);
      expect(await redis.server.master()).toBe(redis.server.nodes[0]);
      expect(await redis.client.set(`${redis.prefix}:a`, "1", "PX", 60_000)).toBe("OK");
    });
  });

  it("looks at the keys of the new master after a failover", async () => {
    let key = "";
    const problem = await file.leak(async () => {
      key = `${redis.prefix}:left`;
      await failOver();
      const master = await redis.server.master();
      await eventually(() => master.call("SET", key, "1"), { timeoutMs: 60_000 });
      // On a busy machine the Sentinels may fail over once more, to the other one.
      const hasKey = async (node: RedisNode) => expect(await node.call("EXISTS", key)).toBe(1);
      await eventually(() => Promise.all(redis.server.replicas.map(hasKey)), { timeoutMs: 60_000 });
      expect(await redis.keys()).toEqual([key]);
    });
    expect(problem).toContain(`a string key without expiry: ${key}`);
  });

  it("fails a test that leaves a connection to a replica or a Sentinel", async () => {
    for (const node of [redis.server.replicas[1], redis.server.sentinels[2]] as RedisNode[]) {
      const connections: { disconnect(): void }[] = [];
      const problem = await file.leak(async () => {
        const connection = new Redis(node.port, node.host, { enableReadyCheck: false });
        connections.push(connection);
        await connection.ping();
      });
      for (const connection of connections) connection.disconnect();
      expect(problem).toMatch(new RegExp(`an open connection \\(${node.port}#`));
    }
  });

  it("fails a test that leaves a Sentinel paused, and resumes it", async () => {
    const [sentinel] = redis.server.sentinels as [RedisNode];
    expect(await file.run(() => sentinel.pause())).toBe(
      `This test left behind:\n  - a paused server: ${sentinel.host}:${sentinel.port}`,
    );
    expect(await file.run(() => {})).toBeUndefined();
  });
});
