import { EventEmitter } from "node:events";
import { inspect } from "node:util";
import * as vitest from "vitest";
import { useRedis } from "@kit/testing";
import { cutAfter, cutBefore, cutWithin, freePort, HttpBridge, silence, status } from "@tooling/vitest/helpers";
import { durable, replicaReads } from "../src/durable/index.js";
import { httpClient, type HttpClientOptions } from "../src/http/index.js";
import { defineScript, health, KitError, KitUnknownOutcomeError, optimistic, type RedisLike } from "../src/index.js";
import { attach, Deadline } from "../src/toolkit/index.js";
import { bare, opened, rejection, timed } from "./harness.js";
import { addOnce, append, read, readBytes } from "./scripts.js";

const { beforeEach, describe, expect, it } = vitest;
const redis = useRedis(vitest);

let bridge: HttpBridge;
let client: RedisLike;
const clientWith = (options: Partial<HttpClientOptions>): RedisLike =>
  httpClient({ url: bridge.url, token: bridge.token, ...options });
beforeEach(async () => {
  bridge = await HttpBridge.start(redis.client);
  redis.defer(() => bridge[Symbol.asyncDispose]());
  client = clientWith({});
});

const names = (): string[] => bridge.commands.map(([name = ""]) => name.toLowerCase());
const key = (): string => `${redis.prefix}:key`;
const code = async (promise: Promise<unknown>): Promise<string> => (await rejection(promise)).code;

/** Replies of every kind, with an error among them. */
const nested = defineScript({
  name: "test.nested",
  source: `return {1, 'two', false, {3.9, 'four', {err = 'KIT_LAYOUT newer'}}}`,
  keys: [],
  args: [],
  readonly: true,
  reply: (raw) => raw as unknown[],
});

