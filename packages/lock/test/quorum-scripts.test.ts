import { contract, useRedis } from "@kit/testing";
import { attach } from "@kit/core/toolkit";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { quorumKey } from "../src/keys.js";
import * as scripts from "../src/quorum/scripts/index.js";

const redis = useRedis(vitest);
const key = (): string => quorumKey(redis.prefix)("chest");
const context = () => {
  const attached = attach(redis.client, { prefix: redis.prefix });
  redis.defer(() => attached.detach());
  return attached;
};
const serverNow = async (): Promise<number> => {
  const [seconds, micros] = await redis.client.time();
  return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
};
const acquire = (owner: string, terms: Partial<Parameters<typeof scripts.acquire.run>[2]["terms"]> = {}) =>
  scripts.acquire.run(
    context(),
    { lease: key() },
    { owner, terms: { leaseMs: 10_000, notAfter: 0, guardMs: 0, isAsked: 0, ...terms } },
  );
const renew = (owner: string, terms: Partial<Parameters<typeof scripts.renew.run>[2]["terms"]> = {}) =>
  scripts.renew.run(
    context(),
    { lease: key() },
    { owner, terms: { termMs: 20_000, refillUntil: 0, isAsked: 0, ...terms } },
  );
const release = (owner: string) => scripts.release.run(context(), { lease: key() }, { owner });

describe("the scripts of a quorum lock", () => {
  it("have the form that all scripts have", async () => {
    expect(await contract(scripts, redis.server)).toEqual([]);
  });

  it("acquire: take a free lease, once for a token, and refuse another", async () => {
    expect(await acquire("a|me")).toMatchObject({ state: "granted", server: undefined });
    expect(await redis.client.get(key())).toBe("a|me");
    expect(await acquire("a|me", { leaseMs: 99_000 })).toMatchObject({ state: "repeated" });
    expect(await redis.client.pttl(key())).toBeLessThanOrEqual(10_000);
    expect(await acquire("b|you")).toMatchObject({ state: "held", by: { token: "a", holder: "me" } });
    await redis.client.persist(key());
    expect(await acquire("b|you")).toMatchObject({ state: "held", by: { msLeft: Infinity } });
    await redis.client.del(key());
  });

  it("acquire: refuse a request that comes too late", async () => {
    const now = await serverNow();
    expect(await acquire("a|me", { notAfter: now - 1 })).toMatchObject({ state: "late" });
    expect(await redis.client.exists(key())).toBe(0);
    expect(await acquire("a|me", { notAfter: now + 60_000 })).toMatchObject({ state: "granted" });
  });

  it("acquire: abstain while the server is young, if they are asked", async () => {
    const young = await acquire("a|me", { guardMs: 80_000_000, isAsked: 1 });
    const runId = /run_id:(\w+)/.exec(await redis.client.info("server"))?.[1];
    expect(young).toMatchObject({ state: "abstained", server: { runId } });
    expect(await redis.client.exists(key())).toBe(0);
    expect(await acquire("a|me", { guardMs: 80_000_000, isAsked: 0 })).toMatchObject({ state: "granted" });
    expect(await acquire("b|you", { guardMs: 80_000_000, isAsked: 1 })).toMatchObject({ state: "held" });
  });

  it("acquire: identify the server with a grant, if they are asked", async () => {
    const granted = await acquire("a|me", { isAsked: 1 });
    expect(granted).toMatchObject({ state: "granted", server: { runId: expect.stringMatching(/^\w{40}$/) as string } });
    expect(await acquire("a|me", { isAsked: 1 })).toMatchObject({ state: "repeated", server: granted.server });
  });

  it("acquire: count one second less than the server's uptime", async () => {
    const uptime = async (): Promise<number> =>
      Number(/uptime_in_seconds:(\d+)/.exec(await redis.client.info("server"))?.[1]);
    const before = await uptime();
    const { server } = await acquire("a|me", { isAsked: 1 });
    expect(server?.ageMs).toBeGreaterThanOrEqual(Math.max(0, before - 1) * 1_000);
    expect(server?.ageMs).toBeLessThanOrEqual(Math.max(0, (await uptime()) - 1) * 1_000);
  });

  it("renew: extend, and never shorten", async () => {
    await acquire("a|me");
    expect(await renew("a|me")).toMatchObject({ state: "extended" });
    expect(await redis.client.pttl(key())).toBeGreaterThan(10_000);
    expect(await renew("a|me", { termMs: 100 })).toMatchObject({ state: "extended" });
    expect(await redis.client.pttl(key())).toBeGreaterThan(10_000);
    expect(await renew("b|you")).toMatchObject({ state: "taken", by: { holder: "me" } });
  });

  it("renew: write a lease again only for a holder that is valid", async () => {
    const now = await serverNow();
    expect(await renew("a|me")).toMatchObject({ state: "gone" });
    expect(await renew("a|me", { refillUntil: now - 1 })).toMatchObject({ state: "gone" });
    expect(await renew("a|me", { termMs: 0, refillUntil: now + 60_000 })).toMatchObject({ state: "gone" });
    expect(await redis.client.exists(key())).toBe(0);
    expect(await renew("a|me", { refillUntil: now + 60_000 })).toMatchObject({ state: "refilled" });
    expect(await redis.client.pttl(key())).toBeGreaterThan(10_000);
    expect(await renew("a|me", { termMs: 0 })).toMatchObject({ state: "extended" });
  });

  it("release: remove only the caller's", async () => {
    await acquire("a|me");
    expect(await release("b|you")).toBe(false);
    expect(await redis.client.get(key())).toBe("a|me");
    expect(await release("a|me")).toBe(true);
    expect(await release("a|me")).toBe(false);
  });

  it("inspect: show the holder", async () => {
    expect(await scripts.inspect.run(context(), { lease: key() }, {})).toBeNull();
    await acquire("a|me");
    const stored = await scripts.inspect.run(context(), { lease: key() }, {});
    expect(stored).toMatchObject({ token: "a", holder: "me" });
    expect(stored?.msLeft).toBeGreaterThan(0);
  });

  it("refuse a key of another type, and change nothing", async () => {
    await redis.client.rpush(key(), "x");
    for (const run of [
      () => acquire("a|me"),
      () => renew("a|me"),
      () => release("a|me"),
      () => scripts.inspect.run(context(), { lease: key() }, {}),
    ])
      await expect(run()).rejects.toMatchObject({ code: "KIT_KEY_TYPE" });
    expect(await redis.client.llen(key())).toBe(1);
    await redis.client.del(key());
  });
});
