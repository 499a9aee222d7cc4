import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { contract, startRedis, useRedis } from "@kit/testing";
import { atDeadline, Deadline } from "../src/kernel/base/deadline.js";
import { KitError, KitKeyTypeError } from "../src/kernel/base/errors.js";
import { attach } from "../src/kernel/context/context.js";
import { defineScript } from "../src/kernel/script/script.js";
import { bare, callsOf, own, proxied, rejection, until } from "./harness.js";
import * as scripts from "./scripts.js";
import { addOnce, append, putAll, putRows, read } from "./scripts.js";
import { scriptBehaviour } from "./script-behaviour.js";

const redis = useRedis(vitest);

scriptBehaviour(redis);

const write = defineScript({
  name: "test.write",
  source: `-- KEYS[1]  key  string  x
local key = KEYS[1]
return redis.call("SET", key, "x", "PX", 10000)`,
  keys: ["key"],
  args: [],
  reply: String,
});

describe("defineScript", () => {
  it("keeps the contract that the test kit checks", async () => {
    expect(await contract(scripts, redis.server)).toEqual([]);
  });

  it("joins shared definitions and the script, in order", async () => {
    const joined = defineScript({
      name: "test.joined",
      source: ["local function twice(n) return 2 * n end", "return twice(tonumber(ARGV[1]))"],
      keys: [],
      args: ["n"],
      readonly: true,
      reply: Number,
    });
    expect(joined.sources).toHaveLength(2);
    expect(await joined.run(redis.client, {}, { n: 21 })).toBe(42);
  });

  it("packs values by their names, in the order of the names; one that is missing is empty", async () => {
    const packed = defineScript({
      name: "test.packed",
      source: "return ARGV[1]",
      keys: [],
      args: ["terms: first second third"],
      readonly: true,
      reply: String,
    });
    expect(await packed.run(redis.client, {}, { terms: { third: "c", first: 1, second: "b" } })).toBe("1 b c");
    const missing = { terms: { first: undefined as never, second: 0, third: undefined as never } };
    expect(await packed.run(redis.client, {}, missing)).toBe(" 0 ");
  });

  it("refuses a key that is missing, and more operands than a client takes", async () => {
    const count = defineScript({
      ...{ name: "test.count", source: "return #ARGV", keys: ["key"], args: ["...values"], reply: Number },
    });
    const key = redis.prefix;
    for (const missing of [undefined, null] as unknown as string[])
      await expect(count.run(redis.client, { key: missing }, { values: [] })).rejects.toThrow(
        new TypeError("A key of test.count is missing"),
      );
    const values = Array.from({ length: 200_000 }, () => "x");
    await expect(count.run(redis.client, { key }, { values })).rejects.toThrow("test.count has over 100,000 arguments");
    expect(await count.run(redis.client, { key }, { values: values.slice(0, 99_000) })).toBe(99_000);
  });

  it("sends rows of several keys and arguments by the names of their parts", async () => {
    const at = (name: string) => `${redis.prefix}:{t}${name}`;
    const places = [
      { right: at("b"), left: at("a") },
      { left: at("c"), right: at("d") },
    ];
    const rows = [
      { ttlMs: 9_000, other: 2, text: "with blanks  in it" },
      { text: Buffer.from("x"), other: "", ttlMs: 8_000 },
    ];
    expect(await putRows.run(redis.client, { places }, { rows })).toBe(2);
    expect(await redis.client.mget(["a", "b", "c", "d"].map(at))).toEqual(["with blanks  in it", "2", "x", ""]);
    expect(await putRows.run(redis.client, { places: [] }, { rows: [] })).toBe(0);
  });

  it("sends the hash, and the text once per server", async () => {
    await redis.server.call("SCRIPT", "FLUSH");
    const before = { eval: await callsOf(redis, "eval"), evalsha: await callsOf(redis, "evalsha") };
    for (let index = 0; index < 10; index++) await append.run(redis.client, { key: redis.prefix }, { value: "x" });
    expect((await callsOf(redis, "eval")) - before.eval).toBe(1);
    expect((await callsOf(redis, "evalsha")) - before.evalsha).toBe(10);
  });

  it("raises no error through a storm of SCRIPT FLUSH", async () => {
    const key = redis.prefix;
    let isOver = false;
    let flushes = 0;
    const storm = (async () => {
      while (!isOver) {
        await redis.server.call("SCRIPT", "FLUSH");
        flushes++;
      }
    })();
    const texts = await callsOf(redis, "eval");
    let rounds = 0;
    for (; rounds < 100 || flushes <= 50; rounds++)
      await Promise.all(
        Array.from({ length: 20 }, (_, index) =>
          addOnce.run(redis.client, { key }, { op: `${String(rounds)}-${String(index)}` }),
        ),
      );
    isOver = true;
    await storm;
    expect(await redis.client.zcard(key)).toBe(20 * rounds);
    expect((await callsOf(redis, "eval")) - texts).toBeGreaterThan(20);
  });

  it("knows a new server without the script", async () => {
    const client = await own(redis);
    await append.run(client, { key: redis.prefix }, { value: "x" });
    const [node] = redis.server.nodes;
    await node!.kill();
    await node!.start();
    expect(await append.run(client, { key: redis.prefix }, { value: "x" }, { deadlineMs: 5_000 })).toBe(1);
  });

  it.each([new KitError("KIT_LAYOUT", "newer"), new RangeError("out of stock")])(
    "passes a reply decoder's own error on: %s",
    async (error) => {
      const picky = defineScript({
        name: "test.picky",
        source: "return 1",
        keys: [],
        args: [],
        reply: () => {
          throw error;
        },
      });
      expect(await rejection(picky.run(redis.client, {}, {}))).toBe(error);
    },
  );

  it.each([Number.NaN, "2s"])("refuses a deadline of %s, which would never be over", async (deadlineMs) => {
    const run = read.run(redis.client, { key: redis.prefix }, {}, { deadlineMs: deadlineMs as number });
    expect(await rejection(run)).toEqual(new TypeError("Expected `deadlineMs` to be a number"));
  });

  it.each([
    ["no options", TypeError, (): Promise<unknown> => read.run(redis.client, { key: "k" }, {}, null as never)],
    ["no keys", TypeError, (): Promise<unknown> => read.run(redis.client, null as never, {})],
    [
      "more operands than the client takes",
      RangeError,
      (): Promise<unknown> =>
        putAll.run(redis.client, { first: "k", others: [] }, { ttlMs: 1, values: Array<string>(300_000).fill("x") }),
    ],
  ])("rejects for %s, and never throws", async (_, kind, run) => {
    await expect(run()).rejects.toBeInstanceOf(kind);
  });

  it("refuses what is no client", async () => {
    for (const client of [undefined, null, {}, "redis://"])
      expect(await rejection(read.run(client as never, { key: "k" }, {}))).toBeInstanceOf(TypeError);
  });
});

