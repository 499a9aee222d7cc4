import type { EventEmitter } from "node:events";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { eventually, useRedis } from "@kit/testing";
import { Deadline } from "../src/deadline.js";
import { health } from "../src/health.js";
import { optimistic } from "../src/optimistic.js";
import { retain, withRuntime } from "../src/runtime.js";
import { connectionsNamed, own, proxied, rejection, runProgram, until } from "./harness.js";
import { append, read } from "./scripts.js";

const redis = useRedis(vitest);

describe("runtime", () => {
  it("is one for a client and prefix, until the last holder lets go", () => {
    const first = retain(redis.client);
    expect(retain(redis.client)).toBe(first);
    const other = retain(redis.client, { prefix: "other" });
    expect(other).not.toBe(first);
    const isolated = retain(redis.client, { isolate: true });
    expect(isolated).not.toBe(first);
    isolated.release();
    first.release();
    expect(retain(redis.client)).toBe(first);
    first.release();
    first.release();
    other.release();
    const next = retain(redis.client);
    expect(next).not.toBe(first);
    next.release();
  });

  it("belongs to one operation when nobody retains, also when that fails", async () => {
    const count = (): number => redis.client.listenerCount("error");
    const before = count();
    await expect(withRuntime(redis.client, () => Promise.reject(new Error("x")))).rejects.toThrow("x");
    expect(count()).toBe(before);
  });

  it("takes a server for a Cluster where INFO is forbidden, since that allows less", async () => {
    await redis.server.call("ACL", "SETUSER", "ada", "on", ">pw", "~*", "&*", "+@all", "-info");
    redis.defer(() => redis.server.call("ACL", "DELUSER", "ada"));
    const client = redis.connect({ username: "ada", password: "pw", enableReadyCheck: false });
    const runtime = retain(client);
    expect(await runtime.isCluster(2_000)).toBe(true);
    runtime.release();
    client.disconnect();
    await until(() => client.status === "end");
  });

  it("asks again when the server did not answer", async () => {
    const proxy = await proxied(redis);
    const client = await own(redis, { url: proxy.url });
    const runtime = retain(client);
    proxy.down.hole = true;
    expect(await rejection(runtime.isCluster(100))).toMatchObject({ code: "KIT_UNAVAILABLE" });
    proxy.heal();
    expect(await runtime.isCluster(5_000)).toBe(false);
    runtime.release();
  });

  it("forgets the server's clock with the connection", async () => {
    const client = await own(redis);
    const runtime = retain(client);
    runtime.clockOf("a").observe(performance.now(), 1_000);
    expect(runtime.clockOf("b").earliest(1_000)).toBeDefined();
    await redis.server.call("CLIENT", "KILL", "TYPE", "normal");
    await until(() => runtime.clockOf("a").earliest(1_000) === undefined);
    runtime.release();
  });

  it.each([
    ["a prefix with braces", { prefix: "a{b" }, RangeError],
    ["an empty prefix", { prefix: "" }, RangeError],
    ["a prefix that is no text", { prefix: 1 }, TypeError],
    ["isolate that is no boolean", { isolate: "yes" }, TypeError],
  ])("refuses %s", (_, options, kind) => {
    expect(() => retain(redis.client, options as object)).toThrow(kind);
  });

  it("refuses to isolate from a client that has ended, as that from nothing", async () => {
    const client = redis.connect();
    await client.ping();
    client.disconnect();
    await until(() => client.status === "end");
    expect(() => retain(client, { isolate: true })).toThrow(expect.objectContaining({ code: "KIT_CLOSED" }));
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
    expect(found.roundTripMs).toBeLessThan(2_000);
  });

  it("resolves within its deadline when nobody answers, with the reason", async () => {
    const client = await own(redis);
    const [node] = redis.server.nodes;
    node!.pause();
    const startedAt = performance.now();
    const found = await health(client, 300);
    expect(performance.now() - startedAt).toBeLessThan(900);
    expect(found).toMatchObject({
      ok: false,
      roundTripMs: undefined,
      version: undefined,
      error: { code: "KIT_UNAVAILABLE" },
    });
    node!.resume();
    expect((await health(client)).ok).toBe(true);
  });

  it("says so of a client that has ended", async () => {
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
    const runtime = retain(await own(redis), { prefix: redis.prefix });
    expect((await health(runtime)).pushes).toBeUndefined();
    await runtime.inbox.open(Deadline.in(2_000));
    expect((await health(runtime)).pushes).toBe("open");
    runtime.release();
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
    const before = kinds();
    const client = await own(redis, { connectionName: "kit:left" });
    const runtimes = [retain(client), retain(client, { prefix: "other" }), retain(client, { isolate: true })];
    for (const runtime of runtimes) {
      await runtime.inbox.open(Deadline.in(2_000));
      await append.run(runtime, { key: redis.prefix }, { value: "x" });
      await optimistic(runtime, [redis.prefix], async (tx) => {
        await tx.call("GET", redis.prefix);
        tx.queue("APPEND", redis.prefix, "y");
      });
      await health(runtime);
    }
    expect((await connectionsNamed(redis, "kit:")).length).toBe(3 + 3 + 2);
    for (const runtime of runtimes) runtime.release();
    await client.close();
    await until(async () => (await connectionsNamed(redis, "kit:")).length === 0);
    await eventually(() => expect(kinds()).toEqual(before));
    const emitter = client as unknown as EventEmitter;
    expect(emitter.eventNames().filter((name) => name !== "error" && emitter.listenerCount(name) > 0)).toEqual([]);
  });

  it("the process ends by itself, with everything used and nothing printed", async () => {
    const { stdout, stderr, code } = await runProgram(`
      import { connect, health, optimistic, retain, Deadline } from "./dist/index.js";
      const client = await connect("${redis.url}");
      const runtime = retain(client, { prefix: "${redis.prefix}" });
      await runtime.inbox.open(Deadline.in(2_000));
      await optimistic(runtime, ["${redis.prefix}"], (tx) => tx.call("GET", "${redis.prefix}"));
      await health(runtime);
      runtime.release();
      await client.close();`);
    expect({ stdout, stderr, code }).toEqual({ stdout: "", stderr: "", code: 0 });
  });

  it("a runtime that was let go can be made again", async () => {
    for (let round = 0; round < 3; round++) {
      const runtime = retain(redis.client);
      expect(await read.run(runtime, { key: redis.prefix }, {})).toBe("");
      runtime.release();
    }
  });
});
