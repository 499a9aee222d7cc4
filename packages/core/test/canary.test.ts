import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { inspect } from "node:util";
import type { Redis } from "ioredis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { FaultProxy, startRedis, useRedis, type StartRedisOptions } from "@kit/testing";
import { connect, type ConnectOptions } from "../src/connect/connect.js";
import { httpClient } from "../src/http/index.js";
import { asKitError, KitError } from "../src/kernel/base/errors.js";
import { keyspace } from "../src/kernel/base/keyspace.js";
import { optimistic, type Transaction } from "../src/transaction/optimistic.js";
import { OutageReporter } from "../src/kernel/base/outage.js";
import { retry } from "../src/kernel/base/retry.js";
import { defineScript } from "../src/kernel/script/script.js";
import { exposures } from "@tooling/vitest/helpers";
import { own, rejection, runProgram, until } from "./harness.js";

const redis = useRedis(vitest);

/** Every secret holds it: the password, what is written and sent, and a name that is refused. */
const canary = "CANARY";
const password = `${canary}-pass/word`;
const payload = `${canary}-payload`;
const login = `:${encodeURIComponent(password)}@`;

const raised = new Set<string>();

/** The rejection, which must be of this code and show nothing. */
const raises = async (code: string, promise: Promise<unknown>): Promise<KitError> => {
  const error = await rejection(promise);
  expect(KitError.is(error) ? error.code : error).toBe(code);
  expect(exposures(error, [canary])).toEqual([]);
  raised.add(code);
  return error;
};

const script = (source: string, idempotent = false) =>
  defineScript({ name: "test.canary", source, keys: ["key"], args: ["value"], idempotent, reply: String });
const set = script("local value = ARGV[1]\nreturn redis.call('SET', KEYS[1], value, 'PX', 60000)");
const setAgain = script(set.source, true);

/** A server with the canary for its password, a proxy before it, and a client of `connect()`. */
const guarded = async (options: StartRedisOptions = {}) => {
  const server = await startRedis({ ...options, password });
  redis.defer(() => server.stop());
  const proxy = await FaultProxy.start({ port: server.nodes[0]!.port });
  redis.defer(() => proxy.close());
  const url = `redis://${login}127.0.0.1:${String(proxy.port)}`;
  const client = await own(redis, { url });
  const fails = (code: string, tried = set, deadlineMs = 1_000): Promise<KitError> =>
    raises(code, tried.run(client, { key: "shown" }, { value: payload }, { deadlineMs }));
  return { server, proxy, url, client, fails };
};

it("a client that is logged shows where it leads, and not its password", async () => {
  const { client, proxy } = await guarded();
  expect(inspect(client, { depth: 9, showHidden: true })).toBe(`Redis at 127.0.0.1:${String(proxy.port)} (ready)`);
  expect(inspect({ in: [client] }, { depth: 9, showHidden: true })).not.toContain(canary);
  for (const pipeline of [client.pipeline(), client.multi()])
    expect(inspect(pipeline, { depth: 9, showHidden: true })).not.toContain(canary);
  expect(JSON.stringify({ in: client })).toBe(`{"in":"Redis at 127.0.0.1:${String(proxy.port)} (ready)"}`);
  const copy = (client as unknown as Redis).duplicate();
  redis.defer(() => copy.disconnect());
  await copy.ping();
  for (const one of [copy, copy.duplicate({ lazyConnect: true })])
    expect(inspect(one, { depth: 9, showHidden: true }) + JSON.stringify(one)).not.toContain(canary);
});

