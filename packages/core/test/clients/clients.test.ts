import { useRedis } from "@kit/testing";
import * as redis6 from "redis";
import * as redis5 from "redis5";
import * as vitest from "vitest";
import { describe, expect, expectTypeOf, it } from "vitest";
import { attach, Deadline } from "../../src/toolkit/index.js";
import { fromNodeRedis, type NodeRedisClient } from "../../src/node-redis/index.js";
import { opened, openingInbox, proxied, rejection, runProgram, until } from "../harness.js";
import { read } from "../scripts.js";
import { tlsServer } from "../tls-servers.js";
import { clientBehaviour } from "./behaviour.js";
import { drivers, libraries, nodeRedisOnly } from "./drivers.js";

const redis = useRedis(vitest, { replicas: 1 });

describe.each(drivers)("a client of $name", (driver) => {
  clientBehaviour(redis, driver);
});

describe.each(libraries)("a client of $name over TLS", (driver) => {
  it.each([false, true])("has connections of ours speak TLS as well (isolate: %s)", async (isolate) => {
    const { port, secure } = await tlsServer(redis);
    const client = driver.single({ port, secure });
    redis.defer(() => client.end());
    const context = attach(client.redis, { isolate });
    redis.defer(() => context.detach());
    await read.run(context, { key: redis.prefix }, {}, { deadlineMs: 10_000 });
    expect(await opened(context.inbox, 10_000)).toBe(true);
    const connection = await context.pool("test").checkOut(redis.prefix, Deadline.in(10_000), undefined);
    expect(await connection.call("PING", [], 10_000)).toBe("PONG");
    connection.returnToPool(false);
  });
});

