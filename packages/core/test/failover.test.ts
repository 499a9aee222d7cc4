import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { type RedisNode, type RedisServer, startRedis, useRedis } from "@kit/testing";
import type { RedisLike } from "../src/kernel/connection/client.js";
import { own, proxied, rejection, until } from "./harness.js";
import { addOnce, append, putAll, read } from "./scripts.js";

const redis = useRedis(vitest);

/** Runs `work` while the server is a replica of nobody. */
const asReplica = async (node: RedisNode, work: () => Promise<void>): Promise<void> => {
  await node.call("REPLICAOF", "127.0.0.1", "1");
  try {
    await work();
  } finally {
    await node.call("REPLICAOF", "NO", "ONE");
  }
};

/** How often the server has answered with this error. */
const refusals = async (node: RedisNode, error: string): Promise<number> =>
  Number(new RegExp(`errorstat_${error}:count=(\\d+)`).exec(String(await node.call("INFO", "errorstats")))?.[1] ?? 0);

const connections = async (node: RedisNode): Promise<number> =>
  Number(/total_connections_received:(\d+)/.exec(String(await node.call("INFO", "stats")))?.[1]);

/** Starts a call that is refused three times at least before `mend`, and returns what became of it. */
const overcome = async <T>(node: RedisNode, error: string, call: () => Promise<T>, mend: () => unknown): Promise<T> => {
  const before = await refusals(node, error);
  const called = call();
  await until(async () => (await refusals(node, error)) >= before + 3);
  await mend();
  return await called;
};

const clients = async (): Promise<readonly RedisLike[]> => [redis.connect(), await own(redis)];

describe("a server that refuses for a while", () => {
  it("READONLY inside a script is waited out: one effect", async () => {
    const [node] = redis.server.nodes as [RedisNode];
    for (const [index, client] of (await clients()).entries()) {
      const key = `${redis.prefix}:${String(index)}`;
      await node.call("REPLICAOF", "127.0.0.1", "1");
      const call = (): Promise<number> => addOnce.run(client, { key }, { op: "1" }, { deadlineMs: 10_000 });
      expect(await overcome(node, "READONLY", call, () => node.call("REPLICAOF", "NO", "ONE"))).toBe(1);
    }
  });

  it("a change that is not idempotent is handed over again too, since nothing was done", async () => {
    const [node] = redis.server.nodes as [RedisNode];
    const client = redis.connect();
    await node.call("REPLICAOF", "127.0.0.1", "1");
    const call = (): Promise<number> =>
      append.run(client, { key: redis.prefix }, { value: "x" }, { deadlineMs: 10_000 });
    expect(await overcome(node, "READONLY", call, () => node.call("REPLICAOF", "NO", "ONE"))).toBe(1);
    await redis.client.del(redis.prefix);
  });

  it("MASTERDOWN is waited out, by reads as well", async () => {
    const [node] = redis.server.nodes as [RedisNode];
    await node.call("CONFIG", "SET", "replica-serve-stale-data", "no");
    redis.defer(() => node.call("CONFIG", "SET", "replica-serve-stale-data", "yes"));
    for (const client of await clients()) {
      await node.call("REPLICAOF", "127.0.0.1", "1");
      const call = (): Promise<string> => read.run(client, { key: redis.prefix }, {}, { deadlineMs: 10_000 });
      expect(await overcome(node, "MASTERDOWN", call, () => node.call("REPLICAOF", "NO", "ONE"))).toBe("");
    }
  });

  it("LOADING is waited out while a server with data starts", async () => {
    await using server = await startRedis({
      persistence: "snapshot",
      args: ["--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024"],
    });
    const [node] = server.nodes as [RedisNode];
    const filled = "for i = 1, 3000 do redis.call('SET', 'k' .. i, string.rep('x', 64)) end";
    await node.call("EVAL", filled, "0");
    await node.call("SAVE");
    // A client that sends INFO first would not be ready, and so would get no LOADING.
    const client = server.client({ enableReadyCheck: false, retryStrategy: () => 20, maxRetriesPerRequest: 0 });
    const owned = await own(redis, { url: server.url });
    await client.ping();
    await node.kill();
    const starting = node.start();
    await until(() => client.status === "ready");
    const calls = [client, owned].map((each) => read.run(each, { key: "k3000" }, {}, { deadlineMs: 60_000 }));
    const codes: string[] = [];
    while (!codes.includes("KIT_LOADING")) {
      const early = await rejection(read.run(client, { key: "k1" }, {}, { deadlineMs: 600 }));
      expect(early.retryable).toBe(true);
      codes.push(early.code);
    }
    // A busy machine may not even have said so in time.
    expect(codes.filter((code) => code !== "KIT_LOADING" && code !== "KIT_UNAVAILABLE")).toEqual([]);
    expect(await Promise.all(calls)).toEqual(["x".repeat(64), "x".repeat(64)]);
    await starting;
  });
});

