import type { EventEmitter } from "node:events";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { eventually, useRedis } from "@kit/testing";
import { Deadline } from "../src/kernel/base/deadline.js";
import { reading } from "../src/kernel/execution/executor.js";
import { health } from "../src/connect/health.js";
import { optimistic } from "../src/transaction/optimistic.js";
import { attach, withContext } from "../src/kernel/context/context.js";
import { connectionsNamed, opened, openingInbox, own, proxied, rejection, runProgram, until } from "./harness.js";
import { append, read } from "./scripts.js";

const redis = useRedis(vitest);

it("hands nothing to a client behind its QUIT, whose reply that would cost", async () => {
  const client = redis.connect();
  await client.ping();
  const context = attach(client, { prefix: redis.prefix });
  redis.defer(() => context.detach());
  const call = { what: "SET", mutates: true, idempotent: true, deadline: Deadline.in(10_000) };
  const quitting = client.quit();
  expect(await rejection(context.executor.run("SET", [redis.prefix, "1"], call))).toMatchObject({
    code: "KIT_UNAVAILABLE",
  });
  expect(await quitting).toBe("OK");
});

describe("client context", () => {
  it("is one for a client and prefix, until the last holder lets go", () => {
    const first = attach(redis.client);
    expect(attach(redis.client)).toBe(first);
    const other = attach(redis.client, { prefix: "other" });
    expect(other).not.toBe(first);
    const isolated = attach(redis.client, { isolate: true });
    expect(isolated).not.toBe(first);
    isolated.detach();
    first.detach();
    expect(attach(redis.client)).toBe(first);
    first.detach();
    first.detach();
    other.detach();
    const next = attach(redis.client);
    expect(next).not.toBe(first);
    next.detach();
  });

  it("belongs to one operation when nobody is attached, even when that fails", async () => {
    const count = (): number => redis.client.listenerCount("error");
    const before = count();
    await expect(withContext(redis.client, () => Promise.reject(new Error("x")))).rejects.toThrow("x");
    expect(count()).toBe(before);
  });

  it("ends what waits for the client when the last holder lets go: nothing would notify it that the client is ready", async () => {
    const client = redis.connect({ port: 1, retryStrategy: () => 20 });
    const context = attach(client);
    const waiting = rejection(context.isCluster(600_000));
    context.detach();
    expect(await waiting).toMatchObject({ code: "KIT_UNAVAILABLE" });
  });

  it("puts the same listeners on the client however many prefixes are in use, and none once all are detached", async () => {
    const client = redis.connect();
    await client.ping();
    const listeners = (): number[] =>
      ["error", "ready", "close", "end", "connecting", "connect", "-node"].map((event) => client.listenerCount(event));
    const first = attach(client);
    const withOne = listeners();
    const others = Array.from({ length: 30 }, (_, index) => attach(client, { prefix: `other-${String(index)}` }));
    expect(listeners()).toEqual(withOne);
    first.detach();
    client.disconnect();
    await until(() => client.status === "end");
    const late = others[0]!.executor.run("GET", ["x"], reading("GET", Deadline.in(600_000)));
    expect(await rejection(late)).toMatchObject({ code: "KIT_UNAVAILABLE", retryable: false });
    const before = listeners();
    for (const context of others) context.detach();
    // One more for `close`: from then on the client is looked at, since its end may have no event.
    expect(listeners()).toEqual(before.map((count, index) => count - (index === 2 ? 2 : 1)));
  });

  it("lends no connection once it is detached, from pools that it had or has not made yet", async () => {
    const context = attach(redis.client, { prefix: redis.prefix });
    const lent = await context.pool("one").checkOut("key", Deadline.in(5_000), undefined);
    lent.returnToPool(true);
    context.detach();
    context.detach();
    for (const purpose of ["one", "another"])
      expect(await rejection(context.pool(purpose).checkOut("key", Deadline.in(5_000), undefined))).toMatchObject({
        code: "KIT_CLOSED",
      });
    await eventually(async () => expect(await connectionsNamed(redis, "kit:one")).toEqual([]));
  });

  it("takes a server for a Cluster where INFO is forbidden, since that allows less", async () => {
    await redis.server.call("ACL", "SETUSER", "ada", "on", ">pw", "~*", "&*", "+@all", "-info");
    redis.defer(() => redis.server.call("ACL", "DELUSER", "ada"));
    const client = redis.connect({ username: "ada", password: "pw", enableReadyCheck: false });
    const context = attach(client);
    expect(await context.isCluster(2_000)).toBe(true);
    context.detach();
    client.disconnect();
    await until(() => client.status === "end");
  });

  it("asks again when the server did not answer", async () => {
    const proxy = await proxied(redis);
    const client = await own(redis, { url: proxy.url });
    const context = attach(client);
    proxy.down.hole = true;
    expect(await rejection(context.isCluster(100))).toMatchObject({ code: "KIT_UNAVAILABLE" });
    proxy.heal();
    expect(await context.isCluster(5_000)).toBe(false);
    context.detach();
  });

  it("answers each caller by its own deadline, whoever asked first", async () => {
    const proxy = await proxied(redis);
    const client = await own(redis, { url: proxy.url });
    const context = attach(client);
    redis.defer(() => context.detach());
    proxy.down.hole = true;
    const patient = context.isCluster(600_000);
    expect(await rejection(context.isCluster(100))).toMatchObject({ code: "KIT_UNAVAILABLE" });
    const hasty = rejection(context.isCluster(100));
    const second = context.isCluster(500_000);
    expect(await hasty).toMatchObject({ code: "KIT_UNAVAILABLE" });
    proxy.heal();
    proxy.resetAll();
    expect(await Promise.all([patient, second, context.isCluster(5_000)])).toEqual([false, false, false]);
  });

  it("forgets the server's clock with the connection", async () => {
    const client = await own(redis);
    const context = attach(client);
    context.clockOf("a").observe(performance.now(), 1_000);
    expect(context.clockOf("b").earliest(1_000)).toBeDefined();
    await redis.server.call("CLIENT", "KILL", "TYPE", "normal");
    await until(() => context.clockOf("a").earliest(1_000) === undefined);
    context.detach();
  });

  it.each([
    ["a prefix with braces", { prefix: "a{b" }, RangeError],
    ["an empty prefix", { prefix: "" }, RangeError],
    ["a prefix that is no text", { prefix: 1 }, TypeError],
    ["isolate that is no boolean", { isolate: "yes" }, TypeError],
  ])("refuses %s", (_, options, kind) => {
    expect(() => attach(redis.client, options as object)).toThrow(kind);
  });

  it("thirty isolated ones on one client have one listener for each event: nothing prints, and none is left", async () => {
    const client = redis.connect();
    await client.ping();
    const counts = (): object =>
      Object.fromEntries(client.eventNames().map((event) => [event, client.listenerCount(event)]));
    const warnings: Error[] = [];
    const onWarning = (warning: Error): void => void warnings.push(warning);
    process.on("warning", onWarning);
    redis.defer(() => void process.off("warning", onWarning));
    const before = counts();
    const contexts = Array.from({ length: 30 }, () => attach(client, { prefix: redis.prefix, isolate: true }));
    redis.defer(() => contexts.forEach((context) => context.detach()));
    expect(Math.max(...Object.values(counts()))).toBeLessThan(3);
    await client.select(1);
    for (const { executor } of contexts) {
      const call = reading("CLIENT LIST", Deadline.in(10_000));
      await eventually(async () => expect(String(await executor.run("CLIENT", ["INFO"], call))).toContain(" db=1 "));
    }
    for (const context of contexts.splice(0)) context.detach();
    expect([counts(), warnings]).toEqual([before, []]);
  });

  it("refuses to isolate from a client that has ended, as that from nothing", async () => {
    const client = redis.connect();
    await client.ping();
    client.disconnect();
    await until(() => client.status === "end");
    expect(() => attach(client, { isolate: true })).toThrow(expect.objectContaining({ code: "KIT_CLOSED" }));
  });
});

