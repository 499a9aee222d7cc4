import * as vitest from "vitest";
import { describe, expect, it, vi } from "vitest";
import { contract, startRedis, useRedis } from "@kit/testing";
import * as valibot from "valibot";
import { KitError } from "../src/kernel/base/errors.js";
import { createConfig, type StandardSchema } from "../src/config/index.js";
import * as scripts from "../src/config/scripts.js";
import { Redis } from "ioredis";
import { fixtureOf, first, recorded, second } from "./config-harness.js";
import { callsOf, connectionsNamed, own, proxied, rejection, runProgram, until } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys: [/:config:\{/] });
const fixture = fixtureOf(redis);

it("has scripts of the agreed form", async () => {
  expect(
    await contract(
      Object.values(scripts).filter((part) => typeof part === "object"),
      redis.server,
    ),
  ).toEqual([]);
});

describe("config: values that are refused", () => {
  it.each([
    ["broken JSON", "{", "", "not JSON"],
    ["another type", '"text"', "port", "Expected a port"],
    ["an unknown field", '{"host":"h","port":1,"colour":"red"}', "colour", "is not known"],
    ["a port that is no number", '{"host":"h","port":null}', "port", "Expected a port"],
    ["an empty host", '{"host":"","port":1}', "host", "Expected a host"],
    ["a name that could be a prototype", '{"host":"h","port":1,"__proto__":{"a":1}}', "__proto__", "not allowed"],
    ["a number beyond all numbers", '{"host":"h","port":1e999}', "port", "too large"],
    ["arrays in arrays without end", `${"[".repeat(200)}${"]".repeat(200)}`, "0.0.0.0.0.0.0.0.0.0", "deep"],
  ])("keeps the last good value when the entry holds %s, and names the field", async (_, text, path, words) => {
    const config = await fixture.ready({ default: first });
    await config.set(second);
    const reported = recorded(config);
    await fixture.writeUnseen(text);
    await fixture.announce();
    await until(() => config.state === "degraded");
    expect(config.current).toEqual(second);
    expect(reported.errors).toMatchObject([{ code: "KIT_CONFIG_INVALID", entry: "search" }]);
    const issues = (reported.errors[0] as unknown as { issues: { path: string; message: string }[] }).issues;
    expect(issues.some((issue) => issue.path === path && issue.message.includes(words))).toBe(true);
    expect(await rejection(config.get())).toMatchObject({ code: "KIT_CONFIG_INVALID" });
    expect(await rejection(fixture.make({ default: first }).ready())).toMatchObject({ code: "KIT_CONFIG_INVALID" });
    // It is read again, and reported once.
    await fixture.announce();
    await config.history();
    await config.set(first);
    expect([config.state, config.current, reported.errors.length]).toEqual(["fresh", first, 1]);
  });

  it.each([
    ["NaN", { host: "h", port: Number.NaN }, "port"],
    ["a Date", { host: new Date(0), port: "1" }, "port"],
    ["undefined", { host: undefined, port: 1 }, "host"],
    ["nothing", undefined, ""],
    ["a bigint", { host: "h", port: 1n }, ""],
    ["too much", { host: "h".repeat(70_000), port: 1 }, ""],
  ])("refuses to set what is %s once it is JSON, and sends nothing", async (_, value, path) => {
    const config = fixture.make();
    const error = await rejection(config.set(value as never));
    expect(error).toMatchObject({
      code: "KIT_CONFIG_INVALID",
      issues: expect.arrayContaining([expect.objectContaining({ path })]),
    });
    expect(await redis.client.exists(fixture.keyOf("entry"))).toBe(0);
  });

  it("gives what an asynchronous schema made of the value, and stores what went in", async () => {
    const schema = valibot.pipeAsync(
      valibot.object({
        port: valibot.pipe(valibot.string(), valibot.transform(Number)),
        tags: valibot.optional(valibot.array(valibot.string()), []),
      }),
      valibot.checkAsync(async ({ port }) => await Promise.resolve(port > 0), "Expected a port above 0"),
    );
    const config = createConfig(redis.client, "typed", { prefix: redis.prefix, schema, default: { port: "80" } });
    redis.defer(() => config.close());
    expect(await config.ready()).toEqual({ port: 80, tags: [] });
    await config.set({ port: "443" });
    expect([config.current.port, await redis.client.hget(fixture.keyOf("entry", "typed"), "value")]).toEqual([
      443,
      '{"port":"443"}',
    ]);
    expect(await rejection(config.set({ port: "0" }))).toMatchObject({
      issues: [{ path: "", message: "Expected a port above …" }],
    });
  });

  it("freezes what it gives, all the way down", async () => {
    const config = createConfig<{ deep: { list: number[] } }>(redis.client, "deep", { prefix: redis.prefix });
    redis.defer(() => config.close());
    const value = { deep: { list: [1] } };
    await config.set(value);
    expect(() => config.current.deep.list.push(2)).toThrow(TypeError);
    expect(() => Object.assign(config.current.deep, { more: 1 })).toThrow(TypeError);
    expect(Object.isFrozen((await config.get()).deep.list)).toBe(true);
    value.deep.list.push(2);
    expect(config.current).toEqual({ deep: { list: [1] } });
  });
});