describe("what the deadline ends", () => {
  it("is the error of the reply", async () => {
    const [node] = redis.server.nodes as [RedisNode];
    for (const client of await clients())
      await asReplica(node, async () => {
        const failed = rejection(append.run(client, { key: redis.prefix }, { value: "x" }, { deadlineMs: 1_000 }));
        expect(await failed).toMatchObject({ code: "KIT_READONLY", retryable: true });
      });
  });

  it("is unknown when an earlier try may have succeeded", async () => {
    const [node] = redis.server.nodes as [RedisNode];
    const proxy = await proxied(redis);
    const client = await own(redis, { url: proxy.url });
    const args = { ttlMs: 60_000, values: ["a"] };
    await putAll.run(client, { first: redis.prefix, others: [] }, args);
    proxy.refuse = true;
    proxy.down.cutNext = 1;
    const failed = rejection(
      putAll.run(client, { first: redis.prefix, others: [] }, args, { deadlineMs: 2_000, op: "2" }),
    );
    await until(() => proxy.stats.resets === 1);
    await asReplica(node, async () => {
      const before = await refusals(node, "READONLY");
      proxy.refuse = false;
      expect(await failed).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME", op: "2" });
      expect(await refusals(node, "READONLY")).toBeGreaterThan(before);
    });
  });

  it("is not waited for where waiting mends nothing", async () => {
    const [node] = redis.server.nodes as [RedisNode];
    const client = await own(redis);
    await node.call("CONFIG", "SET", "maxmemory", "1");
    const failed = rejection(append.run(client, { key: redis.prefix }, { value: "x" }, { deadlineMs: 600_000 }));
    await failed;
    await node.call("CONFIG", "SET", "maxmemory", "0");
    expect(await failed).toMatchObject({ code: "KIT_SERVER_FULL" });
  });

  it("comes at once with the signal", async () => {
    const [node] = redis.server.nodes as [RedisNode];
    const abort = new AbortController();
    await asReplica(node, async () => {
      const { signal } = abort;
      const before = await refusals(node, "READONLY");
      const call = append.run(await own(redis), { key: redis.prefix }, { value: "x" }, { deadlineMs: 60_000, signal });
      const failed = rejection(call);
      await until(async () => (await refusals(node, "READONLY")) > before);
      abort.abort(new Error("enough"));
      expect((await failed).message).toBe("enough");
    });
  });
});

describe("a client of ours that gets READONLY", () => {
  it("connects again once for all calls, and not more than twice a second", async () => {
    const [node] = redis.server.nodes as [RedisNode];
    const client = await own(redis);
    await read.run(client, { key: redis.prefix }, {});
    await asReplica(node, async () => {
      const codes = new Set<string>();
      // Until a reply says so. Calls whose last try is under way at the deadline have an unknown outcome.
      while (!codes.has("KIT_READONLY")) {
        const before = await connections(node);
        const startedAt = performance.now();
        const calls = Array.from({ length: 40 }, (_, index) =>
          rejection(append.run(client, { key: redis.prefix }, { value: String(index) }, { deadlineMs: 1_200 })),
        );
        for (const { code } of await Promise.all(calls)) codes.add(code);
        const made = (await connections(node)) - before;
        expect(made).toBeGreaterThanOrEqual(1);
        expect(made).toBeLessThanOrEqual(1 + (performance.now() - startedAt) / 500);
      }
      codes.delete("KIT_UNKNOWN_OUTCOME");
      expect(codes).toEqual(new Set(["KIT_READONLY"]));
    });
  });

  it("finds the new master behind an address that leads elsewhere by now", async () => {
    const [old] = redis.server.nodes as [RedisNode];
    await using other: RedisServer = await startRedis();
    let { port } = old;
    const sockets: Socket[] = [];
    const door = createServer((near) => {
      const far = connect(port, "127.0.0.1");
      sockets.push(near, far);
      for (const socket of [near, far]) socket.on("error", () => undefined);
      near.pipe(far).pipe(near);
    }).listen(0, "127.0.0.1");
    await once(door, "listening");
    redis.defer(() => {
      door.close();
      for (const socket of sockets) socket.destroy();
    });
    const client = await own(redis, { url: `redis://127.0.0.1:${String((door.address() as AddressInfo).port)}` });
    await read.run(client, { key: redis.prefix }, {});
    await asReplica(old, async () => {
      // The old connection stays open: only who connects anew gets to the other server.
      ({ port } = other.nodes[0] as RedisNode);
      expect(await addOnce.run(client, { key: "moved" }, { op: "1" }, { deadlineMs: 10_000 })).toBe(1);
    });
    expect(await other.call("ZCARD", "moved")).toBe(1);
  });
});
