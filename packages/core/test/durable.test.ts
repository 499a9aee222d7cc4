import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { eventually, FaultProxy, type RedisNode, useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { type DurabilityOptions, durable, type DurableScope, waitForSync } from "../src/durable/index.js";
import { KitKeyTypeError, KitUnavailableError, KitUnknownOutcomeError } from "../src/kernel/base/errors.js";
import { attach } from "../src/kernel/context/context.js";
import { defineScript } from "../src/kernel/script/script.js";
import { connectionsNamed, own, proxied, rejection, until } from "./harness.js";

const redis = useRedis(vitest, { replicas: 2, permanentKeys: ["*"] });

const replica = (index: number): RedisNode => redis.server.replicas[index]!;
const options = (more: Partial<DurabilityOptions> = {}): DurabilityOptions => ({ key: redis.prefix, ...more });
const write = (scope: DurableScope): Promise<unknown> => scope.call("SET", redis.prefix, "x", "PX", 60_000);
const quick = { timeoutMs: 200 };

/** Both replicas have all that the master wrote, and the master has heard of it. */
const inStep = (): Promise<void> =>
  eventually(async () => {
    // WAIT speaks of what this connection has sent.
    await redis.server.call("PUBLISH", "in-step", "");
    expect(await redis.server.call("WAIT", "2", "10")).toBe(2);
  });

const addOnce = defineScript({
  name: "test.addOnce",
  source: `
    local key = KEYS[1]
    local op = ARGV[1]
    if redis.call("HEXISTS", key, op) == 1 then return 0 end
    redis.call("HSET", key, op, "1")
    redis.call("PEXPIRE", key, 60000)
    return 1`,
  keys: ["key"],
  args: ["op"],
  idempotent: true,
  reply: Number,
});

describe("durable", () => {
  it("says how many replicas have it, and gives what the writes gave", async () => {
    await inStep();
    const result = await durable(redis.client, options({ replicas: 2 }), async (scope) => {
      await write(scope);
      return await scope.run(addOnce, { key: `${redis.prefix}:h` }, { op: "1" });
    });
    expect(result).toEqual({
      value: 1,
      outcome: "safe",
      replicas: 2,
      fsync: { local: false, replicas: 0 },
      why: undefined,
    });
    for (const node of redis.server.replicas) expect(await node.call("GET", redis.prefix)).toBe("x");
  });

  it("is short with the counts that were while a replica is paused, and safe again afterwards", async () => {
    await inStep();
    replica(0).pause();
    const short = await durable(redis.client, options({ replicas: 2, ...quick }), write);
    expect(short).toMatchObject({ outcome: "short", replicas: 1, why: "1 of 2 replicas acknowledged" });
    expect(await durable(redis.client, options({ replicas: 1 }), write)).toMatchObject({
      outcome: "safe",
      replicas: 1,
    });
    replica(0).resume();
    await inStep();
    expect(await durable(redis.client, options({ replicas: 2 }), write)).toMatchObject({
      outcome: "safe",
      replicas: 2,
    });
  });

  it("is short when there are fewer replicas than asked for", async () => {
    await inStep();
    const result = await durable(redis.client, options({ replicas: 3, ...quick }), write);
    expect(result).toMatchObject({ outcome: "short", replicas: 2 });
  });

  it("delays nobody else while it waits", async () => {
    const client = await own(redis);
    await client.set(redis.prefix, "0", "PX", 60_000);
    for (const node of redis.server.replicas) node.pause();
    let isOver = false;
    const patient = options({ timeoutMs: 20_000, deadlineMs: 30_000 });
    const waiting = durable(client, patient, write).finally(() => (isOver = true));
    await until(async () => ((await redis.server.call("INFO", "clients")) as string).includes("blocked_clients:1"));
    for (let round = 0; round < 50; round++) await client.get(redis.prefix);
    expect(isOver).toBe(false);
    for (const node of redis.server.replicas) node.resume();
    await waiting;
  });

  it("counts what an earlier try has written: a retry that finds its work done is not safer than that", async () => {
    await inStep();
    for (const node of redis.server.replicas) node.pause();
    const first = await addOnce.run(redis.client, { key: redis.prefix }, { op: "1" });
    const again = await durable(redis.client, options(quick), (scope) =>
      scope.run(addOnce, { key: redis.prefix }, { op: "1" }),
    );
    expect(first).toBe(1);
    expect(again).toMatchObject({ value: 0, outcome: "short", replicas: 0 });
    for (const node of redis.server.replicas) node.resume();
  });

  it("counts writes that nobody awaited", async () => {
    await inStep();
    const result = await durable(redis.client, options({ replicas: 2 }), (scope) => {
      void scope.run(addOnce, { key: redis.prefix }, { op: "1" });
      return Promise.resolve();
    });
    expect(result.outcome).toBe("safe");
    for (const node of redis.server.replicas) expect(await node.call("HEXISTS", redis.prefix, "1")).toBe(1);
  });

  it("passes the errors of the writes on, and closes their connection", async () => {
    const context = attach(redis.client);
    redis.defer(() => context.detach());
    const mine = new Error("mine");
    await durable(context, options(quick), write);
    expect(await connectionsNamed(redis, "kit:durable")).toHaveLength(1);
    await expect(durable(context, options(quick), () => Promise.reject(mine))).rejects.toBe(mine);
    await until(async () => (await connectionsNamed(redis, "kit:durable")).length === 0);
    await redis.client.del(redis.prefix);
    await redis.client.rpush(redis.prefix, "x");
    const failing = durable(context, options(quick), (scope) => scope.run(addOnce, { key: redis.prefix }, { op: "1" }));
    expect(await rejection(failing)).toBeInstanceOf(KitKeyTypeError);
    const wrong = durable(context, options(quick), (scope) => scope.call("GET", redis.prefix));
    expect(await rejection(wrong)).toMatchObject({ name: "KitError", code: "KIT_SERVER" });
    expect((await durable(context, options({ replicas: 2 }), (scope) => scope.call("DEL", redis.prefix))).value).toBe(
      1,
    );
  });

  it("leaves no connection on a client to which nobody is attached, and none behind an error", async () => {
    await durable(redis.client, options(quick), write);
    await rejection(durable(redis.client, options(quick), () => Promise.reject(new Error("mine"))));
    await until(async () => (await connectionsNamed(redis, "kit:durable")).length === 0);
    expect(await redis.keys()).toEqual([redis.prefix]);
  });

  it("uses at most eight connections, and those again", async () => {
    const client = await own(redis);
    let most = 0;
    const calls = Array.from({ length: 24 }, () =>
      durable(client, options({ replicas: 2, deadlineMs: 20_000 }), async (scope) => {
        most = Math.max(most, (await connectionsNamed(redis, "kit:durable")).length);
        return await write(scope);
      }),
    );
    expect((await Promise.all(calls)).every(({ outcome }) => outcome === "safe")).toBe(true);
    expect(most).toBeGreaterThan(1);
    expect(most).toBeLessThanOrEqual(8);
  });

  it("refuses what would end the question or change the connection, use after its end, and options that make no sense", async () => {
    const refused = [
      "MULTI",
      "subscribe",
      "PUNSUBSCRIBE",
      "SELECT",
      "RESET",
      "AUTH",
      "hello",
      "CLIENT",
      "WATCH",
      "WAIT",
    ];
    for (const command of [...refused, "BLPOP", "brpoplpush", "BZMPOP", "BLMOVE"])
      expect(await rejection(durable(redis.client, options(), (scope) => scope.call(command)))).toBeInstanceOf(
        RangeError,
      );
    const { value } = await durable(redis.client, options(quick), (scope) => Promise.resolve({ scope }));
    expect(await rejection(value.scope.call("GET", redis.prefix))).toMatchObject({ code: "KIT_CLOSED" });
    for (const wrong of [
      { key: "" },
      { replicas: -1 },
      { replicas: 0 },
      { replicas: 0, fsync: "replicas" as const },
      { timeoutMs: 0 },
      { deadlineMs: 0 },
    ])
      expect(await rejection(durable(redis.client, options(wrong), write))).toBeInstanceOf(RangeError);
    for (const wrong of [{ fsync: "always" }, { wait: 1 }, { signal: {} }])
      expect(await rejection(durable(redis.client, options(wrong as never), write))).toBeInstanceOf(TypeError);
    expect(await redis.keys()).toEqual([]);
  });

  it("publishes its calls on a diagnostics channel", async () => {
    const reported: unknown[] = [];
    const listener = (message: unknown): void => void reported.push({ ...(message as object) });
    subscribe("tracing:kit:core.durable:start", listener);
    redis.defer(() => unsubscribe("tracing:kit:core.durable:start", listener));
    await durable(redis.client, options(quick), write);
    expect(reported).toEqual([{ key: redis.prefix, replicas: 1, fsync: "none" }]);
  });
});

describe("durable: its end", () => {
  it("rejects by its deadline: unknown if something was sent, unavailable if nothing was", async () => {
    const never = new Promise<never>(() => undefined);
    const sent = durable(redis.client, options({ deadlineMs: 300 }), async (scope) => {
      await write(scope);
      await never;
    });
    expect(await rejection(sent)).toBeInstanceOf(KitUnknownOutcomeError);
    const unsent = durable(redis.client, options({ deadlineMs: 300 }), () => never);
    expect(await rejection(unsent)).toBeInstanceOf(KitUnavailableError);
  });

  it("rejects with the reason of an abort, before, during and after the writes", async () => {
    const reason = new Error("enough");
    await expect(durable(redis.client, options({ signal: AbortSignal.abort(reason) }), write)).rejects.toBe(reason);
    const during = new AbortController();
    const writing = durable(redis.client, options({ signal: during.signal }), async (scope) => {
      await write(scope);
      during.abort(reason);
      await new Promise(() => undefined);
    });
    await expect(writing).rejects.toBe(reason);
    for (const node of redis.server.replicas) node.pause();
    const after = new AbortController();
    const waiting = durable(redis.client, options({ signal: after.signal, timeoutMs: 20_000 }), write);
    const rejected = rejection(waiting);
    await until(async () => ((await redis.server.call("INFO", "clients")) as string).includes("blocked_clients:1"));
    after.abort(reason);
    expect(await rejected).toBe(reason);
    for (const node of redis.server.replicas) node.resume();
    await until(async () => (await connectionsNamed(redis, "kit:durable")).length === 0);
  });

  it("says that there is no master when there is none, within its deadline", async () => {
    const client = await own(redis);
    await redis.server.nodes[0]!.kill();
    const failing = durable(client, options({ deadlineMs: 300 }), write);
    expect(await rejection(failing)).toMatchObject({ code: "KIT_UNAVAILABLE" });
    await redis.server.nodes[0]!.start();
    await inStep();
  });

  it("writes nothing on a replica", async () => {
    const client = await own(redis, { url: `redis://127.0.0.1:${String(replica(0).port)}` });
    let isRun = false;
    const failing = durable(client, options({ deadlineMs: 200 }), () => {
      isRun = true;
      return Promise.resolve();
    });
    expect(await rejection(failing)).toMatchObject({ code: "KIT_READONLY", retryable: true });
    expect(isRun).toBe(false);
  });
});

describe("durable: another server, or no answer", () => {
  const master = (): RedisNode => redis.server.nodes[0]!;

  it("is unknown when the master dies between the writes and the question", async () => {
    const result = await durable(await own(redis), options(quick), async (scope) => {
      await write(scope);
      await master().kill();
    });
    expect(result).toMatchObject({ outcome: "unknown", replicas: 0 });
    expect(result.why).toContain("connection failed");
    await master().start();
    await inStep();
  });

  it("is unknown when the master was demoted and promoted again meanwhile, on the same connection", async () => {
    await inStep();
    const result = await durable(
      redis.client,
      options({ replicas: 2, timeoutMs: 5_000, deadlineMs: 20_000 }),
      async (scope) => {
        await write(scope);
        await master().call("REPLICAOF", "127.0.0.1", String(replica(0).port));
        await master().call("REPLICAOF", "NO", "ONE");
      },
    );
    expect(result.outcome).toBe("unknown");
    expect(result.why).toContain("the replication id changed");
    await inStep();
  });

  it("is unknown when the master is a replica by now", async () => {
    await inStep();
    const result = await durable(redis.client, options(quick), async (scope) => {
      await write(scope);
      await master().call("REPLICAOF", "127.0.0.1", "1");
    });
    expect(result).toMatchObject({ outcome: "unknown", why: "the server became a replica meanwhile" });
    await master().call("REPLICAOF", "NO", "ONE");
    await inStep();
  });

  it("is unknown when the master is stopped, by its deadline", async () => {
    await inStep();
    const result = await durable(redis.client, options({ timeoutMs: 100, deadlineMs: 1_500 }), async (scope) => {
      await write(scope);
      master().pause();
    });
    expect(result.outcome).toBe("unknown");
    master().resume();
  });

  const throughProxy = async (): Promise<{ proxy: FaultProxy; client: Awaited<ReturnType<typeof own>> }> => {
    const proxy = await proxied(redis);
    return { proxy, client: await own(redis, { url: proxy.url }) };
  };

  it("rejects as unknown when the reply to a write is lost", async () => {
    const { proxy, client } = await throughProxy();
    const failing = durable(client, options(quick), (scope) => {
      proxy.down.cutNext = 1;
      return write(scope);
    });
    expect(await rejection(failing)).toBeInstanceOf(KitUnknownOutcomeError);
  });

  it("is unknown when the writer swallowed the loss of a reply", async () => {
    const { proxy, client } = await throughProxy();
    const result = await durable(client, options(quick), async (scope) => {
      proxy.down.cutNext = 1;
      await write(scope).catch(() => undefined);
    });
    expect(result.outcome).toBe("unknown");
  });

  it.each([
    ["the question", "up"],
    ["the answer", "down"],
  ] as const)("is unknown when %s is cut", async (_, way) => {
    const { proxy, client } = await throughProxy();
    const result = await durable(client, options(quick), async (scope) => {
      await write(scope);
      proxy[way].cutNext = 1;
    });
    expect(result).toMatchObject({ outcome: "unknown", replicas: 0 });
  });

  it("is unknown when the connection is cut while it waits", async () => {
    const { proxy, client } = await throughProxy();
    for (const node of redis.server.replicas) node.pause();
    const waiting = durable(client, options({ timeoutMs: 20_000 }), write);
    await until(async () => ((await redis.server.call("INFO", "clients")) as string).includes("blocked_clients:1"));
    proxy.resetAll();
    expect((await waiting).outcome).toBe("unknown");
    for (const node of redis.server.replicas) node.resume();
  });

  it("is unknown when only the last look is lost", async () => {
    const { proxy, client } = await throughProxy();
    await inStep();
    for (const node of redis.server.replicas) node.pause();
    const waiting = durable(client, options({ timeoutMs: 300, deadlineMs: 1_000 }), write);
    await until(async () => ((await redis.server.call("INFO", "clients")) as string).includes("blocked_clients:1"));
    proxy.up.hole = true;
    expect(await waiting).toMatchObject({ outcome: "unknown", replicas: 0 });
    proxy.heal();
    for (const node of redis.server.replicas) node.resume();
  });

  it("works again after all that", async () => {
    const { proxy, client } = await throughProxy();
    await inStep();
    proxy.down.hole = true;
    const result = durable(client, options({ timeoutMs: 100, deadlineMs: 300 }), write);
    expect(await rejection(result)).toMatchObject({ code: "KIT_UNAVAILABLE" });
    proxy.heal();
    await until(() => client.status === "ready");
    expect(await durable(client, options({ replicas: 2 }), write)).toMatchObject({ outcome: "safe" });
  });
});

describe("waitForSync", () => {
  it("gives the same answer about what others wrote", async () => {
    await inStep();
    expect(await waitForSync(redis.client, options({ replicas: 2 }))).toEqual({
      outcome: "safe",
      replicas: 2,
      fsync: { local: false, replicas: 0 },
      why: undefined,
    });
    for (const node of redis.server.replicas) node.pause();
    await redis.client.set(redis.prefix, "x", "PX", 60_000);
    expect(await waitForSync(redis.client, options(quick))).toMatchObject({ outcome: "short", replicas: 0 });
    for (const node of redis.server.replicas) node.resume();
    await inStep();
    expect(await waitForSync(redis.client, options({ replicas: 2 }))).toMatchObject({ outcome: "safe" });
  });

  it("means the same keys as the caller's client where that has a prefix", async () => {
    await inStep();
    const client = redis.connect({ keyPrefix: `${redis.prefix}:` });
    expect(await waitForSync(client, { key: "k", replicas: 2 })).toMatchObject({ outcome: "safe" });
    expect(await redis.keys()).toEqual([`${redis.prefix}:kit:durable:{all}:mark`]);
  });
});

/** A client whose user may do everything but what is named. */
const restricted = async (...rules: string[]): Promise<Awaited<ReturnType<typeof own>>> => {
  const user = `u${redis.prefix}`;
  for (const node of [...redis.server.nodes, ...redis.server.replicas])
    await node.call("ACL", "SETUSER", user, "on", ">secret", "~*", "&*", "+@all", ...rules);
  redis.defer(async () => {
    for (const node of [...redis.server.nodes, ...redis.server.replicas]) await node.call("ACL", "DELUSER", user);
  });
  return await own(redis, { options: { username: user, password: "secret" } });
};

describe("durable for a user who may not do all", () => {
  it("looks for a token on the replicas where WAIT is forbidden", async () => {
    await inStep();
    const client = await restricted("-wait");
    expect(await waitForSync(client, options({ replicas: 2 }))).toMatchObject({ outcome: "safe", replicas: 2 });
    expect(await durable(client, options({ replicas: 2 }), write)).toMatchObject({ outcome: "safe", replicas: 2 });
    replica(0).pause();
    const short = await durable(client, options({ replicas: 2, timeoutMs: 300 }), write);
    expect(short).toMatchObject({ outcome: "short", replicas: 1 });
    replica(0).resume();
  });

  it("needs no more than the README says", async () => {
    await inStep();
    const least = ["-@all", "+info", "+wait", "+type", "+set", "+config|get", "resetkeys", "~kit:durable:*"];
    const client = await restricted(...least, `~${redis.prefix}`);
    expect(await durable(client, options({ replicas: 2 }), write)).toMatchObject({ outcome: "safe", replicas: 2 });
    expect(await waitForSync(client, options({ fsync: "local", replicas: 2 }))).toMatchObject({
      outcome: "short",
      why: "appendonly is off. Set appendonly yes",
    });
  });

  it("is unknown where INFO or the mark is forbidden, and reports it", async () => {
    await inStep();
    const blind = await durable(await restricted("-info"), options({ replicas: 2 }), write);
    expect(blind).toMatchObject({ outcome: "unknown" });
    expect(blind.why).toContain("INFO is forbidden");
    const unmarked = await durable(await restricted("resetkeys", `~${redis.prefix}`), options({ replicas: 2 }), write);
    expect(unmarked).toMatchObject({ outcome: "unknown", replicas: 2 });
    expect(unmarked.why).toContain("the server rejected the mark kit:durable:{all}:mark");
  });
});