describe("an error shows neither password nor payload", () => {
  it("of a server that rejects the command", async () => {
    const { server, client, fails } = await guarded();
    await fails("KIT_SERVER", script("return redis.call('NOPE', ARGV[1])"));
    await fails("KIT_SERVER", script("return redis.call('INCRBY', KEYS[1], ARGV[1])"));
    await fails("KIT_SERVER", script("this is no lua"));
    await fails("KIT_NOSCRIPT", script("return redis.error_reply('NOSCRIPT No matching script.')"));
    await fails("KIT_LAYOUT", script("return redis.error_reply('KIT_LAYOUT test 2')"));
    await client.rpush("shown", payload);
    await fails("KIT_KEY_TYPE", script("return redis.call('APPEND', KEYS[1], ARGV[1])"));
    await server.call("CONFIG", "SET", "maxmemory", "1");
    await fails("KIT_SERVER_FULL");
    await server.call("CONFIG", "SET", "maxmemory", "0");
    await server.call("CONFIG", "SET", "min-replicas-to-write", "1");
    await fails("KIT_SERVER");
    await server.call("CONFIG", "SET", "min-replicas-to-write", "0");
    await server.call("REPLICAOF", "127.0.0.1", "1");
    await fails("KIT_READONLY");
    await server.call("CONFIG", "SET", "replica-serve-stale-data", "no");
    await fails("KIT_LOADING");
  });

  it("of a server that is busy", async () => {
    const { server, fails } = await guarded({ args: ["--busy-reply-threshold", "50"] });
    const endless = rejection(server.client().call("EVAL", "while true do end", "0"));
    await until(() =>
      server.call("PING").then(
        () => false,
        (error: unknown) => String(error).includes("BUSY"),
      ),
    );
    await fails("KIT_BUSY");
    await server.call("SCRIPT", "KILL");
    await endless;
  });

  it("of a Cluster that serves nothing", async () => {
    const { fails } = await guarded({ args: ["--cluster-enabled", "yes"] });
    await fails("KIT_CLUSTER");
  });

  it("of a fault that is neither kit's nor the server's", async () => {
    const fault = Object.assign(new TypeError("no iterable"), { command: { name: "set", args: [payload] } });
    await raises("KIT_UNEXPECTED", Promise.reject(asKitError(fault, "A loop")));
  });

  it("of credentials that are wrong, missing, or not enough", async () => {
    const { server, proxy, client } = await guarded();
    const host = `127.0.0.1:${String(proxy.port)}`;
    for (const wrong of [`:${payload}@`, `${payload}:${payload}@`, ""])
      await raises("KIT_AUTH", connect({ url: `redis://${wrong}${host}`, deadlineMs: 5_000 }));
    await server.call("ACL", "SETUSER", "shown", "on", `>${payload}`, "~other:*", "&*", "+@all", "-flushall");
    const user = await own(redis, { url: `redis://shown:${payload}@${host}` });
    const refused = [set, script("return redis.call('FLUSHALL', ARGV[1])")];
    for (const tried of refused) await raises("KIT_NO_PERMISSION", tried.run(user, { key: "k" }, { value: payload }));
    await raises(
      "KIT_NO_PERMISSION",
      optimistic(user, ["k"], async (tx) => tx.call("SET", "k", payload)),
    );
    // The password is changed under a client that is connected, and again when it comes back.
    await server.call("CONFIG", "SET", "requirepass", `${payload}-2`);
    proxy.resetAll();
    await until(() => client.status !== "ready");
    const error = await rejection(set.run(client, { key: "shown" }, { value: payload }, { deadlineMs: 500 }));
    expect(error.code).toMatch(/^KIT_(AUTH|UNAVAILABLE)$/);
    expect(exposures(error, [canary])).toEqual([]);
  });

  it("of a server that cannot be reached", async () => {
    const { server, proxy, url, client, fails } = await guarded();
    const tlsUrl = url.replace("redis:", "rediss:");
    for (const target of [
      { url: `redis://${login}nowhere.invalid` },
      { url: `rediss://${login}nowhere.invalid` },
      { url: `unix:/nowhere/r.sock` },
      { url: `redis+sentinel://${login}127.0.0.1:1/shown` },
      { url: `redis+cluster://${login}127.0.0.1:1` },
      { url: `redis://${login}127.0.0.1:1`, options: { sentinelPassword: password } },
      { url: tlsUrl },
      { url: tlsUrl, options: { tls: { ca: `-----BEGIN CERTIFICATE-----\n${payload}`, passphrase: password } } },
    ])
      await raises("KIT_UNAVAILABLE", connect({ ...target, deadlineMs: 300 }));
    proxy.down.hole = true;
    await fails("KIT_UNKNOWN_OUTCOME", set, 300);
    await raises(
      "KIT_UNAVAILABLE",
      optimistic(client, ["k"], async (tx) => tx.call("SET", "k", payload), { waitMs: 300 }),
    );
    await fails("KIT_UNAVAILABLE", set, 200);
    proxy.heal();
    await until(() => client.status === "ready");
    proxy.down.cutNext = 1;
    await fails("KIT_UNKNOWN_OUTCOME");
    await until(() => client.status === "ready");
    server.nodes[0]!.pause();
    await fails("KIT_UNKNOWN_OUTCOME", setAgain, 200);
    server.nodes[0]!.resume();
    client.disconnect();
    await until(() => client.status === "end");
    await fails("KIT_UNAVAILABLE");
  });

  it("of a transaction", async () => {
    const { client } = await guarded();
    let kept: Transaction | undefined;
    await raises(
      "KIT_CONFLICT",
      optimistic(
        client,
        ["shown"],
        async (tx) => {
          kept = tx;
          await tx.call("GET", "shown");
          await client.set("shown", `${payload}-${String(Math.random())}`);
          tx.queue("SET", "shown", payload);
        },
        { waitMs: 100 },
      ),
    );
    await raises("KIT_CLOSED", Promise.resolve(kept!.call("GET", payload)));
    for (const [command, ...args] of [
      ["NOPE", "shown", payload],
      ["SET", "shown", payload, payload],
      ["LPUSH", "shown", payload],
    ] as const)
      await raises(
        "KIT_SERVER",
        optimistic(client, ["shown"], async (tx) => tx.queue(command, ...args)),
      );
    await raises(
      "KIT_SERVER",
      retry(() => optimistic(client, ["k"], async (tx) => tx.call("NOPE", payload)), { waitMs: 50 }),
    );
  });

  it("of a name or an address that cannot be used", async () => {
    for (const name of [payload.repeat(100), `${payload}\ud800`])
      await raises(
        "KIT_NAME",
        Promise.resolve().then(() => keyspace("test").key(name, "part")),
      );
    for (const url of [
      `localhost/${login}`,
      `http://${login}127.0.0.1`,
      `redis://:${password}@127.0.0.1`,
      `redis://:${canary}%zz@127.0.0.1`,
      `redis://${login}127.0.0.1:port`,
      `redis://${login}127.0.0.1/${payload}`,
      `redis://${login}a,b`,
      `redis://${login}127.0.0.1?password=${payload}`,
      `redis+sentinel://${login}127.0.0.1`,
      `redis+cluster://${login}127.0.0.1/3`,
    ])
      await raises("KIT_TARGET", connect(url));
    const { url } = await guarded();
    await raises("KIT_TARGET", connect(`${url}/99`));
  });

  it("of an outage that is over", async () => {
    const errors: KitError[] = [];
    const reporter = new OutageReporter((error) => errors.push(error));
    const { fails } = await guarded();
    reporter.failed("loop", await fails("KIT_SERVER", script("return redis.call('NOPE', ARGV[1])")));
    reporter.worked("loop");
    await raises("KIT_RECOVERED", Promise.reject(errors[1]!));
  });

  it("of an option that is wrong", async () => {
    const secret = { password, toString: () => password, toJSON: () => password };
    for (const target of [
      secret,
      [password],
      { url: secret },
      { url: `redis://${login}${"h".repeat(5_000)}` },
      { url: redis.url, password },
      { url: redis.url, signal: secret },
      { url: redis.url, deadlineMs: secret },
      { url: redis.url, connectionName: payload.repeat(20) },
      { url: redis.url, connectionName: [password] },
    ]) {
      const error = await rejection(connect(target as unknown as ConnectOptions));
      expect([TypeError, RangeError]).toContain(error.constructor);
      expect(exposures(error, [canary])).toEqual([]);
    }
    for (const client of [secret, password.length]) {
      const error = await rejection(set.run(client as never, { key: "k" }, { value: payload }));
      expect(error).toBeInstanceOf(TypeError);
      expect(exposures(error, [canary])).toEqual([]);
    }
  });
});

