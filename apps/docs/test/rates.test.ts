import { readFileSync } from "node:fs";
import { useRedis } from "@kit/testing";
import { rejection } from "@tooling/vitest/helpers";
import { Ratelimit } from "@upstash/ratelimit";
import Bottleneck from "bottleneck";
import { RateLimiterRedis, RateLimiterUnion } from "rate-limiter-flexible";
import * as vitest from "vitest";
import { describe, expect, it, vi } from "vitest";

const hourMs = 3_600_000;
const redis = useRedis(vitest, { permanentKeys: ["*"] });

const pageOf = (path: string): string => readFileSync(new URL(`../${path}`, import.meta.url), "utf8");

/** The names in code in the first column of the tables under a heading. */
const namedIn = (page: string, heading: string): string[] => {
  const [, section = ""] = new RegExp(`\n## ${heading}\n(.*?)(?=\n## |$)`, "s").exec(pageOf(page)) ?? [];
  const cells = section.split("\n").flatMap((line) => (line.startsWith("| `") ? (line.split("|")[1] ?? "") : []));
  return cells.flatMap((cell) => [...cell.matchAll(/`([A-Za-z]\w*)`/g)].map(([, name = ""]) => name));
};

it("the comparison names the versions that are tested", () => {
  const manifest = pageOf("package.json");
  const { devDependencies } = JSON.parse(manifest) as { devDependencies: Readonly<Record<string, string>> };
  for (const peer of ["rate-limiter-flexible", "@upstash/ratelimit", "bottleneck"])
    expect(pageOf("comparisons/rate-limits.md")).toContain(`npmjs.com/package/${peer})`);
  for (const peer of ["rate-limiter-flexible", "@upstash/ratelimit", "bottleneck"])
    expect(pageOf("comparisons/rate-limits.md")).toMatch(new RegExp(`\\s${devDependencies[peer] ?? "none"}[,\\s]`));
});

describe("rate-limiter-flexible", () => {
  const limiterOf = (points: number, keyPrefix: string): RateLimiterRedis =>
    new RateLimiterRedis({
      storeClient: redis.client,
      keyPrefix: `${redis.prefix}:${keyPrefix}`,
      points,
      duration: 3_600,
    });
  const allowedOf = async (limiter: RateLimiterRedis, count: number): Promise<number> => {
    const calls = Array.from({ length: count }, () => limiter.consume("ann"));
    return (await Promise.allSettled(calls)).filter(({ status }) => status === "fulfilled").length;
  };

  it("forgets all calls at the end of a window, however recent they are", async () => {
    const limiter = limiterOf(5, "window");
    expect(await allowedOf(limiter, 10)).toBe(5);
    const key = limiter.getKey("ann");
    await redis.client.pexpire(key, 1);
    await vi.waitFor(async () => expect(await redis.client.exists(key)).toBe(0));
    expect(await allowedOf(limiter, 10)).toBe(5);
  });

  it("counts refused calls, and those of a union in the limits that have room", async () => {
    const [minute, day] = [limiterOf(1, "minute"), limiterOf(50, "day")];
    const union = new RateLimiterUnion(minute, day);
    await union.consume("ann");
    for (let call = 0; call < 4; call++) await rejection(union.consume("ann"));
    expect(await minute.get("ann")).toMatchObject({ consumedPoints: 5 });
    expect(await day.get("ann")).toMatchObject({ consumedPoints: 5 });
  });

  it("has these options, which the guide explains", () => {
    type Options = Exclude<ConstructorParameters<typeof RateLimiterRedis>[0], undefined>;
    /** The compiler refuses a list that is not that of the installed version. */
    const options: Readonly<Record<keyof Options, 1>> = {
      ...{ storeClient: 1, storeType: 1, keyPrefix: 1, points: 1, duration: 1, blockDuration: 1, blockOnConsumed: 1 },
      ...{ execEvenly: 1, execEvenlyMinDelayMs: 1, inMemoryBlockOnConsumed: 1, inMemoryBlockDuration: 1 },
      ...{ insuranceLimiter: 1, rejectIfRedisNotReady: 1, useRedisPackage: 1, useRedis3AndLowerPackage: 1 },
      ...{ customIncrTtlLuaScript: 1, dbName: 1, tableName: 1, tableCreated: 1 },
    };
    const named = namedIn("migration/rate-limiter-flexible.md", "Option by option");
    expect(Object.keys(options).filter((option) => !named.includes(option))).toEqual([]);
  });
});

