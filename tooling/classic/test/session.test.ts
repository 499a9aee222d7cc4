import type { Redis } from "ioredis";
import { eventually } from "@kit/testing";
import { beforeEach, describe, expect, it } from "vitest";
import {
  checkToken,
  classicKeys,
  type ClassicKeys,
  cleanSessions,
  cleanSessionsOnce,
  updateToken,
  updateTokenPipeline,
  VIEWED_KEPT,
} from "../src/index.js";
import { useClassic } from "./harness.js";

const classic = useClassic();
let redis: Redis;
let keys: ClassicKeys;
let prefix: string;

beforeEach(async () => {
  redis = await classic.connect();
  prefix = classic.prefix;
  keys = classicKeys(prefix);
});

describe.each([
  ["plain commands", updateToken, 5],
  ["pipeline", updateTokenPipeline, 1],
])("the classic login token (%s)", (_name, update, roundTrips) => {
  it("remembers user, time, viewed item and view count", async () => {
    const before = Date.now() / 1000;
    await update(redis, "token", "ada", "lamp", prefix);
    await update(redis, "token", "ada", "lamp", prefix);
    expect(await checkToken(redis, "token", prefix)).toBe("ada");
    expect(await checkToken(redis, "other", prefix)).toBeNull();
    expect(Number(await redis.zscore(keys.recent, "token"))).toBeGreaterThanOrEqual(before);
    expect(await redis.zrange(keys.viewed("token"), "0", "-1")).toEqual(["lamp"]);
    expect(await redis.zscore(keys.views, "lamp")).toBe("-2");
  });

  it("counts no view when no item was viewed", async () => {
    await update(redis, "token", "ada", undefined, prefix);
    expect(await checkToken(redis, "token", prefix)).toBe("ada");
    expect(await redis.exists(keys.viewed("token"), keys.views)).toBe(0);
  });

  it("keeps the newest 25 viewed items", async () => {
    // Equal times are ordered by name, so names in order keep the order even within one millisecond.
    for (let index = 0; index < 30; index += 1) {
      await update(redis, "token", "ada", `item-${String(index).padStart(2, "0")}`, prefix);
    }
    const viewed = await redis.zrange(keys.viewed("token"), "0", "-1");
    expect(viewed).toHaveLength(VIEWED_KEPT);
    expect([viewed[0], viewed.at(-1)]).toEqual(["item-05", "item-29"]);
  });

  it(`costs round trips: ${roundTrips}`, async () => {
    const { redis: counted, proxy } = await classic.connectThroughProxy();
    await update(counted, "token", "ada", "lamp", prefix);
    expect(proxy.requests).toBe(roundTrips);
  });

  it("`login:`, `recent:` and the view counts never shrink; one key per token for ever", async () => {
    for (let index = 0; index < 60; index += 1) {
      await update(redis, `token-${index}`, `user-${index}`, `item-${index}`, prefix);
    }
    expect(await cleanSessionsOnce(redis, undefined, prefix)).toBe(0);
    expect(await sizes()).toEqual({ login: 60, recent: 60, views: 60, viewed: 60 });
    const all = await redis.keys(`${prefix}*`);
    const lives = new Set(await Promise.all(all.map((key) => redis.pttl(key))));
    expect([all.length, ...lives]).toEqual([63, -1]);
  });
});

describe("the classic session clean-up", () => {
  beforeEach(async () => {
    for (let index = 0; index < 30; index += 1) {
      await redis.zadd(keys.recent, index, `token-${index}`);
      await redis.hset(keys.login, `token-${index}`, "ada");
      await redis.zadd(keys.viewed(`token-${index}`), 1, "lamp");
      await redis.zincrby(keys.views, -1, `item-${index}`);
    }
  });

  it("removes the oldest sessions above the limit", async () => {
    expect(await cleanSessionsOnce(redis, 10, prefix)).toBe(20);
    expect(await sizes()).toMatchObject({ login: 10, recent: 10, viewed: 10 });
    expect(await redis.zrange(keys.recent, "0", "0")).toEqual(["token-20"]);
  });

  it("runs until it is stopped", async () => {
    const stop = new AbortController();
    const loop = cleanSessions(redis, { signal: stop.signal, keep: 0, prefix });
    await eventually(async () => expect(await redis.exists(keys.recent, keys.login)).toBe(0));
    stop.abort();
    expect(await loop).toBeUndefined();
  });

  it("the global view counts stay even when every session is gone", async () => {
    expect(await cleanSessionsOnce(redis, 0, prefix)).toBe(30);
    expect(await sizes()).toEqual({ login: 0, recent: 0, viewed: 0, views: 30 });
  });
});

async function sizes(): Promise<{ login: number; recent: number; views: number; viewed: number }> {
  const viewed = (await redis.keys(`${prefix}viewed:*`)).filter((key) => key !== keys.views);
  return {
    login: await redis.hlen(keys.login),
    recent: await redis.zcard(keys.recent),
    views: await redis.zcard(keys.views),
    viewed: viewed.length,
  };
}