describe("a process that dies of an error prints neither password nor payload", () => {
  const source = (failing: string): string => `
    import { connect, defineScript, optimistic } from "./dist/index.js";
    const payload = process.env.PAYLOAD;
    const run = (client, source) =>
      defineScript({ name: "test.crash", source, keys: ["key"], args: ["value"], reply: String })
        .run(client, { key: "k" }, { value: payload }, { deadlineMs: 60_000 });
    ${failing}`;

  it.each([
    [
      "a wrong password",
      'await connect({ url: process.env.REDIS_URL.replace("pass", "other"), deadlineMs: 60_000 });',
      "KIT_AUTH",
    ],
    [
      "no server",
      'await connect({ url: process.env.REDIS_URL.replace(/:\\d+$/, ":1"), deadlineMs: 100 });',
      "KIT_UNAVAILABLE",
    ],
    [
      "no TLS",
      'await connect({ url: process.env.REDIS_URL.replace("redis:", "rediss:"), deadlineMs: 300 });',
      "KIT_UNAVAILABLE",
    ],
    ["a bad address", 'await connect(process.env.REDIS_URL + "/" + payload);', "KIT_TARGET"],
    [
      "a bad script",
      "await run(await connect({ deadlineMs: 60_000 }), 'return redis.call(\"NOPE\", ARGV[1])');",
      "KIT_SERVER",
    ],
    [
      "a wrong type",
      "const redis = await connect({ deadlineMs: 60_000 }); await redis.rpush('k', payload); await run(redis, 'return redis.call(\"GET\", KEYS[1])');",
      "KIT_KEY_TYPE",
    ],
    [
      "a bad transaction",
      "await optimistic(await connect({ deadlineMs: 60_000 }), ['k'], async (tx) => tx.queue('NOPE', payload));",
      "KIT_SERVER",
    ],
    [
      "a rejection that nobody handles",
      "void run(await connect({ deadlineMs: 60_000 }), 'return redis.call(\"NOPE\", ARGV[1])');",
      "KIT_SERVER",
    ],
    [
      "an error that is logged as an object",
      "await run(await connect({ deadlineMs: 60_000 }), 'no lua').catch((error) => { console.error(error); console.dir(error, { depth: 9, showHidden: true }); process.exit(1); });",
      "KIT_SERVER",
    ],
  ])("%s", async (_, failing, code) => {
    const { server } = await guarded();
    const url = `redis://${login}127.0.0.1:${String(server.nodes[0]!.port)}`;
    const finished = await runProgram(source(failing), { REDIS_URL: url, PAYLOAD: payload });
    expect(finished.code).toBe(1);
    expect(finished.stderr).toContain(code);
    expect(finished.stdout + finished.stderr).not.toContain(canary);
  });
});