/** Each fault of a server, made for real, and what it must come out as. */
const faults: readonly {
  readonly name: string;
  readonly args?: readonly string[];
  readonly inject: (call: (...command: string[]) => Promise<unknown>) => Promise<unknown>;
  readonly login?: string;
  readonly expected: { readonly code: string; readonly retryable: boolean };
}[] = [
  {
    name: "a server at its memory limit",
    inject: (call) => call("CONFIG", "SET", "maxmemory", "1"),
    expected: { code: "KIT_SERVER_FULL", retryable: true },
  },
  {
    name: "a read-only replica",
    inject: (call) => call("REPLICAOF", "127.0.0.1", "1"),
    expected: { code: "KIT_READONLY", retryable: true },
  },
  {
    name: "a replica without its master's data",
    args: ["--replica-serve-stale-data", "no"],
    inject: (call) => call("REPLICAOF", "127.0.0.1", "1"),
    expected: { code: "KIT_LOADING", retryable: true },
  },
  {
    name: "too few replicas",
    inject: (call) => call("CONFIG", "SET", "min-replicas-to-write", "1"),
    expected: { code: "KIT_SERVER", retryable: true },
  },
  {
    name: "a user who may not run scripts",
    login: "ada:pw",
    inject: (call) => call("ACL", "SETUSER", "ada", "on", ">pw", "~*", "&*", "+@all", "-@scripting"),
    expected: { code: "KIT_NO_PERMISSION", retryable: false },
  },
  {
    name: "a user who may not run a command of the script",
    login: "ada:pw",
    inject: (call) => call("ACL", "SETUSER", "ada", "on", ">pw", "~*", "&*", "+@all", "-set"),
    expected: { code: "KIT_NO_PERMISSION", retryable: false },
  },
  {
    name: "a user who may not touch the key",
    login: "ada:pw",
    inject: (call) => call("ACL", "SETUSER", "ada", "on", ">pw", "~other:*", "&*", "+@all"),
    expected: { code: "KIT_NO_PERMISSION", retryable: false },
  },
];

