import { made } from "../../lab/lies.mjs";

export const lies = {
  /** Repeats a call whose reply was lost, as if it was idempotent. */
  "counts-twice": ({ createLimiter }) => ({
    createLimiter: made(createLimiter, (limiter) => ({
      consume: (key, options) =>
        limiter.consume(key, options).catch((error) => {
          if (error.code !== "KIT_UNKNOWN_OUTCOME") throw error;
          return limiter.consume(key, options);
        }),
    })),
  }),
};
