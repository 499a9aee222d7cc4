import { eventually, type TestRedis } from "@kit/testing";
import { expect, it } from "vitest";
import { durable, replicaReads } from "../../src/durable/index.js";
import { KitUnknownOutcomeError, optimistic } from "../../src/index.js";
import type { Call } from "../../src/kernel/index.js";
import { attach, Deadline, isReplyError, serverError } from "../../src/toolkit/index.js";
import { bare, connectionsNamed, opened, proxied, rejection, until } from "../harness.js";
import { addOnce, append, read } from "../scripts.js";
import type { Client, ClientOptions, Driver } from "./drivers.js";

const write = (what: string, deadlineMs = 5_000): Call => ({
  what,
  mutates: true,
  idempotent: false,
  deadline: Deadline.in(deadlineMs),
});
const look = (what: string): Call => ({ ...write(what), mutates: false, idempotent: true });

/** The behaviour that core needs of a client of one server. */
export const clientBehaviour = (redis: TestRedis, driver: Driver): void => {
  const open = (options: Partial<ClientOptions> = {}): Client => {
    const client = driver.single({ port: redis.server.nodes[0]!.port, ...options });
    redis.defer(() => client.end());
    return client;
  };
  const attached = (client: Client, options = {}): ReturnType<typeof attach> => {
    const context = attach(client.redis, options);
    redis.defer(() => context.detach());
    return context;
  };

  /** Connections beside an isolated client, and the database that one has. */
  const isolatedPool = (client: Client) => {
    const context = attached(client, { isolate: true });
    const pool = context.pool("test");
    const db = async (): Promise<string | undefined> => {
      const connection = await pool.checkOut(redis.prefix, Deadline.in(5_000), undefined);
      const info = await connection.call("CLIENT", ["INFO"], 5_000);
      connection.returnToPool(true);
      return / db=(\d+)/.exec(String(info))?.[1];
    };
    return { context, pool, db };
  };

  it("is connected by the first call", async () => {
    const { redis: client } = open();
    expect(client.status).toBe("wait");
    expect(await append.run(client, { key: `${redis.prefix}:a` }, { value: "é\0😀" })).toBe(7);
    expect(await read.run(client, { key: `${redis.prefix}:a` }, {})).toBe("é\0😀");
    expect(client.status).toBe("ready");
  });

  it("replies in the form of RESP2", async () => {
    const { executor } = attached(open());
    const key = redis.prefix;
    const run = (command: string, ...args: (string | number)[]): Promise<unknown> =>
      executor.run(command, args, look(command));
    await run("HSET", `${key}:h`, "a", 1, "b", 2);
    await run("ZADD", `${key}:z`, 1.5, "m");
    await run("SADD", `${key}:s`, "x");
    for (const part of "hzs") await run("PEXPIRE", `${key}:${part}`, 60_000);
    expect(await run("HGETALL", `${key}:h`)).toEqual(["a", "1", "b", "2"]);
    expect(await run("ZSCORE", `${key}:z`, "m")).toBe("1.5");
    expect(await run("SMEMBERS", `${key}:s`)).toEqual(["x"]);
    expect(await run("GET", `${key}:none`)).toBeNull();
    const nested = "return { 1, 'two', false, { 'three', { 4 } }, redis.status_reply('FIVE') }";
    expect(await run("EVAL", nested, 0)).toEqual([1, "two", null, ["three", [4]], "FIVE"]);
    expect(await run("EVAL", "redis.setresp(3) return { true, { double = 0.5 } }", 0)).toEqual([1, "0.5"]);
    expect(await run("CONFIG", "GET", "maxmemory")).toEqual(["maxmemory", "0"]);
  });

  it("takes and gives bytes", async () => {
    const { executor } = attached(open());
    const bytes = Buffer.from([0, 0xff, 0xfe, 10, 13, 0x80]);
    await executor.run("SET", [redis.prefix, bytes, "PX", 60_000], write("SET"));
    const bytewise = { ...look("GET"), bytes: true };
    expect(await executor.run("GET", [redis.prefix], bytewise)).toEqual(bytes);
    expect(await executor.run("MGET", [redis.prefix, `${redis.prefix}:none`], bytewise)).toEqual([bytes, null]);
    expect(await executor.run("PING", [], bytewise)).toEqual(Buffer.from("PONG"));
  });

  it("rejects with the server's words, also within a list", async () => {
    const client = open();
    const { executor } = attached(client);
    await executor.run("SET", [redis.prefix, "x", "PX", 60_000], write("SET"));
    const refused = await rejection(executor.run("LPUSH", [redis.prefix, "y"], write("LPUSH")));
    expect(isReplyError(refused)).toBe(true);
    expect(refused.message).toMatch(/^WRONGTYPE /);
    const failed = optimistic(client.redis, [redis.prefix], (tx) =>
      Promise.resolve(tx.queue("LPUSH", redis.prefix, "y")),
    );
    expect(await rejection(failed)).toMatchObject({ code: "KIT_SERVER" });
    expect(serverError(refused, "it").code).toBe("KIT_SERVER");
  });

  it("never counts twice in silence when replies are lost", async () => {
    const proxy = await proxied(redis);
    const client = open({ port: proxy.port });
    const { executor } = attached(client);
    await executor.run("SET", [redis.prefix, 0, "PX", 60_000], write("SET"));
    let confirmed = 0;
    let unknown = 0;
    for (let count = 0; count < 100; count++) {
      if (count % 5 === 0) proxy.down.cutNext = 1;
      await executor.run("INCR", [redis.prefix], write("INCR")).then(
        () => confirmed++,
        (error: unknown) => {
          if (!(error instanceof KitUnknownOutcomeError)) throw error;
          unknown++;
        },
      );
    }
    const counted = Number(await redis.client.get(redis.prefix));
    expect(confirmed + unknown).toBe(100);
    expect(unknown).toBeGreaterThan(0);
    expect(counted).toBeGreaterThanOrEqual(confirmed);
    expect(counted).toBeLessThanOrEqual(confirmed + unknown);
  });

  it("leaves nothing behind", async () => {
    const client = open();
    const before = client.emitter.eventNames().map((event) => [event, client.emitter.listenerCount(event)]);
    await read.run(client.redis, { key: redis.prefix }, {});
    const context = attach(client.redis);
    await opened(context.inbox, 5_000);
    expect(context.inbox.state).toBe("open");
    expect(await connectionsNamed(redis, "kit:inbox")).toHaveLength(1);
    await optimistic(client.redis, [redis.prefix], (tx) => tx.call("GET", redis.prefix));
    context.detach();
    const after = client.emitter.eventNames().map((event) => [event, client.emitter.listenerCount(event)]);
    expect(after).toEqual(before);
    await eventually(async () => expect(await connectionsNamed(redis, "kit:")).toHaveLength(0));
    expect(client.redis.status).toBe("ready");
  });

  it("receives what is published", async () => {
    const { inbox } = attached(open());
    await opened(inbox, 5_000);
    const heard = new Promise((resolve) => inbox.expect("id", resolve));
    await redis.client.publish(inbox.channel, "id\té\0😀");
    expect(await heard).toBe("é\0😀");
  });

  it("receives each message once after it left its inbox and came back at once", async () => {
    const { inbox } = attached(open());
    const heard: string[] = [];
    inbox.expect("id", (payload) => heard.push(payload));
    await opened(inbox, 5_000);
    // As when the command connection is lost and made again: the reply to UNSUBSCRIBE is under way.
    for (let round = 0; round < 3; round++) {
      inbox.leave();
      inbox.comeBack();
    }
    await until(() => inbox.isOpen);
    for (const payload of ["one", "two"]) expect(await redis.client.publish(inbox.channel, `id\t${payload}`)).toBe(1);
    await until(() => heard.includes("two"));
    expect(heard).toEqual(["one", "two"]);
  });

  it("adds once when it is asked twice", async () => {
    const { redis: client } = open();
    for (let count = 0; count < 2; count++)
      expect(await addOnce.run(client, { key: redis.prefix }, { op: "1" })).toBe(1);
  });

  it("sends nothing later that it could not send", async () => {
    const proxy = await proxied(redis);
    const client = open({ port: proxy.port });
    const { executor } = attached(client);
    await executor.run("SET", [redis.prefix, 0, "PX", 60_000], write("SET"));
    proxy.refuse = true;
    proxy.resetAll();
    await until(() => client.redis.status !== "ready");
    const refused = await rejection(executor.run("INCR", [redis.prefix], write("INCR", 200)));
    expect(refused).toMatchObject({ code: "KIT_UNAVAILABLE" });
    proxy.refuse = false;
    await until(() => client.redis.status === "ready");
    expect(await executor.run("GET", [redis.prefix], look("GET"))).toBe("0");
  });

  it("never runs a command that was waiting to be written when the link broke", async () => {
    const proxy = await proxied(redis);
    const client = open({ port: proxy.port });
    attached(client);
    await read.run(client.redis, { key: redis.prefix }, {});
    proxy.up.bytesPerSecond = 100_000;
    // More than the socket takes at once: what comes after it has to wait.
    const large = client.redis.call("SET", `${redis.prefix}:large`, Buffer.alloc(16_000_000), "PX", 60_000);
    const behind = Promise.resolve().then(() => client.redis.call("INCR", redis.prefix));
    await until(() => proxy.stats.slowedChunks > 0);
    proxy.resetAll();
    const outcomes = await Promise.allSettled([large, behind]);
    expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    proxy.heal();
    await until(() => client.redis.status === "ready");
    expect(await client.redis.call("EXISTS", redis.prefix)).toBe(0);
  });

  it("says what is unknown when its link breaks under many calls, and counts a new connection", async () => {
    const proxy = await proxied(redis);
    const { executor } = attached(open({ port: proxy.port }));
    await executor.run("SET", [redis.prefix, 0, "PX", 60_000], write("SET"));
    const { connectionEpoch } = executor;
    const calls = Array.from({ length: 300 }, (_, index) => {
      if (index === 150) proxy.resetAll();
      return executor.run("INCR", [redis.prefix], write("INCR")).then(
        () => "done",
        (error: { code: string }) => error.code,
      );
    });
    const outcomes = await Promise.all(calls);
    const [done, unknown] = ["done", "KIT_UNKNOWN_OUTCOME"].map(
      (what) => outcomes.filter((one) => one === what).length,
    );
    expect(done! + unknown!).toBe(300);
    const counted = Number(await executor.run("GET", [redis.prefix], look("GET")));
    expect(counted).toBeGreaterThanOrEqual(done!);
    expect(counted).toBeLessThanOrEqual(done! + unknown!);
    expect(executor.connectionEpoch).toBeGreaterThan(connectionEpoch);
  });

  it("gives connections of ours the database that its owner has selected, before and since", async () => {
    const client = open({ db: 1 });
    const put = (value: string): Promise<unknown> =>
      optimistic(client.redis, ["k"], (tx) => Promise.resolve(tx.queue("SET", redis.prefix, value, "PX", 60_000)));
    const found = (db: number): Promise<unknown> =>
      redis.server.nodes[0]!.call(
        "EVAL",
        "redis.call('SELECT', ARGV[1]) return redis.call('GET', KEYS[1])",
        "1",
        redis.prefix,
        String(db),
      );
    await put("first");
    expect(await found(1)).toBe("first");
    await client.select(2);
    await put("second");
    expect([await found(1), await found(2)]).toEqual(["first", "second"]);
    const context = attached(client);
    const isolated = attached(client, { isolate: true });
    await optimistic(context, ["k"], (tx) => tx.call("GET", redis.prefix));
    await client.select(3);
    await optimistic(context, ["k"], (tx) => Promise.resolve(tx.queue("SET", redis.prefix, "third", "PX", 60_000)));
    expect(await found(3)).toBe("third");
    await until(async () => (await isolated.executor.run("GET", [redis.prefix], look("GET"))) === "third");
    for (const db of [1, 2, 3])
      await redis.server.nodes[0]!.call(
        "EVAL",
        "redis.call('SELECT', ARGV[1]) return redis.call('DEL', KEYS[1])",
        "1",
        redis.prefix,
        String(db),
      );
  });

  it("ends a blocked read next to an isolated client when its owner selects another database", async () => {
    const client = open();
    await read.run(client.redis, { key: redis.prefix }, {});
    const { context, pool, db } = isolatedPool(client);
    await context.executor.run("PING", [], look("PING"));
    const blocked = await pool.checkOut(redis.prefix, Deadline.in(5_000), undefined);
    const ended = rejection(blocked.call("BLPOP", [redis.prefix, 0], 60_000));
    await until(async () => String(await redis.server.nodes[0]!.call("CLIENT", "LIST")).includes("cmd=blpop"));
    await client.select(2);
    await until(() => blocked.isBroken);
    blocked.returnToPool(false);
    expect(await ended).toMatchObject({ code: "KIT_UNAVAILABLE" });
    expect(await db()).toBe("2");
  });

  it("works where its owner has selected while a connection of ours was being made", async () => {
    for (let round = 0; round < 5; round++) {
      const client = open();
      await read.run(client.redis, { key: redis.prefix }, {});
      const { context, db } = isolatedPool(client);
      const first = context.executor.run("PING", [], look("PING"));
      for (let turn = 0; turn < round; turn++) await client.redis.call("PING");
      await client.select(2);
      await first;
      const info = await context.executor.run("CLIENT", ["INFO"], look("CLIENT INFO"));
      expect([/ db=(\d+)/.exec(String(info))?.[1], await db()]).toEqual(["2", "2"]);
    }
  });

  it("blocks for longer than the socket of its owner may be silent", async () => {
    const pool = attached(open({ socketTimeout: 200 })).pool("blocking");
    const connection = await pool.checkOut(redis.prefix, Deadline.in(5_000), undefined);
    // The server replies after a second.
    expect(await connection.call("BLPOP", [redis.prefix, 1], 20_000)).toBeNull();
    connection.returnToPool(true);
  });

  it("replaces a silent connection of ours, and leaves the caller's alone", async () => {
    const proxy = await proxied(redis);
    const client = open({ port: proxy.port });
    const { executor } = attached(client, { isolate: true });
    await executor.run("PING", [], look("PING"));
    proxy.down.hole = true;
    expect(await rejection(executor.run("PING", [], { ...look("PING"), deadline: Deadline.in(700) }))).toMatchObject({
      code: "KIT_UNAVAILABLE",
    });
    // The silent link stays silent: only a new one works.
    proxy.down.hole = false;
    expect(await executor.run("PING", [], look("PING"))).toBe("PONG");
  });

  it("waits on its own connection", async () => {
    const context = attached(open());
    const connection = await context.pool("blocking").checkOut(redis.prefix, Deadline.in(5_000), undefined);
    const popped = connection.call("BLPOP", [redis.prefix, 0], 20_000);
    await until(async () => String(await redis.server.nodes[0]!.call("CLIENT", "LIST")).includes("cmd=blpop"));
    expect(await context.executor.run("PING", [], look("PING"))).toBe("PONG");
    await redis.client.rpush(redis.prefix, "x");
    expect(await popped).toEqual([redis.prefix, "x"]);
    connection.returnToPool(true);
  });

  it("works with durable writes and reads of replicas", async () => {
    const client = open();
    const key = redis.prefix;
    const written = await durable(client.redis, { key, replicas: 1, timeoutMs: 5_000 }, (scope) =>
      scope.call("SET", key, "x", "PX", 60_000),
    );
    expect(written).toMatchObject({ value: "OK", outcome: "safe" });
    using near = replicaReads(client.redis);
    const from = `127.0.0.1:${String(redis.server.replicas[0]!.port)}`;
    await eventually(async () => expect(await near.call("GET", key)).toMatchObject({ value: "x", from }));
  });

  it("shows no password", async () => {
    const client = open({ username: "canary-user", password: "canary-secret" });
    const error = await rejection(read.run(client.redis, { key: redis.prefix }, {}, { deadlineMs: 500 }));
    expect(error.code).toMatch(/^KIT_(UNAVAILABLE|AUTH)$/);
    expect(bare(error)).not.toContain("canary-secret");
  });

  it("stays ended when its owner ends it", async () => {
    const client = open();
    const context = attached(client);
    await opened(context.inbox, 5_000);
    client.end();
    await until(() => client.redis.status === "end");
    const refused = await rejection(context.executor.run("PING", [], look("PING")));
    expect(refused).toMatchObject({ code: "KIT_UNAVAILABLE", retryable: false });
    await until(async () => (await connectionsNamed(redis, "kit:")).length === 0);
    expect(client.redis.status).toBe("end");
  });
};