describe("health", () => {
  it("says that all is well, with the server's kind, version and mode", async () => {
    const client = await own(redis);
    const found = await health(client);
    const { server, version } = redis.server.version;
    expect(found).toMatchObject({
      ok: true,
      error: undefined,
      connection: "ready",
      server,
      version,
      mode: "standalone",
      pushes: undefined,
    });
    expect(found.address).toBe(`127.0.0.1:${String(redis.server.nodes[0]!.port)}`);
    expect(found.roundTripMs).toBeGreaterThan(0);
  });

  it("resolves within its deadline when nobody answers, with the reason", async () => {
    const client = await own(redis);
    const [node] = redis.server.nodes;
    node!.pause();
    const found = await health(client, 300);
    expect(found).toMatchObject({
      ok: false,
      roundTripMs: undefined,
      version: undefined,
      error: { code: "KIT_UNAVAILABLE" },
    });
    node!.resume();
    expect((await health(client)).ok).toBe(true);
  });

  it("reports it for a client that has ended", async () => {
    const client = redis.connect();
    await client.ping();
    client.disconnect();
    await until(() => client.status === "end");
    expect(await health(client)).toMatchObject({ ok: false, connection: "end", error: { code: "KIT_UNAVAILABLE" } });
  });

  it("does without what is forbidden", async () => {
    await redis.server.call("ACL", "SETUSER", "ada", "on", ">pw", "~*", "&*", "+@all", "-info");
    redis.defer(() => redis.server.call("ACL", "DELUSER", "ada"));
    const client = await own(redis, { url: redis.url.replace("redis://", "redis://ada:pw@") });
    expect(await health(client)).toMatchObject({ ok: true, server: undefined, version: undefined, mode: undefined });
    await redis.server.call("ACL", "SETUSER", "ada", "-ping");
    expect(await health(client)).toMatchObject({ ok: false, error: { code: "KIT_NO_PERMISSION" } });
    await client.close();
  });

  it("shows whether pushes arrive", async () => {
    const context = attach(await own(redis), { prefix: redis.prefix });
    expect((await health(context)).pushes).toBeUndefined();
    await opened(context.inbox, 2_000);
    expect((await health(context)).pushes).toBe("open");
    context.detach();
  });

  it.each([0, -1, 1.5, Number.NaN])("refuses a deadline of %d", async (deadlineMs) => {
    expect(await rejection(health(redis.client, deadlineMs))).toBeInstanceOf(RangeError);
  });
});