describe("a client over HTTP", () => {
  it("runs a script by its hash, and by its text where the server does not have it", async () => {
    await redis.client.script("FLUSH");
    expect(await append.run(client, { key: key() }, { value: "é\0😀\ufeff" })).toBe(10);
    expect(await append.run(client, { key: key() }, { value: "x" })).toBe(11);
    expect(names()).toEqual(["evalsha", "eval", "evalsha"]);
    expect(await read.run(client, { key: key() }, {})).toBe("é\0😀\ufeffx");
  });

  it("gives replies as a socket does", async () => {
    expect(await nested.run(client, {}, {})).toEqual([1, "two", null, [3, "four", expect.any(Error)]]);
    const [, , , [, , inner]] = (await nested.run(client, {}, {})) as [0, 0, 0, [0, 0, Error]];
    expect([inner.name, inner.message]).toEqual(["ReplyError", "KIT_LAYOUT newer"]);
  });

  it("gives bytes where they are wanted", async () => {
    const bytes = Buffer.from([0, 0xff, 0xfe, 10, 13, 0x80]);
    await redis.client.set(key(), bytes, "PX", 60_000);
    expect(await readBytes.run(client, { key: key() }, {})).toEqual(bytes);
    await redis.client.set(key(), "OK", "PX", 60_000);
    expect(await readBytes.run(client, { key: key() }, {})).toEqual(Buffer.from("OK"));
    const context = attach(client);
    redis.defer(() => context.detach());
    const call = { what: "SET", mutates: true, idempotent: true, deadline: Deadline.in(2_000), bytes: true };
    expect(await context.executor.run("SET", [key(), "x", "PX", 60_000], call)).toEqual(Buffer.from("OK"));
  });

  it("refuses bytes that are no text, and sends nothing", async () => {
    const failure = await rejection(append.run(client, { key: key() }, { value: Buffer.from([0xff]) }));
    expect([failure.code, failure.retryable, failure instanceof KitUnknownOutcomeError]).toEqual([
      "KIT_UNSUPPORTED",
      false,
      false,
    ]);
    expect(names()).toEqual([]);
    expect(await append.run(client, { key: key() }, { value: Buffer.from("\ufeffé") })).toBe(5);
  });

  it("types the server's errors", async () => {
    await redis.client.hset(key(), "a", 1);
    await redis.client.pexpire(key(), 60_000);
    expect(await rejection(append.run(client, { key: key() }, { value: "x" }))).toMatchObject({
      code: "KIT_KEY_TYPE",
      key: key(),
    });
    bridge.faults.push(status(400, { error: "OOM command not allowed when used memory > 'maxmemory'." }));
    expect(await code(append.run(client, { key: key() }, { value: "x" }))).toBe("KIT_SERVER_FULL");
  });

  it("reports a refused token, and shows no token anywhere", async () => {
    const wrong = clientWith({ token: "canary-of-another" });
    const failure = await rejection(append.run(wrong, { key: key() }, { value: "x" }));
    expect(failure.code).toBe("KIT_AUTH");
    bridge.faults.push(status(401, { error: "canary is wrong" }));
    expect(await code(read.run(client, { key: key() }, {}))).toBe("KIT_AUTH");
    bridge.faults.push(cutAfter);
    const lost = await rejection(append.run(client, { key: key() }, { value: "x" }));
    const unsent = await rejection(append.run(client, { key: key() }, { value: Buffer.from([0xff]) }));
    const shown = [failure, lost, unsent, wrong, client].map((one) => `${bare(one)} ${JSON.stringify(one)}`).join("\n");
    expect(shown).not.toContain("canary");
    const { token, url } = bridge;
    for (const options of [
      { url: `http://canary:x@127.0.0.1`, token },
      { url: "http://127.0.0.1/?_token=canary", token },
      { url, token: "canary\n" },
      { url, token, timeoutMs: 0 },
      { url, token, fetch: "canary" as never },
    ])
      expect(() => httpClient(options)).toThrow(/^Expected `(url|token|timeoutMs|fetch)` to be (?!.*canary)/);
    expect(() => httpClient({ url, token, tokens: 1 } as never)).toThrow(
      /Known options: url, token, timeoutMs, maxReplyBytes, fetch/,
    );
    expect(() => httpClient({ url } as never)).toThrow(/^Expected `token`/);
  });

  it.each([
    ["not executed, the connection was cut", cutBefore, 0],
    ["executed, the connection was cut before the reply", cutAfter, 1],
    ["executed, the connection was cut within the reply", cutWithin, 1],
    ["perhaps executed, a proxy replied with 502", status(502), 0],
    ["perhaps executed, a page came with 200", status(200, { html: "sign in" }), 0],
    ["perhaps executed, the result is no reply", status(200, { result: {} }), 0],
    ["perhaps executed, the result is of no type that Redis has", status(200, { result: true }), 0],
  ])("reports an unknown outcome: %s", async (_, fault, length) => {
    bridge.faults.push(fault);
    const failure = await rejection(append.run(client, { key: key() }, { value: "x" }, { op: "mine" }));
    expect(failure).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME", op: "mine" });
    expect(await redis.client.strlen(key())).toBe(length);
    expect(names()).toEqual(["evalsha"]);
  });

  it("types the error for a reply that the script cannot have made", async () => {
    const spec = { source: "return {1}", keys: [], args: [], reply: (raw: unknown) => (raw as number[]).map(Number) };
    const change = defineScript({ ...spec, name: "test.change" });
    const look = defineScript({ ...spec, name: "test.look", readonly: true });
    bridge.faults.push(status(200, { result: "x" }), status(200, { result: null }));
    expect(await rejection(change.run(client, {}, {}, { op: "mine" }))).toMatchObject({
      code: "KIT_UNKNOWN_OUTCOME",
      op: "mine",
    });
    expect(await rejection(look.run(client, {}, {}))).toMatchObject({ code: "KIT_UNAVAILABLE", retryable: true });
  });

  it("reads no more of a reply than its limit, and repeats no more of an error than a line", async () => {
    const small = clientWith({ maxReplyBytes: 1_024 });
    await redis.client.set(key(), "x".repeat(2_000), "PX", 60_000);
    // Without the deadline of a script, in which a busy machine may get no reply.
    const refused = await rejection(small.call("GET", key()));
    expect(refused.message).toContain("the reply has more than maxReplyBytes, 1024");
    bridge.faults.push(status(400, { error: `ERR ${"x".repeat(10_000)}` }));
    expect((await rejection(read.run(client, { key: key() }, {}))).message.length).toBeLessThan(1_000);
  });

  it("shows no character of an error that could rewrite a terminal, reorder a line or start a new one", async () => {
    bridge.faults.push(status(400, { error: "ERR \u001b]0;owned\u0007 \u202edesrever\n[info] all is well\u009bé" }));
    const error = await rejection(read.run(client, { key: key() }, {}));
    expect(error.message).toMatch(/ failed: ERR ·\]0;owned· ·desrever·\[info\] all is well·é$/);
    expect(inspect(error)).not.toMatch(/[^\P{C}\n]/u);
  });

  it.each([
    ["cut before", cutBefore],
    ["cut after", cutAfter],
    ["cut within", cutWithin],
    ["502", status(502)],
    ["503 with a pause", status(503, {}, { "retry-after": "0" })],
  ])("sends again what may be repeated: %s", async (_, fault) => {
    await addOnce.run(client, { key: key() }, { op: "first" });
    bridge.faults.push(fault, fault);
    expect(await addOnce.run(client, { key: key() }, { op: "second" }, { deadlineMs: 20_000 })).toBe(2);
    expect(await redis.client.zcard(key())).toBe(2);
    expect(bridge.faults).toEqual([]);
  });

  it("knows that a refused connection has sent nothing", async () => {
    const away = clientWith({ url: `http://127.0.0.1:${String(await freePort())}` });
    const failure = await rejection(append.run(away, { key: key() }, { value: "x" }, { deadlineMs: 300 }));
    expect(failure).toMatchObject({ code: "KIT_UNAVAILABLE", retryable: true });
    expect(failure.message).toMatch(
      /http:\/\/127\.0\.0\.1:\d+ did not answer in time \(ECONNREFUSED\): .* was not done$/,
    );
  });

  it("waits as long as HTTP 429 says, and executes once", async () => {
    bridge.faults.push(status(429, { error: "too many" }, { "retry-after": "1" }));
    let length: unknown;
    const tookMs = await timed(
      append.run(client, { key: key() }, { value: "x" }, { deadlineMs: 20_000 }).then((reply) => (length = reply)),
    );
    expect(length).toBe(1);
    expect(tookMs).toBeGreaterThan(950);
  });

  it("sends nothing while the endpoint wants a longer pause than calls have", async () => {
    const later = new Date(Date.now() + 3_600_000).toUTCString();
    bridge.faults.push(status(429, {}, { "retry-after": later }));
    const failure = await rejection(append.run(client, { key: key() }, { value: "x" }, { deadlineMs: 200 }));
    expect(failure).toMatchObject({ code: "KIT_UNAVAILABLE", retryable: true });
    expect(failure.message).toContain("(HTTP 429)");
    expect(await code(read.run(client, { key: key() }, {}, { deadlineMs: 100 }))).toBe("KIT_UNAVAILABLE");
    expect(names()).toEqual(["evalsha"]);
    expect(await redis.client.exists(key())).toBe(0);
    client.disconnect();
  });

  it("settles by the deadline where no reply comes, and ends the request later", async () => {
    bridge.faults.push(silence);
    expect(await code(append.run(client, { key: key() }, { value: "x" }, { deadlineMs: 200 }))).toBe(
      "KIT_UNKNOWN_OUTCOME",
    );
    const impatient = clientWith({ timeoutMs: 100 });
    bridge.faults.push(silence);
    expect(await addOnce.run(impatient, { key: `${key()}:once` }, { op: "a" }, { deadlineMs: 20_000 })).toBe(1);
    expect(names().filter((name) => name === "evalsha").length).toBeGreaterThan(2);
  });

  it.each([301, 404, 413])("reports HTTP %i as the endpoint's refusal", async (http) => {
    bridge.faults.push(status(http, {}, { location: "/elsewhere" }));
    const failure = await rejection(append.run(client, { key: key() }, { value: "x" }));
    expect(failure).toMatchObject({ code: "KIT_SERVER", retryable: false });
    expect(failure.message).toContain(`HTTP ${String(http)}`);
    expect(names()).toHaveLength(1);
  });

  it("rejects what needs its own connection", async () => {
    const need = { key: key(), replicas: 1, timeoutMs: 1_000 };
    await redis.client.set(key(), "x", "PX", 60_000);
    const failure = await rejection(optimistic(client, [key()], () => Promise.resolve()));
    expect(failure).toMatchObject({ code: "KIT_UNSUPPORTED", retryable: false });
    expect(failure.message).toContain(new URL(bridge.url).origin);
    expect(await code(durable(client, need, () => Promise.resolve()))).toBe("KIT_UNSUPPORTED");
    expect(() => attach(client, { isolate: true })).toThrow(KitError);
    expect(() => replicaReads(client)).toThrow(KitError);
    expect((client as unknown as EventEmitter).eventNames()).toEqual([]);
  });

  it("has no pushes, so what waits for one polls", async () => {
    const context = attach(client);
    redis.defer(() => context.detach());
    expect(await opened(context.inbox, 60_000)).toBe(true);
    expect(context.inbox.isForbidden).toBe(true);
    const state = await new Promise((resolve) => {
      redis.defer(context.inbox.listen("channel", { message: () => undefined, state: resolve }));
    });
    expect(state).toBe("forbidden");
    expect(await health(context)).toMatchObject({ ok: true, address: bridge.url, pushes: "forbidden" });
  });

  it("sends nothing after disconnect(), and again after connect()", async () => {
    client.disconnect();
    const failure = await rejection(append.run(client, { key: key() }, { value: "x" }));
    expect([failure.code, names()]).toEqual(["KIT_UNAVAILABLE", []]);
    await expect(client.call("PING")).rejects.toThrow("the client has ended");
    await client.connect();
    expect(await append.run(client, { key: key() }, { value: "x" })).toBe(1);
  });

  it("takes another fetch, and keeps none of our listeners", async () => {
    const seen: unknown[] = [];
    const other = clientWith({
      fetch: (url, init) => {
        seen.push([url, init?.method, (init as { cache?: unknown }).cache]);
        return fetch(url, init);
      },
    });
    await append.run(other, { key: key() }, { value: "x" });
    expect(seen[0]).toEqual([`${bridge.url}/`, "POST", "no-store"]);
    expect((other as unknown as EventEmitter).eventNames()).toEqual([]);
    expect(inspect(other)).not.toContain("canary");
  });
});