describe("bottleneck", () => {
  it("has these options, which the guide explains", () => {
    const prototype = Bottleneck.prototype as unknown as Readonly<Record<string, object>>;
    const tables = ["jobDefaults", "storeDefaults", "localStoreDefaults", "redisStoreDefaults", "instanceDefaults"];
    const options = [...tables, "stopDefaults"].flatMap((table) => Object.keys(prototype[table] ?? {}));
    expect(options.length).toBeGreaterThan(25);
    const named = namedIn("migration/bottleneck.md", "Option by option");
    expect([...new Set(options)].filter((option) => !named.includes(option))).toEqual([]);
  });
});

describe("@upstash/ratelimit", () => {
  type Client = ConstructorParameters<typeof Ratelimit>[0]["redis"];
  type Eval = (script: string, keys: readonly string[], args: readonly unknown[]) => Promise<unknown>;
  const clientOf = (run: Eval): Client => {
    const evalsha = (): Promise<never> => Promise.reject(new Error("NOSCRIPT"));
    return { eval: run, evalsha } as unknown as Client;
  };
  const asSent: Eval = (script, keys, args) => redis.client.eval(script, keys.length, ...keys, ...args.map(String));
  /** Without the line that only Upstash's servers accept. */
  const changed: Eval = (script, keys, args) => asSent(script.replace(/^#!.*\n/, ""), keys, args);
  const limiterOf = (
    limiter: ConstructorParameters<typeof Ratelimit>[0]["limiter"],
    client = clientOf(changed),
    timeout = 60_000,
  ): Ratelimit => new Ratelimit({ redis: client, limiter, timeout, ephemeralCache: false, prefix: redis.prefix });

  it("fails with a client of ioredis, and its scripts fail on Redis", async () => {
    const three = Ratelimit.fixedWindow(3, "10 s");
    const direct = await rejection(limiterOf(three, redis.client as unknown as Client).limit("ann"));
    expect(String(direct)).toContain("not an integer");
    const script = await rejection(limiterOf(three, clientOf(asSent)).limit("ann"));
    expect(String(script)).toContain("Unexpected flag in script shebang");
  });

  it("allows up to twice the limit in a sliding window of an hour", async () => {
    const limiter = limiterOf(Ratelimit.slidingWindow(10, "1 h"));
    const start = Math.floor(Date.now() / hourMs) * hourMs;
    const now = vi.spyOn(Date, "now");
    try {
      let allowed = 0;
      for (const at of [hourMs - 1_000, 1.5 * hourMs, 2 * hourMs - 1_000]) {
        now.mockReturnValue(start + at);
        for (let call = 0; call < 20; call++) if ((await limiter.limit("ann")).success) allowed++;
      }
      expect(allowed).toBe(20);
    } finally {
      now.mockRestore();
    }
  });

  it("counts refused calls in a fixed window", async () => {
    const limiter = limiterOf(Ratelimit.fixedWindow(1, "10 d"));
    for (let call = 0; call < 4; call++) await limiter.limit("ann");
    const [key = ""] = await redis.keys();
    expect(await redis.client.get(key)).toBe("4");
  });

  it("counts by the client's clock: a client whose clock is an hour off has its own limit", async () => {
    const limiter = limiterOf(Ratelimit.fixedWindow(1, "10 m"));
    const allowed = [await limiter.limit("ann"), await limiter.limit("ann")];
    const [real, now] = [Date.now(), vi.spyOn(Date, "now")];
    try {
      now.mockReturnValue(real + hourMs);
      allowed.push(await limiter.limit("ann"));
    } finally {
      now.mockRestore();
    }
    expect(allowed.map(({ success }) => success)).toEqual([true, false, true]);
  });

  it("allows a call that Redis does not answer, after 5 s by default", async () => {
    const silent = clientOf(() => new Promise(() => undefined));
    const reply = await limiterOf(Ratelimit.fixedWindow(1, "10 m"), silent, 20).limit("ann");
    expect(reply).toMatchObject({ success: true, reason: "timeout" });
    const { timeout } = new Ratelimit({ redis: silent, limiter: Ratelimit.fixedWindow(1, "1 m") }) as unknown as {
      readonly timeout: number;
    };
    expect(timeout).toBe(5_000);
  });
});