describe("script errors", () => {
  it.each(faults)("come out typed and name the key: $name", async ({ args = [], inject, login, expected }) => {
    const server = await startRedis({ args });
    redis.defer(() => server.stop());
    if (login) await inject((...command) => server.call(...command));
    const url = login ? server.url.replace("redis://", `redis://${login}@`) : server.url;
    const client = await own(redis, { url });
    if (!login) await inject((...command) => server.call(...command));
    const error = await rejection(write.run(client, { key: "kit:t:{x}:lease" }, {}));
    expect(error).toMatchObject({ name: "KitError", ...expected });
    expect(error.message).toContain('test.write of "x" failed: ');
    expect(error.cause).toMatchObject({ name: "ReplyError" });
  });

  it("come out typed from a server that is loading its data", async () => {
    const server = await startRedis({
      persistence: "snapshot",
      args: ["--key-load-delay", "500", "--loading-process-events-interval-bytes", "1024"],
    });
    redis.defer(() => server.stop());
    await server.call("EVAL", "for i = 1, 3000 do redis.call('SET', 'k' .. i, string.rep('x', 100)) end", "0");
    await server.call("SAVE");
    const client = server.client({ enableReadyCheck: false, retryStrategy: () => 5 });
    client.on("error", () => undefined);
    await client.ping();
    await server.nodes[0]!.kill();
    const starting = server.nodes[0]!.start();
    let found: KitError | undefined;
    await until(async () => {
      found = (await write
        .run(client, { key: "k" }, {}, { deadlineMs: 200 })
        .catch((error: unknown) => error)) as KitError;
      return found.code === "KIT_LOADING";
    });
    expect(found).toMatchObject({ code: "KIT_LOADING", retryable: true });
    await starting;
  });

  it("come out typed from a server busy with somebody's script", async () => {
    const server = await startRedis({ args: ["--busy-reply-threshold", "50"] });
    redis.defer(() => server.stop());
    const client = await own(redis, { url: server.url });
    await write.run(client, { key: "k" }, {});
    const endless = server
      .client()
      .eval("while true do end", 0)
      .catch(() => undefined);
    let found: KitError | undefined;
    await until(async () => {
      found = (await write
        .run(client, { key: "k" }, {}, { deadlineMs: 1_000 })
        .catch((error: unknown) => error)) as KitError;
      return found.code === "KIT_BUSY";
    });
    expect(found).toMatchObject({ code: "KIT_BUSY", retryable: true });
    const waiting = write.run(client, { key: "k" }, {}, { deadlineMs: 600_000 });
    await server.call("SCRIPT", "KILL");
    await endless;
    expect(await waiting).toBe("OK");
  });

  it("come out typed when the password was changed meanwhile", async () => {
    const server = await startRedis({ password: "old" });
    redis.defer(() => server.stop());
    const client = await own(redis, { url: server.url });
    await server.call("CONFIG", "SET", "requirepass", "new");
    await server.call("CLIENT", "KILL", "TYPE", "normal");
    await until(() => client.status !== "ready");
    const error = await rejection(write.run(client, { key: "k" }, {}, { deadlineMs: 500 }));
    expect(error.code === "KIT_AUTH" || /WRONGPASS|NOAUTH/.test(error.message)).toBe(true);
    expect(bare(error)).not.toMatch(/'old'|"old"/);
    const anonymous = server.client({ enableReadyCheck: false, password: "", retryStrategy: () => null });
    anonymous.on("error", () => undefined);
    const refused = await rejection(write.run(anonymous, { key: "k" }, {}, { deadlineMs: 500 }));
    expect(refused.code === "KIT_AUTH" || /NOAUTH/.test(refused.message)).toBe(true);
  });

  it("have the code of a layout that is too new", async () => {
    const newer = defineScript({
      name: "test.newer",
      source: "return redis.error_reply('KIT_LAYOUT lock 2')",
      keys: [],
      args: [],
      reply: String,
    });
    expect(await rejection(newer.run(redis.client, {}, {}))).toMatchObject({ code: "KIT_LAYOUT", retryable: false });
  });
});

