import { createLimiter } from "@kit/limiter";

/** A store for express-rate-limit 7 and 8, and for hono-rate-limiter. `limit` is the limit of the middleware. */
export const storeOf = (limiter, limit) => {
  let isUndone = false;
  return {
    init: ({ skipFailedRequests, skipSuccessfulRequests }) => {
      isUndone = skipFailedRequests || skipSuccessfulRequests;
    },
    increment: async (key) => {
      const decision = await limiter.consume(key);
      // The middleware also takes refused requests back, so they must count.
      if (!decision.allowed && isUndone) await limiter.penalize(key);
      const { hits, leftMs } = hitsOf(decision, limit);
      return { totalHits: hits, resetTime: new Date(Date.now() + leftMs) };
    },
    decrement: async (key) => void (await limiter.reward(key)),
    resetKey: (key) => limiter.reset(key),
  };
};

/** A decision as middleware counts it: one hit too many is a refusal. */
export const hitsOf = ({ allowed, remaining, resetMs, retryAfterMs }, limit) =>
  allowed ? { hits: limit - remaining, leftMs: resetMs } : { hits: limit + 1, leftMs: retryAfterMs };

/** Limiters for middleware that names the limit with each request: one limiter for each limit and period. */
export const limitersOf = (redis, name) => {
  const limiters = new Map();
  return {
    get: (count, perMs) => {
      const id = `${name}.${count}.${perMs}`;
      const limits = { requests: { count, perMs, algorithm: "sliding-window" } };
      if (!limiters.has(id)) limiters.set(id, createLimiter(redis, id, { limits }));
      return limiters.get(id);
    },
    close: () => Promise.all([...limiters.values()].map((limiter) => limiter.close())),
  };
};