describe("config: servers that go", () => {
  it("rolls back within one deadline, though it asks twice", async () => {
    const proxy = await proxied(redis);
    const client = await own(redis, { url: proxy.url });
    const config = createConfig<number>(client, "n", { prefix: redis.prefix });
    redis.defer(() => config.close());
    await config.set(1);
    proxy.down.latencyMs = 300;
    // Each of its commands alone would be in time.
    expect(await rejection(config.rollback(1, { deadlineMs: 400 }))).toBeInstanceOf(KitError);
  });

  it("serves the last good value through a failover, and reads the new master", async () => {
    const [master, replica] = [await startRedis(), await startRedis()];
    redis.defer(() => Promise.all([master.stop(), replica.stop()]));
    await replica.call("REPLICAOF", "127.0.0.1", String(master.nodes[0]!.port));
    const client = master.client({ retryStrategy: () => 20 }) as Redis;
    const config = createConfig<number>(client, "n", { deadlineMs: 300 });
    redis.defer(() => config.close());
    await config.set(1, { deadlineMs: 20_000 });
    await until(async () => String(await replica.call("INFO", "replication")).includes("master_link_status:up"));
    await until(async () => Number(await replica.call("EXISTS", "kit:config:{n}:entry")) === 1);
    // On a slow machine it was late, and stale, before anything happened.
    await until(() => config.state === "fresh");
    const reported = recorded(config);
    // Where Sentinel would send it.
    client.options.port = replica.nodes[0]!.port;
    await master.nodes[0]!.kill();
    await until(() => config.state === "stale");
    expect(config.current).toBe(1);
    await replica.call("REPLICAOF", "NO", "ONE");
    await until(() => config.state === "fresh");
    const version = await config.set(2, { expected: config.version!, deadlineMs: 20_000 });
    expect([version.revision, config.current]).toEqual([2, 2]);
    expect(reported.states.slice(0, 2)).toEqual(["stale", "fresh"]);
    expect(reported.changes).toEqual([[2, 1]]);
  });

  it("is stale from the loss of its command connection until it has read again", async () => {
    const client = redis.connect({ connectionName: "commands", retryStrategy: () => 20 });
    const config = await fixture.ready({ default: first }, client);
    const reported = recorded(config);
    const [id] = await connectionsNamed(redis, "commands");
    await redis.server.call("CLIENT", "KILL", "ID", id!.split("#")[1]!);
    await until(() => reported.states.length === 2);
    expect([reported.states, reported.errors, config.staleMs]).toEqual([["stale", "fresh"], [], 0]);
  });

  it("keeps its own later write when the schema is still at an earlier one", async () => {
    const asked: { port: number; allow: () => void }[] = [];
    const schema: StandardSchema<{ port: number }> = {
      "~standard": {
        version: 1,
        vendor: "test",
        validate: async (value) => {
          const { port } = value as { port: number };
          if (port === 5) await new Promise<void>((allow) => asked.push({ port, allow }));
          return { value: { port } };
        },
      },
    };
    const config = createConfig(redis.client, "search", { prefix: redis.prefix, schema });
    redis.defer(() => config.close());
    await config.set({ port: 4 });
    await until(() => config.state === "fresh");
    await fixture.writeUnseen('{"port":5}');
    await fixture.announce();
    await until(() => asked.length === 1);
    const version = await config.set({ port: 6 });
    const reported = recorded(config);
    asked[0]!.allow();
    await config.history();
    await until(() => config.state === "fresh");
    expect([config.current.port, config.version, reported.changes, reported.errors]).toEqual([6, version, [], []]);
  });

  it("stays stale while the server is silent, and is fresh again soon after it is back", async () => {
    const proxy = await proxied(redis);
    const client = await own(redis, { url: proxy.url });
    const config = await fixture.ready({ default: first, deadlineMs: 200, pollMs: 200 }, client);
    await config.set(second, { deadlineMs: 30_000 });
    const reported = recorded(config);
    proxy.down.hole = true;
    await until(() => config.state === "stale" && config.staleMs > 500);
    expect(config.current).toEqual(second);
    expect(reported.errors.map(({ code }) => code)).toEqual(["KIT_UNAVAILABLE"]);
    proxy.heal();
    await until(() => config.state === "fresh");
    expect(config.staleMs).toBe(0);
  });

  it("pauses about a second at most between looks at a server that does not answer, however long that has been so", async () => {
    const proxy = await proxied(redis);
    const client = redis.connect({ port: proxy.port });
    await client.ping();
    let asked = 0;
    const call = client.call.bind(client) as (command: string, ...args: string[]) => Promise<unknown>;
    client.call = ((command: string, ...args: string[]) => {
      if (command === "evalsha") asked++;
      return call(command, ...args);
    }) as typeof client.call;
    proxy.down.hole = true;
    // Between 50 ms and 1,050: each pause is the middle of what it could be.
    const random = vi.spyOn(Math, "random").mockReturnValue(0.5);
    const timers = vi.spyOn(globalThis, "setTimeout");
    const config = fixture.make({ default: first, deadlineMs: 100 }, client);
    await until(() => asked === 7);
    const begun = timers.mock.calls.map(([, ms]) => ms);
    timers.mockRestore();
    random.mockRestore();
    expect(begun.filter((ms) => [150, 250, 450, 550, 850].includes(ms!))).toEqual([150, 250, 450, 550, 550]);
    expect(config.state).toBe("loading");
    proxy.heal();
    await until(() => config.state === "fresh");
  });

  it("waits for a server that is down, at most for waitMs", async () => {
    const proxy = await proxied(redis);
    proxy.refuse = true;
    const client = new Redis(proxy.port, { retryStrategy: () => 20, maxRetriesPerRequest: null });
    client.on("error", () => undefined);
    redis.defer(() => client.disconnect());
    const config = fixture.make({ default: first, deadlineMs: 100 }, client);
    expect(await rejection(config.ready())).toMatchObject({ code: "KIT_UNAVAILABLE" });
    expect(await rejection(config.ready({ waitMs: 150 }))).toMatchObject({ code: "KIT_UNAVAILABLE" });
    expect(await rejection(config.ready({ signal: AbortSignal.abort(new Error("enough")) }))).toMatchObject({
      message: "enough",
    });
    expect(config.state).toBe("loading");
    const waiting = config.ready({ waitMs: 20_000 });
    proxy.refuse = false;
    expect(await waiting).toEqual(first);
    // The listeners that the test's client keeps for reconnecting go with it.
    await config.close();
  });

  it("polls where its user may not subscribe, and writes where it may not publish", async () => {
    await redis.server.call("ACL", "SETUSER", "mute", "on", ">pw", "~*", "resetchannels", "+@all");
    redis.defer(() => redis.server.call("ACL", "DELUSER", "mute"));
    const client = await own(redis, { url: redis.url.replace("redis://", "redis://mute:pw@") });
    const config = await fixture.ready({ default: first, pollMs: 100 }, client);
    await until(() => config.state === "fresh");
    await config.set(first);
    const writer = await fixture.ready();
    await writer.set(second);
    await until(() => config.current.host === "beta");
    expect([config.state, config.version]).toEqual(["fresh", writer.version]);
    await config.close();
    await client.close();
  });
});