describe("fromNodeRedis", () => {
  const rootNodes = [{ url: "redis://127.0.0.1:1" }];
  const sentinel = { name: "kit", sentinelRootNodes: [{ host: "127.0.0.1", port: 1 }] };

  it("takes the clients of both majors as they are typed, and wraps each once", () => {
    const wrapped = [
      [redis6.createClient(), fromNodeRedis(redis6.createClient())],
      [redis5.createClient(), fromNodeRedis(redis5.createClient())],
      [redis6.createCluster({ rootNodes }), fromNodeRedis(redis6.createCluster({ rootNodes }))],
      [redis5.createCluster({ rootNodes }), fromNodeRedis(redis5.createCluster({ rootNodes }))],
      [redis6.createSentinel(sentinel), fromNodeRedis(redis6.createSentinel(sentinel))],
      [redis5.createSentinel(sentinel), fromNodeRedis(redis5.createSentinel(sentinel))],
    ] as const;
    for (const [client, other] of wrapped) {
      expect(other.status).toBe("wait");
      expect(fromNodeRedis(client)).toBe(fromNodeRedis(client));
      expect(fromNodeRedis(client)).not.toBe(other);
    }
  });

  it("takes a client whose getter may have no options, as those before 5.9 are typed", () => {
    type Older = Omit<NodeRedisClient, "options"> & { get options(): { readonly database?: number } | undefined };
    expectTypeOf<Older>().toExtend<NodeRedisClient>();
    // The assertion above is the compiler's; this one is for the runner, which wants to see one.
    expect(fromNodeRedis).toBeTypeOf("function");
  });

  it("opens no connection while the Sentinels name no master, and reports it", async () => {
    const owners = redis6.createSentinel({ ...sentinel, maxCommandRediscovers: 1 });
    owners.on("error", () => undefined);
    owners.connect().catch(() => undefined);
    const connection = fromNodeRedis(owners).duplicate();
    expect(await rejection(connection.connect())).toMatchObject({
      code: "KIT_UNAVAILABLE",
      message: "No master of the Sentinels is known: the connection was not opened",
      retryable: true,
    });
  });

  it.each(nodeRedisOnly)("hands $name nothing while it is offline", async (driver) => {
    const proxy = await proxied(redis);
    const { redis: client, end } = driver.single({ port: proxy.port });
    redis.defer(end);
    await read.run(client, { key: redis.prefix }, {});
    proxy.refuse = true;
    proxy.resetAll();
    await until(() => client.status !== "ready");
    expect((await rejection(client.call("INCR", redis.prefix))).name).toBe("NotSentError");
    proxy.refuse = false;
    await until(() => client.status === "ready");
    expect(await client.call("EXISTS", redis.prefix)).toBe(0);
  });

  it("keeps no process alive, once its owner's client is closed or idle", async () => {
    const { stdout, stderr, code } = await runProgram(`
      import { createClient } from "redis";
      import { fromNodeRedis } from "./dist/node-redis.js";
      import { attach, Deadline } from "./dist/toolkit.js";
      const open = async (isolate) => {
        const client = await createClient({ url: "${redis.url}" }).on("error", () => undefined).connect();
        const context = attach(fromNodeRedis(client), { isolate });
        ${openingInbox}
        process.stdout.write(String(context.inbox.isOpen) + " ");
        (await context.pool("test").checkOut("x", Deadline.in(10_000))).returnToPool(true);
        return client;
      };
      await (await open(false)).close();
      await (await open(true)).close();
      (await open(false)).unref();`);
    expect({ stdout, stderr, code }).toEqual({ stdout: "true true true ", stderr: "", code: 0 });
  });

  it.each(drivers.filter(({ name }) => /^node-redis (6|5 with RESP3)$/.test(name)))(
    "gives no caller the reply of another when a listener of the owner of $name throws",
    async (driver) => {
      const { redis: client, emitter, end } = driver.single({ port: redis.server.nodes[0]!.port });
      redis.defer(end);
      const context = attach(client);
      redis.defer(() => context.detach());
      const run = (command: string, ...args: string[]): Promise<unknown> =>
        context.executor.run(command, args, {
          what: command,
          mutates: command === "EVAL",
          idempotent: false,
          deadline: Deadline.in(3_000),
        });
      const keys = ["a", "b", "c"].map((key) => redis.prefix + key);
      for (const key of keys) await redis.client.set(key, key, "PX", 60_000);
      expect(await run("GET", keys[0]!)).toBe(keys[0]);
      await (emitter as unknown as { subscribe(name: string, hear: () => void): Promise<void> }).subscribe(
        redis.prefix,
        () => {
          throw new Error("a fault of the owner");
        },
      );
      // node-redis drops the reply to this.
      const dropped = rejection(run("EVAL", `return redis.call("PUBLISH", "${redis.prefix}", "x")`, "0"));
      const replies = await Promise.allSettled(keys.map((key) => run("GET", key)));
      const wrong = replies.filter((reply, index) => reply.status === "fulfilled" && reply.value !== keys[index]);
      expect(wrong).toEqual([]);
      expect((await dropped).code).toBe("KIT_UNKNOWN_OUTCOME");
      // The connection was ended, and node-redis has made another.
      for (const key of keys) expect(await run("GET", key)).toBe(key);
    },
  );

  it.each(nodeRedisOnly)("takes an unwritten command of $name back after the last close", async (driver) => {
    const proxy = await proxied(redis);
    const { redis: client, end } = driver.single({ port: proxy.port });
    redis.defer(end);
    const context = attach(client);
    await read.run(context, { key: redis.prefix }, {});
    // Nothing is written any more: the link is full.
    proxy.up.hole = true;
    const large = Array.from({ length: 200 }, () => client.call("ECHO", "x".repeat(100_000)).catch(String));
    const late = rejection(client.call("INCR", redis.prefix));
    context.detach();
    proxy.resetAll();
    proxy.up.hole = false;
    expect((await late).name).toBe("NotSentError");
    await Promise.all(large);
    await until(() => client.status === "ready");
    expect(await client.call("EXISTS", redis.prefix)).toBe(0);
  });

  it("refuses what is no client of node-redis, and core refuses a client that is not wrapped", () => {
    for (const value of [undefined, null, 1, "redis://h", {}, redis.client, redis6.createClientPool()])
      expect(() => fromNodeRedis(value as never)).toThrow(TypeError);
    expect(() => attach(redis6.createClient() as never)).toThrow(/fromNodeRedis\(client\)/);
  });
});