describe("the search", () => {
  it("finds what ioredis hangs on its errors, as a cause or anywhere else", async () => {
    const raw = await rejection(redis.connect().call("AUTH", "shown", password));
    expect(exposures(raw, [canary])).toContain("inspect");
    expect(exposures(new KitError("KIT_AUTH", "refused", { cause: raw }), [canary])).toContain("inspect");
    expect(exposures(Object.defineProperty(new KitError("KIT_AUTH", "x"), "raw", { value: raw }), [canary])).toContain(
      ".raw.command.args.1",
    );
  });

  const symbol = Symbol("hidden");
  it.each([
    ["a message with an address", new KitError("KIT_TARGET", `no redis://${login}127.0.0.1`), "text"],
    ["a stack", Object.assign(new KitError("KIT_AUTH", "x"), { stack: payload }), ".stack"],
    ["a hidden property", Object.defineProperty(new Error("x"), "hidden", { value: payload }), ".hidden"],
    ["a symbol", Object.assign(new Error("x"), { [symbol]: payload }), ".Symbol(hidden)"],
    [
      "a getter of the class",
      new (class extends Error {
        get late(): string {
          return payload;
        }
      })(),
      ".late",
    ],
    ["an inherited property", Object.create({ inherited: payload }), ".inherited"],
    ["bytes", { bytes: Buffer.from(payload) }, ".bytes"],
    [
      "a map in a cause of a cause",
      new Error("x", { cause: new Error("y", { cause: new Map([["k", payload]]) }) }),
      ".cause.cause[1]",
    ],
    ["what it serialises as", { toJSON: () => payload }, "JSON"],
    ["a property's name", { [payload]: 1 }, `.${payload}`],
  ])("finds it in %s", (_, value, where) => {
    expect(exposures(value, [canary])).toContain(where);
  });
});

it("a client over HTTP that cannot send bytes shows neither its token nor them", async () => {
  const http = httpClient({ url: "https://127.0.0.1:1", token: canary });
  const bytes = Buffer.concat([Buffer.from(payload), Buffer.of(255)]);
  await raises("KIT_UNSUPPORTED", set.run(http, { key: "shown" }, { value: bytes }));
});

it("every code that there is was raised", () => {
  // The other entries have canaries of their own.
  const source = ["kernel", "connect", "transaction"].flatMap((room) => {
    const folder = fileURLToPath(new URL(`../src/${room}`, import.meta.url));
    const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts"));
    return files.map((file) => readFileSync(`${folder}/${file}`, "utf8"));
  });
  const codes = new Set([...source.join().matchAll(/"(KIT_(?!CONFIG|COMPONENT)[A-Z_]+)"/g)].map(([, code]) => code!));
  expect([...raised].toSorted()).toEqual([...codes].toSorted());
});
