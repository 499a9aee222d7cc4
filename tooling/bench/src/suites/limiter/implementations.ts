// The libraries, each behind the same small interface and with the settings under which it is measured.
import { createHash } from "node:crypto";
import { pinned } from "../../pins.js";
import { catalogOf } from "../../implementation.js";
import { connected } from "../../clients.js";

/** The limit of a case: in each, a key may make `count` calls per `perMs`. */
export interface LimiterSetup {
  readonly count: number;
  readonly perMs: number;
}

/** A library in this process. */
export interface Limiting {
  /** Whether the call may go on. */
  readonly consume: (key: string) => Promise<boolean>;
  /** Resolves when it is the call's turn. */
  readonly wait?: (key: string) => Promise<unknown>;
}

const countOrExpire = `
local count = redis.call("INCR", KEYS[1])
if count == 1 then redis.call("PEXPIRE", KEYS[1], ARGV[1]) end
return count`;

/** The shortest script that keeps kit's promises: replaceable limits, the server's clock even if it is set back, and an expiry. */
const evenly = `
local replaced, time, state = redis.call("GET", KEYS[1]), redis.call("TIME"), redis.call("GET", KEYS[2])
local now = time[1] * 1000000 + time[2]
local last, used = now, 0
if state then last, used = string.match(state, "^(%d+) (%d+)$") end
local level = math.max(0, used - math.max(0, now - last) * ARGV[1]) + 1000000
if replaced or level > tonumber(ARGV[2]) then return 0 end
redis.call("SET", KEYS[2], string.format("%.0f %.0f", now, math.ceil(level)), "PX", math.ceil(level / ARGV[1] / 1000) + 1)
return 1`;

export const implementations = catalogOf<Limiting, LimiterSetup>([
  {
    id: "kit",
    settings: "gcra; defaults but deadlineMs: 20000, and burst: 1 where calls wait",
    open: async (url, { count, perMs }, connect) => {
      const { createLimiter } = await import("@kit/limiter");
      const redis = await connect(url);
      const limit = { count, perMs };
      const limiter = createLimiter(redis, "api", { limits: { limit }, deadlineMs: 20_000 });
      const even = createLimiter(redis, "even", { limits: { limit: { ...limit, burst: 1 } }, deadlineMs: 20_000 });
      return {
        consume: async (key) => (await limiter.consume(key)).allowed,
        wait: (key) => even.wait(key),
      };
    },
  },
  {
    id: "rate-limiter-flexible",
    peer: pinned("rate-limiter-flexible"),
    isDefaults: true,
    settings: "RateLimiterRedis, a fixed window; where calls wait, a RateLimiterQueue on it",
    open: async (url, { count, perMs }) => {
      const { RateLimiterQueue, RateLimiterRedis } = await import("rate-limiter-flexible");
      const storeClient = await connected(url);
      const limiter = new RateLimiterRedis({ storeClient, points: count, duration: Math.ceil(perMs / 1_000) });
      const queue = new RateLimiterQueue(limiter);
      return {
        // It rejects with an answer where the call is refused, and with an error where it failed.
        consume: (key) =>
          limiter.consume(key).then(
            () => true,
            (refusal: unknown) => {
              if (refusal instanceof Error) throw refusal;
              return false;
            },
          ),
        wait: (key) => queue.removeTokens(1, key),
      };
    },
  },
  {
    id: "@upstash/ratelimit",
    peer: pinned("@upstash/ratelimit"),
    isDefaults: true,
    settings: "slidingWindow over ioredis, without the flag of its scripts that only Upstash's servers accept",
    open: async (url, { count, perMs }) => {
      const { Ratelimit } = await import("@upstash/ratelimit");
      const client = await connected(url);
      const shas = new Map<string, string>();
      const redis = {
        // Its own hash is of the script with the flag.
        evalsha: async (sha: string, keys: string[], args: string[]) => {
          const own = shas.get(sha);
          if (own === undefined) throw new Error("NOSCRIPT");
          return await client.evalsha(own, keys.length, ...keys, ...args);
        },
        eval: async (script: string, keys: string[], args: string[]) => {
          const own = script.replace(/^#!.*\n/, "");
          shas.set(createHash("sha1").update(script).digest("hex"), String(await client.script("LOAD", own)));
          return await client.eval(own, keys.length, ...keys, ...args);
        },
      };
      const limiter = Ratelimit.slidingWindow(count, `${perMs} ms`);
      const ratelimit = new Ratelimit({ redis: redis as never, limiter });
      return {
        consume: async (key) => (await ratelimit.limit(key)).success,
        wait: (key) => ratelimit.blockUntilReady(key, 60_000),
      };
    },
  },
  {
    id: "classic",
    settings: "INCR, and after the first EXPIRE; a crash between the two leaves a key that never expires",
    open: async (url, { count, perMs }) => {
      const redis = await connected(url);
      return {
        consume: async (key) => {
          const used = await redis.incr(key);
          if (used === 1) await redis.pexpire(key, perMs);
          return used <= count;
        },
      };
    },
  },
  {
    id: "raw gcra",
    peer: "floor",
    settings: "EVALSHA that reads replaced limits, the clock and a level, and writes the level with its expiry",
    open: async (url, { count, perMs }) => {
      const redis = await connected(url);
      const sha = String(await redis.script("LOAD", evenly));
      const terms = [count / perMs / 1_000, count].map((tokens) => tokens * 1_000_000);
      return {
        consume: async (key) => Number(await redis.evalsha(sha, 2, "{api}:limits", `{api}:${key}`, ...terms)) === 1,
      };
    },
  },
  {
    id: "raw count",
    settings: "EVALSHA that counts, and sets an expiry at the first",
    open: async (url, { count, perMs }) => {
      const redis = await connected(url);
      const sha = String(await redis.script("LOAD", countOrExpire));
      return { consume: async (key) => Number(await redis.evalsha(sha, 1, key, perMs)) <= count };
    },
  },
]);