describe("config: an entry changed manually", () => {
  it("is followed where its value alone was changed, and refused where that is none", async () => {
    const config = await fixture.ready({ default: first, pollMs: 100 });
    await config.set(first);
    const { version } = config;
    const entry = `${redis.prefix}:config:{${config.name}}:entry`;
    await redis.client.hset(entry, "value", JSON.stringify(second));
    await until(() => config.current.host === "beta");
    expect([config.version, config.state]).toEqual([version, "fresh"]);
    await redis.client.hset(entry, "value", "no json");
    await until(() => config.state === "degraded");
    expect(config.current.host).toBe("beta");
    await redis.client.hset(entry, "value", JSON.stringify(first));
    await until(() => config.state === "fresh" && config.current.host === first.host);
  });
});

describe("config: clients", () => {
  it.each([
    ["a key prefix", { keyPrefix: "app:" }],
    ["replies as text", { stringNumbers: true }],
    ["auto-pipelining", { enableAutoPipelining: true }],
    ["a lazy connection", { lazyConnect: true }],
    ["database 3", { db: 3 }],
    ["no offline queue", { enableOfflineQueue: false }],
  ])("works on a client with %s", async (_, options) => {
    redis.permanent(/^app:/);
    const client = redis.connect(options);
    const config = createConfig<number>(client, "n", { prefix: redis.prefix, default: 0 });
    redis.defer(() => config.close());
    const other = createConfig<number>(redis.connect(options), "n", { prefix: redis.prefix, default: 0 });
    redis.defer(() => other.close());
    await Promise.all([config.ready({ waitMs: 5_000 }), other.ready({ waitMs: 5_000 })]);
    const version = await config.set(1);
    await until(() => other.current === 1);
    expect((await other.history())[0]).toMatchObject({ ...version, value: 1 });
    await client.del(`${redis.prefix}:config:{n}:entry`, `${redis.prefix}:config:{n}:history`);
  });

  it("leaves nothing behind, closed twice, while it loads, and under way", async () => {
    const client = redis.connect();
    await client.ping();
    for (let round = 0; round < 20; round++) {
      const config = fixture.make({ onMissing: "wait" }, client);
      const waiting = rejection(config.ready());
      const asking = round % 2 ? config.history() : config.set(first, { op: "late" });
      if (round > 10) await new Promise(setImmediate);
      await Promise.all([config.close(), config.close()]);
      expect(config.state).not.toBe("fresh");
      expect(await waiting).toMatchObject({ code: "KIT_CLOSED" });
      await asking;
      expect(await rejection(config.get())).toMatchObject({ code: "KIT_CLOSED" });
      expect(
        await rejection(
          fixture
            .make({ onMissing: "wait" }, client)
            .close()
            .then(() => config.set(first)),
        ),
      ).toMatchObject({ code: "KIT_CLOSED" });
      await redis.client.del(fixture.keyOf("entry"), fixture.keyOf("history"));
    }
    await until(async () => (await connectionsNamed(redis, "kit:inbox")).length === 0);
    expect(client.status).toBe("ready");
  });

  it("lets the process end when it is closed, even after its client", async () => {
    const { code, stdout, stderr } = await runProgram(
      `import { connect } from "./dist/index.js";
       import { createConfig } from "./dist/config.js";
       const redis = await connect({ deadlineMs: 60_000 });
       const config = createConfig(redis, "idle", { prefix: process.env.PREFIX, default: 1 });
       process.stdout.write(String(await config.ready()));
       await redis.close();
       await config.close();`,
      { REDIS_URL: redis.url, PREFIX: redis.prefix },
    );
    expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: "1", stderr: "" });
  });

  it("reads one at a time, however many messages come", async () => {
    const config = await fixture.ready({ default: first });
    await config.set(first);
    const before = await callsOf(redis, "hmget");
    const messages = redis.client.pipeline();
    for (let message = 0; message < 500; message++) messages.publish(fixture.keyOf("changed"), String(message));
    await messages.exec();
    await config.get();
    expect((await callsOf(redis, "hmget")) - before).toBeLessThan(250);
  });

  it("takes one subscriber connection for many configurations on one client", async () => {
    const client = redis.connect();
    const configs = Array.from({ length: 20 }, (_, index) =>
      createConfig<number>(client, `n${String(index)}`, { prefix: redis.prefix, default: 0 }),
    );
    redis.defer(() => Promise.all(configs.map((config) => config.close())));
    await Promise.all(configs.map((config) => config.ready()));
    expect(await connectionsNamed(redis, "kit:inbox")).toHaveLength(1);
    await Promise.all(configs.map((config, index) => config.set(index)));
    expect(configs.map(({ current }) => current)).toEqual(configs.map((_, index) => index));
  });

  it.each([
    ["pollMs", { pollMs: 1 }],
    ["deadlineMs", { deadlineMs: 0 }],
    ["maxHistory", { maxHistory: 0 }],
    ["maxBytes", { maxBytes: "1" }],
    ["onMissing", { onMissing: "keep" }],
    ["schema", { schema: {} }],
    ["prefix", { prefix: "a b" }],
    ["options", { poll: 1 }],
  ])("refuses a wrong %s, by its name", async (name, options) => {
    expect(() => createConfig(redis.client, "n", options as never)).toThrow(name);
    const config = fixture.make({ default: first });
    const wrong = [
      [config.set(first, { author: "a\nb" }), "author"],
      [config.set(first, { op: "" }), "op"],
      [config.set(first, { expected: { epoch: "x", revision: 1, at: 1 } }), "expected"],
      [config.history({ limit: 0 }), "limit"],
      [config.ready({ waitMs: -1 }), "waitMs"],
      [config.get({ signal: 1 as never }), "signal"],
    ] as const;
    for (const [call, option] of wrong) expect((await rejection(call)).message).toContain(`\`${option}\``);
  });
});
