import { FaultProxy, eventually, type RedisNode, useRedis } from "@kit/testing";
import { rejection, scriptCalls } from "@tooling/vitest/helpers";
import type { KitError } from "@kit/core";
import type { Redis } from "ioredis";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import type { Limiter, LimiterOptions, Limits } from "../src/index.js";
import { age, allowedOf, five, fixtureOf, hourMs, key, permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const fixture = fixtureOf(redis);

const proxied = async (): Promise<{ proxy: FaultProxy; client: Redis }> => {
  const proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
  redis.defer(() => proxy.close());
  const client = redis.connect({ port: proxy.port, retryStrategy: () => 20 });
  await client.ping();
  return { proxy, client };
};

const onProxy = async (
  options: Partial<LimiterOptions>,
  limits: Limits = five,
): Promise<{ proxy: FaultProxy; limiter: Limiter; errors: string[] }> => {
  const { proxy, client } = await proxied();
  const limiter = fixture.on(client, limits, { deadlineMs: 300, ...options });
  const errors: string[] = [];
  limiter.on("error", ({ code }: KitError) => errors.push(code));
  return { proxy, limiter, errors };
};

describe("onUnavailable", () => {
  it("refuse: rejects by deadlineMs, and is never open", async () => {
    const { proxy, limiter, errors } = await onProxy({});
    proxy.down.hole = true;
    const at = performance.now();
    expect(await rejection(limiter.consume(key))).toMatchObject({
      code: expect.stringMatching(/^KIT_(UNAVAILABLE|UNKNOWN_OUTCOME)$/) as string,
    });
    expect(performance.now() - at).toBeLessThan(5_000);
    proxy.heal();
    expect(errors).toEqual([]);
  });

  it("allow: allows, reports it once, and once that the server answers again", async () => {
    const { proxy, limiter, errors } = await onProxy({ onUnavailable: "allow", deadlineMs: 1_500 });
    proxy.down.hole = true;
    expect(await limiter.consume(key)).toMatchObject({ allowed: true, decidedBy: "outage" });
    expect(errors).toEqual(["KIT_UNAVAILABLE"].map(() => expect.stringMatching(/^KIT_UN/) as string));
    // Later calls do not wait for the deadline.
    const at = performance.now();
    await Promise.all(Array.from({ length: 100 }, () => limiter.consume(key)));
    expect(performance.now() - at).toBeLessThan(1_000);
    expect(await limiter.check(key)).toMatchObject({ allowed: true, decidedBy: "outage" });
    await limiter.wait(key);
    proxy.heal();
    await eventually(async () => expect(await limiter.consume(key)).toMatchObject({ decidedBy: "server" }), {
      timeoutMs: 10_000,
    });
    expect(errors).toHaveLength(2);
    expect(errors[1]).toBe("KIT_RECOVERED");
    // A call that changes a key is never decided here.
    proxy.down.hole = true;
    expect(await rejection(limiter.reset(key))).toMatchObject({ retryable: expect.any(Boolean) as boolean });
  });

  it("local: enforces its share of each limit, and then waits at its share of the rate", async () => {
    const { proxy, limiter } = await onProxy(
      { onUnavailable: "local", processes: 4 },
      { minute: { count: 40, perMs: hourMs }, total: { count: 80, perMs: hourMs, shared: true } },
    );
    proxy.down.hole = true;
    await limiter.consume("warm-up");
    expect(await allowedOf(limiter, 30)).toBe(10);
    expect(await limiter.consume(key)).toMatchObject({ allowed: false, refusedBy: "minute", decidedBy: "outage" });
    // The shared limit has 20 for this process: one for the first call, ten for the key.
    expect(await allowedOf(limiter, 30, "another")).toBe(9);
    expect(await limiter.check("third")).toMatchObject({ allowed: false, refusedBy: "total" });
    expect(await rejection(limiter.wait(key, { waitMs: 10 }))).toMatchObject({ code: "KIT_LIMITER_TIMEOUT" });
  });

  it("local: has at least one call at a time, and waits for the next", async () => {
    const { proxy, limiter } = await onProxy(
      { onUnavailable: "local", processes: 10 },
      { rate: { count: 50, perMs: 1_000, burst: 2 } },
    );
    proxy.down.hole = true;
    await limiter.consume("warm-up");
    expect(await allowedOf(limiter, 5)).toBe(1);
    const at = performance.now();
    await limiter.wait(key);
    await limiter.wait(key);
    expect(performance.now() - at).toBeGreaterThan(200);
  });

  it("refuses permissions and damaged keys in each mode", async () => {
    const { limiter } = await onProxy({ onUnavailable: "allow" });
    const own = fixture.keys.rate(key);
    await fixture.db.set(own, "damaged", "PX", 60_000);
    expect(await rejection(limiter.consume(key))).toMatchObject({ code: "KIT_LAYOUT" });
    await fixture.db.set(fixture.keys.limits, "1 0 nothing", "PX", 60_000);
    expect(await rejection(limiter.consume("other"))).toMatchObject({ code: "KIT_LAYOUT" });
  });

  it("needs processes for local, and only there", () => {
    expect(() => fixture.make(five, { onUnavailable: "local" })).toThrow(TypeError);
    expect(() => fixture.make(five, { processes: 3 })).toThrow(TypeError);
  });
});

describe("metrics", () => {
  const valuesOf = (limiter: Limiter): Record<string, number> =>
    Object.fromEntries(
      limiter.metrics().map(({ name, value, labels }) => [String(labels?.["outcome"] ?? name), value]),
    );
  const none = { kit_limiter_outage: 0, allowed: 0, refused: 0, rejected: 0 };

  it("show an outage, and the calls that were decided without the server", async () => {
    const { proxy, limiter } = await onProxy(
      { onUnavailable: "local", processes: 1 },
      { rate: { count: 2, perMs: hourMs } },
    );
    await limiter.consume("warm-up");
    expect(valuesOf(limiter)).toEqual(none);
    proxy.down.hole = true;
    expect(await allowedOf(limiter, 5)).toBe(2);
    await limiter.check(key);
    expect(valuesOf(limiter)).toEqual({ kit_limiter_outage: 1, allowed: 2, refused: 3, rejected: 0 });
    proxy.heal();
    await eventually(async () => expect(await limiter.consume("other")).toMatchObject({ decidedBy: "server" }), {
      timeoutMs: 10_000,
    });
    expect(valuesOf(limiter)).toMatchObject({ kit_limiter_outage: 0, rejected: 0 });
    expect(limiter.metrics().every(({ labels }) => labels?.["limiter"] === limiter.name)).toBe(true);
  });

  it("count rejected calls by default", async () => {
    const { proxy, limiter } = await onProxy({});
    await limiter.consume("warm-up");
    proxy.down.hole = true;
    for (let call = 0; call < 2; call++) await rejection(limiter.consume(key));
    expect(valuesOf(limiter)).toEqual({ ...none, kit_limiter_outage: 1, rejected: 2 });
    proxy.heal();
    await eventually(() => limiter.consume("other"), { timeoutMs: 10_000 });
    expect(valuesOf(limiter)).toMatchObject({ kit_limiter_outage: 0 });
  });
});

describe("a lost reply", () => {
  it("counts once, and kit does not send the call again", async () => {
    const { proxy, limiter } = await onProxy({});
    await limiter.consume("warm-up");
    proxy.down.hole = true;
    expect(await rejection(limiter.consume(key))).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME", retryable: false });
    proxy.heal();
    await eventually(async () => expect(await limiter.check(key)).toMatchObject({ remaining: 4 }));
  });

  it("of a connection that breaks counts once as well, on a client that sends again by itself", async () => {
    const { proxy, limiter } = await onProxy({ deadlineMs: 5_000 });
    await limiter.consume("warm-up");
    proxy.down.hole = true;
    const call = rejection(limiter.consume(key));
    const other = fixture.make();
    await eventually(async () => expect(await other.check(key)).toMatchObject({ remaining: 4 }));
    proxy.heal();
    proxy.resetAll();
    expect(await call).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME" });
    expect(await other.check(key)).toMatchObject({ remaining: 4 });
  });
});

describe("a hot key", () => {
  const scriptsRun = (): Promise<number> => scriptCalls(redis.server.nodes);

  it("is refused without a command, until rememberMs has passed", async () => {
    const limiter = fixture.make(five, { rememberMs: 60_000 });
    expect(await allowedOf(limiter, 6)).toBe(5);
    const before = await scriptsRun();
    const refused = await limiter.consume(key);
    expect(refused).toMatchObject({ allowed: false, remaining: 0, refusedBy: "hourly", decidedBy: "memory" });
    expect(refused.retryAfterMs).toBeGreaterThan(hourMs / 10);
    for (let call = 0; call < 50; call++) await limiter.consume(key);
    expect(await scriptsRun()).toBe(before);
    // Other keys, and this object's own changes of the key, are not affected.
    expect(await limiter.consume("other")).toMatchObject({ allowed: true, decidedBy: "server" });
    await limiter.reset(key);
    expect(await limiter.consume(key)).toMatchObject({ allowed: true, decidedBy: "server" });
  });

  it("is asked about again when it can be free", async () => {
    const limiter = fixture.make({ rate: { count: 1, perMs: 300 } }, { rememberMs: 60_000 });
    expect(await allowedOf(limiter, 2)).toBe(1);
    await eventually(async () =>
      expect(await limiter.consume(key)).toMatchObject({ allowed: true, decidedBy: "server" }),
    );
  });

  it("is refused for fewer tokens only by the server", async () => {
    const limiter = fixture.make(five, { rememberMs: 60_000 });
    await limiter.consume(key, { tokens: 3 });
    expect(await limiter.consume(key, { tokens: 4 })).toMatchObject({ allowed: false, decidedBy: "server" });
    expect(await limiter.consume(key, { tokens: 5 })).toMatchObject({ allowed: false, decidedBy: "memory" });
    expect(await limiter.consume(key, { tokens: 2 })).toMatchObject({ allowed: true, decidedBy: "server" });
  });

  it("shares a command with all calls that are made while another is under way", async () => {
    const limiter = fixture.make({ rate: { count: 1_000, perMs: hourMs } });
    await limiter.consume(key);
    const before = await scriptsRun();
    expect(await allowedOf(limiter, 300)).toBe(300);
    expect((await scriptsRun()) - before).toBe(2);
  });
});

describe("the server's clock", () => {
  const shift = (of: string, ms: number): Promise<void> => age(fixture.db, of, -ms);

  it.each(["gcra", "sliding-window", "fixed-window"] as const)(
    "that is set back by an hour frees nothing early by %s, and blocks nothing for longer",
    async (algorithm) => {
      const limiter = fixture.make({ rate: { count: 5, perMs: 60_000, algorithm } });
      expect(await allowedOf(limiter, 6)).toBe(5);
      await shift(fixture.keys.rate(key), hourMs);
      const refused = await limiter.consume(key);
      expect(refused.allowed).toBe(false);
      expect(refused.retryAfterMs).toBeLessThanOrEqual(66_000);
    },
  );

  it.each(["gcra", "sliding-window", "fixed-window"] as const)(
    "frees what is as old as the limit by %s",
    async (algorithm) => {
      const limiter = fixture.make({ rate: { count: 5, perMs: hourMs, algorithm } });
      expect(await allowedOf(limiter, 6)).toBe(5);
      await shift(fixture.keys.rate(key), -1.1 * hourMs);
      expect(await allowedOf(limiter, 6)).toBe(5);
    },
  );

  it("frees the slices of a sliding window one by one, each a tenth later than its calls", async () => {
    const limiter = fixture.make({ rate: { count: 10, perMs: hourMs, algorithm: "sliding-window" } });
    const own = fixture.keys.rate(key);
    expect(await allowedOf(limiter, 4)).toBe(4);
    await shift(own, -0.35 * hourMs);
    expect(await allowedOf(limiter, 20)).toBe(6);
    const { retryAfterMs } = await limiter.consume(key);
    // The first four are free when their slice is as old as the window: 1.1 hours after its start.
    expect(retryAfterMs / hourMs).toBeCloseTo(0.75, 2);
    await shift(own, -0.74 * hourMs);
    expect(await allowedOf(limiter, 20)).toBe(0);
    await shift(own, -0.02 * hourMs);
    expect(await allowedOf(limiter, 20)).toBe(4);
  });
});

it("outlives a server that restarts without its data: keys start with all tokens", async () => {
  const [node] = redis.server.nodes as [RedisNode];
  const limiter = fixture.make();
  expect(await allowedOf(limiter, 6)).toBe(5);
  await node.kill();
  await node.start();
  await eventually(async () => expect(await limiter.consume(key)).toMatchObject({ allowed: true }), {
    timeoutMs: 10_000,
  });
});
