import { getEventListeners } from "node:events";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { eventually, startRedis, useRedis } from "@kit/testing";
import { losingOnce } from "@tooling/vitest/helpers";
import { executorBehaviour } from "./executor-behaviour.js";
import { KitUnavailableError, KitUnknownOutcomeError } from "../src/kernel/base/errors.js";
import { retry } from "../src/kernel/base/retry.js";
import { attach } from "../src/kernel/context/context.js";
import { defineScript } from "../src/kernel/script/script.js";
import { bare, callsOf, own, proxied, rejection, until } from "./harness.js";
import { addOnce, append, read } from "./scripts.js";

const redis = useRedis(vitest);

executorBehaviour(redis);

describe("executor: a client that is not ready", () => {
  it("connects a lazy client, and waits for one that is connecting", async () => {
    const key = redis.prefix;
    for (const client of [redis.connect({ lazyConnect: true }), redis.connect()])
      expect(await read.run(client, { key }, {})).toBe("");
  });

  it("never runs a command later that could not be sent in time", async () => {
    const server = await startRedis({ persistence: "always" });
    redis.defer(() => server.stop());
    const [node] = server.nodes;
    const borrowed = server.client({ retryStrategy: () => 10, maxRetriesPerRequest: null });
    borrowed.on("error", () => undefined);
    const owned = await own(redis, { url: server.url });
    await borrowed.ping();
    await node!.kill();
    await until(() => borrowed.status !== "ready" && owned.status !== "ready");
    for (const client of [borrowed, owned]) {
      const error = await rejection(append.run(client, { key: "ghost" }, { value: "x" }, { deadlineMs: 150 }));
      expect(error).toBeInstanceOf(KitUnavailableError);
      expect(error.message).toMatch(
        /^Redis at 127\.0\.0\.1:\d+ did not answer in time \(ECONNREFUSED\): test\.append of ghost was not done$/,
      );
    }
    await node!.start();
    for (const client of [borrowed, owned]) {
      await until(() => client.status === "ready");
      expect(await client.call("EXISTS", "ghost")).toBe(0);
    }
    borrowed.disconnect();
  });

  it("says at once that a borrowed client has ended", async () => {
    const client = redis.connect();
    await client.ping();
    client.disconnect();
    await until(() => client.status === "end");
    const error = await rejection(read.run(client, { key: redis.prefix }, {}, { deadlineMs: 600_000 }));
    expect(error).toBeInstanceOf(KitUnavailableError);
    expect(error.message).toContain("has ended");
  });

  it("notices that the owner ended a client while the server was away, though ioredis does not say so", async () => {
    const server = await startRedis();
    redis.defer(() => server.stop());
    const [node] = server.nodes;
    const key = redis.prefix;
    for (const end of ["disconnect", "quit"] as const) {
      const client = server.client({ retryStrategy: () => 600_000 });
      client.on("error", () => undefined);
      const context = attach(client);
      expect(await read.run(context, { key }, {})).toBe("");
      await node!.kill();
      await until(() => client.status === "reconnecting");
      const waiting = rejection(read.run(context, { key }, {}, { deadlineMs: 600_000 }));
      const drops = new Promise<void>((resolve) => redis.defer(context.executor.onDrop(resolve)));
      void client[end]();
      expect(await waiting).toMatchObject({ code: "KIT_UNAVAILABLE", retryable: false });
      await drops;
      expect(context.executor.isEnded).toBe(true);
      expect((await rejection(read.run(context, { key }, {}))).message).toContain("has ended");
      await node!.start();
      await client.connect();
      expect(await read.run(context, { key }, {})).toBe("");
      context.detach();
      client.disconnect();
    }
  });

  it("says at once that a client which is subscribed takes no commands, and that nothing was sent", async () => {
    const client = redis.connect({ protocol: 2 });
    await client.subscribe(redis.prefix);
    const error = await rejection(append.run(client, { key: redis.prefix }, { value: "x" }, { deadlineMs: 600_000 }));
    expect(error).toMatchObject({ code: "KIT_UNAVAILABLE", retryable: false });
    expect(error.message).toMatch(
      /^test\.append of \S+ was not sent: the client for 127\.0\.0\.1:\d+ is subscribed \(Connection in subscriber mode, /,
    );
    await client.unsubscribe();
    expect(await append.run(client, { key: redis.prefix }, { value: "x" })).toBe(1);
    await redis.client.del(redis.prefix);
  });

  it("does not hand a command to a socket that is closing: it would run after the next connect", async () => {
    // Longer than the second that a call gets once more after a stall of the event loop.
    const client = redis.connect({ retryStrategy: () => 1_500 });
    await client.ping();
    // As between the end of the stream and its close: ioredis still says ready, and would keep the command.
    client.stream.end();
    expect(client.status).toBe("ready");
    const error = await rejection(append.run(client, { key: redis.prefix }, { value: "x" }, { deadlineMs: 100 }));
    expect(error).toBeInstanceOf(KitUnavailableError);
    await until(() => client.status === "ready");
    expect(await client.get(redis.prefix)).toBeNull();
  });
});

describe("executor: lost replies", () => {
  it("asks again for an idempotent script: one effect, one answer", async () => {
    const proxy = await proxied(redis);
    const client = await own(redis, { url: proxy.url });
    await addOnce.run(client, { key: redis.prefix }, { op: "warm" });
    for (let round = 0; round < 20; round++) {
      proxy.down.cutNext = 1;
      expect(
        await addOnce.run(client, { key: redis.prefix }, { op: `op-${String(round)}` }, { deadlineMs: 5_000 }),
      ).toBe(round + 2);
    }
    expect(proxy.stats.resets).toBe(20);
    expect(await redis.client.zcard(redis.prefix)).toBe(21);
    await redis.client.del(redis.prefix);
  });

  it("calls the outcome of any other change unknown, with its operation id, and changes once", async () => {
    const proxy = await proxied(redis);
    const client = await own(redis, { url: proxy.url });
    await append.run(client, { key: redis.prefix }, { value: "-" });
    for (let round = 0; round < 10; round++) {
      proxy.down.cutNext = 1;
      const error = await rejection(
        append.run(client, { key: redis.prefix }, { value: "x" }, { op: `op-${String(round)}`, deadlineMs: 5_000 }),
      );
      expect(error).toBeInstanceOf(KitUnknownOutcomeError);
      expect(error).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME", op: `op-${String(round)}`, retryable: true });
      await until(() => client.status === "ready");
    }
    expect(await redis.client.get(redis.prefix)).toBe(`-${"x".repeat(10)}`);
    await redis.client.del(redis.prefix);
  });

  it("never lets a borrowed client send such a change again, and says at once that the reply is lost", async () => {
    const proxy = await proxied(redis);
    const inPipeline = { enableAutoPipelining: true, keyPrefix: `${redis.prefix}:` };
    for (const [key, options] of [
      [redis.prefix, {}],
      ["own", inPipeline],
    ] as const) {
      const client = redis.connect({ host: "127.0.0.1", port: proxy.port, retryStrategy: () => 500, ...options });
      await append.run(client, { key }, { value: "-" });
      proxy.down.cutNext = 1;
      const lost = rejection(append.run(client, { key }, { value: "x" }, { deadlineMs: 600_000 }));
      expect(await lost).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME", retryable: false });
      expect(client.status).toBe("reconnecting");
      // What the client repeats goes out before this.
      expect(await append.run(client, { key }, { value: "y" })).toBe("-xy".length);
      expect(await client.get(key)).toBe("-xy");
      await client.del(key);
    }
  });

  it("does not call an outcome retryable whose operands were made for this call, though it sends them again itself", async () => {
    const proxy = await proxied(redis);
    const client = await own(redis, { url: proxy.url });
    await addOnce.run(client, { key: redis.prefix }, { op: "warm" });
    const run = (op: string, deadlineMs?: number): Promise<unknown> =>
      addOnce.run(client, { key: redis.prefix }, { op }, { op, isRepeatable: false, deadlineMs });
    proxy.down.cutNext = 1;
    expect(await run("sent twice", 20_000)).toBe(2);
    let made = 0;
    const { attempt, tries } = losingOnce(proxy, () => run(`made ${String(++made)}`, 300));
    expect(await rejection(retry(attempt, { waitMs: 20_000 }))).toMatchObject({
      code: "KIT_UNKNOWN_OUTCOME",
      op: "made 1",
      retryable: false,
      message: expect.stringMatching(/\. To repeat it, pass the error's `op`$/) as unknown,
    });
    expect([tries(), await redis.client.zcard(redis.prefix)]).toEqual([1, 3]);
    await redis.client.del(redis.prefix);
  });

  it("calls a silent server's outcome unknown at the deadline", async () => {
    const client = await own(redis);
    await append.run(client, { key: redis.prefix }, { value: "-" });
    const [node] = redis.server.nodes;
    node!.pause();
    const error = await rejection(append.run(client, { key: redis.prefix }, { value: "x" }, { deadlineMs: 600 }));
    expect(error).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME", op: undefined, retryable: false });
    // Its socket was replaced by one that is not ready yet: the next call is not sent at all.
    const next = addOnce.run(client, { key: `${redis.prefix}:z` }, { op: "o" }, { deadlineMs: 300, op: "o" });
    expect(await rejection(next)).toMatchObject({ code: "KIT_UNAVAILABLE" });
    node!.resume();
    await until(() => client.status === "ready");
    expect(await client.call("EXISTS", `${redis.prefix}:z`)).toBe(0);
    await redis.client.del(redis.prefix);
  });

  it("calls a lost read unavailable, since nothing can have happened", async () => {
    const client = await own(redis);
    const [node] = redis.server.nodes;
    await read.run(client, { key: redis.prefix }, {});
    node!.pause();
    expect(await rejection(read.run(client, { key: redis.prefix }, {}, { deadlineMs: 200 }))).toBeInstanceOf(
      KitUnavailableError,
    );
    node!.resume();
  });

  it.each([
    ["a refusal by the rights of the user", "ours", "-evalsha", ["KIT_UNKNOWN_OUTCOME", "o", true]],
    ["a refusal by the rights of the user", "borrowed", "-evalsha", ["KIT_UNKNOWN_OUTCOME", "o", true]],
    ["a server that forgot the script", "ours", "+evalsha", 2],
    ["a server that forgot the script", "borrowed", "+evalsha", 2],
  ])("does not take %s for the outcome of the try before, on a client that is %s", async (_, whose, right, wanted) => {
    await redis.server.call("ACL", "SETUSER", "waning", "on", ">pw", "~*", "&*", "+@all");
    redis.defer(() => redis.server.call("ACL", "DELUSER", "waning"));
    const proxy = await proxied(redis);
    // A borrowed client sends again by itself.
    const client =
      whose === "ours"
        ? await own(redis, { url: proxy.url.replace("redis://", "redis://waning:pw@") })
        : redis.connect({ port: proxy.port, username: "waning", password: "pw", maxRetriesPerRequest: null });
    await addOnce.run(client, { key: redis.prefix }, { op: "warm" });
    proxy.down.cutNext = 1;
    const run = addOnce.run(client, { key: redis.prefix }, { op: "o" }, { op: "o", deadlineMs: 20_000 });
    const outcome = run.catch(({ code, op, retryable }: KitUnknownOutcomeError) => [code, op, retryable]);
    proxy.refuse = true;
    await until(() => proxy.stats.resets === 1);
    await redis.server.call("ACL", "SETUSER", "waning", right);
    await redis.server.call("SCRIPT", "FLUSH");
    proxy.refuse = false;
    expect(await outcome).toEqual(wanted);
    expect(await redis.client.zcard(redis.prefix)).toBe(2);
    await redis.client.del(redis.prefix);
  });

  it("does not send again what is no longer wanted", async () => {
    const proxy = await proxied(redis);
    const client = await own(redis, { url: proxy.url });
    await addOnce.run(client, { key: redis.prefix }, { op: "warm" });
    proxy.down.cutNext = 1;
    let asked = 0;
    const error = await rejection(
      addOnce.run(client, { key: redis.prefix }, { op: "o" }, { op: "o", isWanted: () => ++asked === 1 }),
    );
    expect(error).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME", op: "o", retryable: true });
    expect(asked).toBe(2);
    const unwanted = await rejection(
      addOnce.run(redis.client, { key: redis.prefix }, { op: "never" }, { isWanted: () => false }),
    );
    expect(unwanted.code).toBe("KIT_UNAVAILABLE");
    expect(await redis.client.zscore(redis.prefix, "never")).toBeNull();
    await redis.client.del(redis.prefix);
  });
});

describe("executor: a blocked event loop", () => {
  it("reads the reply that is in the socket, however late it is", async () => {
    const client = await own(redis);
    await append.run(client, { key: redis.prefix }, { value: "-" });
    for (let round = 0; round < 5; round++) {
      const running = append.run(client, { key: redis.prefix }, { value: "x" }, { deadlineMs: 30 });
      // The server has the processor meanwhile.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300);
      await running;
    }
    expect(await client.get(redis.prefix)).toBe("-xxxxx");
    await client.del(redis.prefix);
  });

  it("sends after it what could not go out before, and calls nothing lost", async () => {
    // The proxy is in this process, and stands still, too.
    const client = await own(redis, { url: (await proxied(redis)).url });
    const running = Array.from({ length: 100 }, () =>
      append.run(client, { key: redis.prefix }, { value: "x" }, { deadlineMs: 30 }),
    );
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300);
    await Promise.all(running);
    expect(await client.get(redis.prefix)).toBe("x".repeat(100));
    await client.del(redis.prefix);
  });

  it("is named where the server did not answer after it either", async () => {
    const client = await own(redis);
    await read.run(client, { key: redis.prefix }, {});
    redis.server.nodes[0]!.pause();
    const lost = rejection(read.run(client, { key: redis.prefix }, {}, { deadlineMs: 30 }));
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300);
    const { message } = await lost.finally(() => redis.server.nodes[0]!.resume());
    expect(message).toMatch(/ in time \(no reply; the event loop was blocked for at least 0\.\d s\): /);
  });
});