describe("wrong types", () => {
  const wrong: readonly [type: string, command: string, ...string[]][] = [
    ["list", "LPUSH", "1"],
    ["hash", "HSET", "f", "v"],
    ["set", "SADD", "1"],
    ["zset", "ZADD", "1", "1"],
    ["stream", "XADD", "*", "f", "v"],
  ];

  it.each(wrong)("name the key and say that it holds a %s", async (type, command, ...rest) => {
    const key = `${redis.prefix}:2`;
    await redis.client.call(command, key, ...rest);
    await redis.client.pexpire(key, 60_000);
    const appendTwo = defineScript({
      name: "test.appendTwo",
      source: `-- two.lua - append.
-- KEYS[1]  one  string  fine
-- KEYS[2]  two  string  wrong
local one = KEYS[1]
local two = KEYS[2]
return redis.call("APPEND", two, "x")`,
      keys: ["one", "two"],
      args: [],
      reply: Number,
    });
    const error = await rejection(appendTwo.run(redis.client, { one: `${redis.prefix}:1`, two: key }, {}));
    expect(error).toBeInstanceOf(KitKeyTypeError);
    expect(error).toMatchObject({ code: "KIT_KEY_TYPE", key, found: type, retryable: false });
    expect(error.message).toBe(`test.appendTwo of ${redis.prefix}:1 failed: key ${key} holds a ${type}, not a string`);
  });

  it("are found among rest keys too", async () => {
    const list = `${redis.prefix}:{t}3`;
    await redis.client.lpush(list, "x");
    await redis.client.pexpire(list, 60_000);
    const lengths = defineScript({
      name: "test.lengths",
      source: `-- lengths.lua - lengths.
-- KEYS[1]  one     string  the first
-- KEYS[n]  others  string  the others
local sum = 0
for _, key in ipairs(KEYS) do sum = sum + redis.call("STRLEN", key) end
return sum`,
      keys: ["one", "...others"],
      args: [],
      readonly: true,
      reply: Number,
    });
    const error = await rejection(
      lengths.run(redis.client, { one: `${redis.prefix}:{t}1`, others: [`${redis.prefix}:{t}2`, list] }, {}),
    );
    expect(error).toMatchObject({ code: "KIT_KEY_TYPE", key: list, found: "list" });
  });

  it("are not guessed among keys that may have any type", async () => {
    const [hash, list] = [`${redis.prefix}:{t}1`, `${redis.prefix}:{t}2`];
    await redis.client.hset(hash, "f", "v");
    await redis.client.lpush(list, "x");
    for (const key of [hash, list]) await redis.client.pexpire(key, 60_000);
    const lengths = defineScript({
      name: "test.lengthsOfAny",
      source: `-- lengths.lua - lengths.
-- KEYS[n]  parts  any  a hash, then a string
local parts = { unpack(KEYS) }
return redis.call("HLEN", parts[1]) + redis.call("STRLEN", parts[2])`,
      keys: ["...parts"],
      args: [],
      readonly: true,
      reply: Number,
    });
    const error = await rejection(lengths.run(redis.client, { parts: [hash, list] }, {}));
    expect(error).toMatchObject({ code: "KIT_KEY_TYPE", key: undefined, found: undefined });
    expect(error.message).toBe(
      `test.lengthsOfAny of "t" failed: a key holds another type of data: ${hash} (hash) or ${list} (list)`,
    );
  });

  it("are reported by the deadline of the call when the key cannot be found out", async () => {
    const proxy = await proxied(redis);
    const client = redis.connect({ host: "127.0.0.1", port: proxy.port });
    const context = attach(client);
    redis.defer(() => context.detach());
    const key = redis.prefix;
    await redis.client.lpush(key, "x");
    await rejection(read.run(context, { key }, {}));
    const order: string[] = [];
    client.stream.once("data", () => (proxy.down.hole = true));
    const wrongType = rejection(read.run(context, { key }, {}, { deadlineMs: 100 })).then(({ code }) =>
      order.push(code),
    );
    await new Promise<void>((resolve) => atDeadline(Deadline.in(400), resolve));
    order.push("later");
    await wrongType;
    expect(order).toEqual(["KIT_KEY_TYPE", "later"]);
    await redis.client.del(key);
  });

  it("are typed even where TYPE is forbidden", async () => {
    await redis.server.call("ACL", "SETUSER", "ada", "on", ">pw", "~*", "&*", "+@all", "-type");
    redis.defer(() => redis.server.call("ACL", "DELUSER", "ada"));
    const client = await own(redis, { url: redis.url.replace("redis://", "redis://ada:pw@") });
    await redis.client.lpush(redis.prefix, "x");
    await redis.client.pexpire(redis.prefix, 60_000);
    const error = await rejection(append.run(client, { key: redis.prefix }, { value: "x" }));
    expect(error).toMatchObject({ code: "KIT_KEY_TYPE", key: undefined, found: undefined });
    await client.close();
  });
});