describe("after everything is closed", () => {
  it("nothing of ours is left in the process, and no connection at the server", async () => {
    const kinds = (): string[] =>
      process
        .getActiveResourcesInfo()
        .filter((kind) => kind !== "Immediate")
        .sort();
    const before = kinds().filter((kind) => kind !== "Timeout");
    const client = await own(redis, { connectionName: "kit:left" });
    const contexts = [attach(client), attach(client, { prefix: "other" }), attach(client, { isolate: true })];
    for (const context of contexts) {
      await opened(context.inbox, 2_000);
      await append.run(context, { key: redis.prefix }, { value: "x" });
      await optimistic(context, [redis.prefix], async (tx) => {
        await tx.call("GET", redis.prefix);
        tx.queue("APPEND", redis.prefix, "y");
      });
      await health(context);
    }
    expect((await connectionsNamed(redis, "kit:")).length).toBe(3 + 3 + 2);
    for (const context of contexts) context.detach();
    await client.close();
    await until(async () => (await connectionsNamed(redis, "kit:")).length === 0);
    // The one timer is that of eventually().
    await eventually(() => expect(kinds()).toEqual([...before, "Timeout"].sort()));
    const emitter = client as unknown as EventEmitter;
    expect(emitter.eventNames().filter((name) => name !== "error" && emitter.listenerCount(name) > 0)).toEqual([]);
  });

  it("the process ends by itself, with everything used and nothing printed", async () => {
    const { stdout, stderr, code } = await runProgram(`
      import { connect, health, optimistic } from "./dist/index.js";
      import { attach, Deadline } from "./dist/toolkit.js";
      const client = await connect({ url: "${redis.url}", deadlineMs: 60_000 });
      const context = attach(client, { prefix: "${redis.prefix}" });
      ${openingInbox}
      await optimistic(context, ["${redis.prefix}"], (tx) => tx.call("GET", "${redis.prefix}"));
      await health(context);
      context.detach();
      await client.close();`);
    expect({ stdout, stderr, code }).toEqual({ stdout: "", stderr: "", code: 0 });
  });

  it("a context that was let go can be made again", async () => {
    for (let round = 0; round < 3; round++) {
      const context = attach(redis.client);
      expect(await read.run(context, { key: redis.prefix }, {})).toBe("");
      context.detach();
    }
  });
});