describe("executor: abort", () => {
  const timers = (): number => process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length;

  it("sends nothing when the signal has aborted already", async () => {
    const before = await callsOf(redis, "evalsha");
    await expect(
      append.run(
        redis.client,
        { key: redis.prefix },
        { value: "x" },
        { signal: AbortSignal.abort(new Error("early")) },
      ),
    ).rejects.toThrow("early");
    expect(await redis.client.exists(redis.prefix)).toBe(0);
    expect(await callsOf(redis, "evalsha")).toBe(before);
  });

  it("leaves no listener on a signal that never aborts", async () => {
    const { signal } = new AbortController();
    await Promise.all(Array.from({ length: 20 }, () => read.run(redis.client, { key: redis.prefix }, {}, { signal })));
    await read.run(redis.connect({ lazyConnect: true }), { key: redis.prefix }, {}, { signal });
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
  });

  it("rejects with the reason in flight and while it waits, and leaves neither timer nor listener", async () => {
    const proxy = await proxied(redis);
    const client = await own(redis, { url: proxy.url });
    await read.run(client, { key: redis.prefix }, {});
    let before = 0;
    // Counted as below, with the timers of what looks.
    await until(() => (before = timers()) >= 0);
    proxy.down.latencyMs = 200;
    const controllers = [new AbortController(), new AbortController()];
    const inFlight = read.run(
      client,
      { key: redis.prefix },
      {},
      { signal: controllers[0]!.signal, deadlineMs: 60_000 },
    );
    setImmediate(() => controllers[0]!.abort(new Error("in flight")));
    await expect(inFlight).rejects.toThrow("in flight");
    proxy.refuse = true;
    proxy.resetAll();
    await until(() => client.status !== "ready");
    const waiting = read.run(client, { key: redis.prefix }, {}, { signal: controllers[1]!.signal, deadlineMs: 60_000 });
    setImmediate(() => controllers[1]!.abort(new Error("waiting")));
    await expect(waiting).rejects.toThrow("waiting");
    for (const { signal } of controllers) expect(getEventListeners(signal, "abort")).toHaveLength(0);
    proxy.refuse = false;
    proxy.heal();
    await until(() => client.status === "ready");
    await until(() => timers() <= before);
  });
});

describe("executor: listeners and deadlines", () => {
  it("leaves no listener on a borrowed client, and never closes it", async () => {
    const client = redis.connect();
    await client.ping();
    const count = (): number => client.eventNames().reduce((sum, name) => sum + client.listenerCount(name), 0);
    const before = count();
    await Promise.all(Array.from({ length: 50 }, () => read.run(client, { key: redis.prefix }, {})));
    expect(count()).toBe(before);
    const contexts = [attach(client), attach(client), attach(client, { prefix: "other" })];
    expect(count()).toBeGreaterThan(before);
    for (const context of contexts) context.detach();
    expect(count()).toBe(before);
    expect(client.status).toBe("ready");
  });

  it("only rejects on a borrowed client: its silent socket stays", async () => {
    const proxy = await proxied(redis);
    const client = redis.connect({ host: "127.0.0.1", port: proxy.port });
    await client.ping();
    const { stream } = client;
    proxy.down.hole = true;
    await rejection(read.run(client, { key: redis.prefix }, {}, { deadlineMs: 700 }));
    await rejection(read.run(client, { key: redis.prefix }, {}, { deadlineMs: 100 }));
    expect(client.stream).toBe(stream);
    expect(stream.destroyed).toBe(false);
  });

  it("replaces the silent socket of an isolated duplicate, and closes that with the last user", async () => {
    const proxy = await proxied(redis);
    const client = redis.connect({ host: "127.0.0.1", port: proxy.port, connectionName: "isolated" });
    await client.ping();
    const context = attach(client, { isolate: true });
    expect(context.client).not.toBe(client);
    expect(await read.run(context, { key: redis.prefix }, {})).toBe("");
    const { stream } = context.client as typeof client;
    proxy.down.hole = true;
    await rejection(read.run(context, { key: redis.prefix }, {}, { deadlineMs: 600 }));
    await until(() => stream.destroyed);
    proxy.heal();
    expect(await read.run(context, { key: redis.prefix }, {}, { deadlineMs: 5_000 })).toBe("");
    context.detach();
    await until(() => context.client.status === "end");
  });

  it("reconnects an isolated duplicate at kit's pace, however long the caller's client would wait", async () => {
    const server = await startRedis();
    redis.defer(() => server.stop());
    const [node] = server.nodes;
    const client = server.client({ retryStrategy: () => 600_000 });
    client.on("error", () => undefined);
    const context = attach(client, { isolate: true });
    const key = redis.prefix;
    expect(await read.run(context, { key }, {})).toBe("");
    await node!.kill();
    await until(() => context.client.status === "reconnecting");
    await node!.start();
    expect(await read.run(context, { key }, {}, { deadlineMs: 60_000 })).toBe("");
    expect(client.status).toBe("reconnecting");
    context.detach();
    client.disconnect();
  });

  it("keeps deadlines of many calls at once", async () => {
    const proxy = await proxied(redis);
    const client = await own(redis, { url: proxy.url });
    await client.ping();
    proxy.down.hole = true;
    const early = await Promise.all(
      Array.from({ length: 300 }, async (_, index) => {
        const dueAt = performance.now() + 100 + index;
        await rejection(read.run(client, { key: redis.prefix }, {}, { deadlineMs: 100 + index }));
        return dueAt - performance.now();
      }),
    );
    expect(Math.max(...early)).toBeLessThan(2);
  });

  it("asks once whether the connection is unresponsive, however many calls are late", async () => {
    // Again where the machine took half a second for an answer, which is silence.
    await eventually(async () => {
      const proxy = await proxied(redis);
      const client = await own(redis, { url: proxy.url });
      await read.run(client, { key: redis.prefix }, {});
      proxy.down.latencyMs = 150;
      const pings = await callsOf(redis, "ping");
      const calls = Array.from({ length: 50 }, () => read.run(client, { key: redis.prefix }, {}, { deadlineMs: 50 }));
      for (const error of await Promise.all(calls.map(rejection))) expect(error).toBeInstanceOf(KitUnavailableError);
      expect(await read.run(client, { key: redis.prefix }, {})).toBe("");
      expect((await callsOf(redis, "ping")) - pings).toBe(1);
      expect(proxy.stats.accepted).toBe(1);
    });
  });

  it("is ready again when a borrowed client gets its reply after a silence, since the client emits nothing then", async () => {
    const proxy = await proxied(redis);
    const client = redis.connect({ port: proxy.port });
    const context = attach(client);
    await read.run(context, { key: redis.prefix }, {});
    let readies = 0;
    redis.defer(context.executor.onReady(() => void readies++));
    proxy.down.latencyMs = 300;
    const late = Array.from({ length: 3 }, () => read.run(context, { key: redis.prefix }, {}, { deadlineMs: 50 }));
    for (const error of await Promise.all(late.map(rejection))) expect(error).toBeInstanceOf(KitUnavailableError);
    await until(() => readies > 0);
    proxy.down.latencyMs = 0;
    expect(await read.run(context, { key: redis.prefix }, {})).toBe("");
    expect([readies, proxy.stats.accepted]).toEqual([1, 1]);
    context.detach();
  });

  it("carries no argument in its errors", async () => {
    const client = await own(redis);
    const bad = defineScript({
      name: "test.bad",
      source: "return redis.call('NOPE', ARGV[1])",
      keys: ["key"],
      args: ["value"],
      reply: String,
    });
    const error = await rejection(bad.run(client, { key: redis.prefix }, { value: "canary" }));
    expect(bare(error)).not.toContain("canary");
    expect(error.message).toContain(`test.bad of ${redis.prefix} failed`);
  });
});
