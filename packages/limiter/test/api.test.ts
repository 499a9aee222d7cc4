import { createRequire } from "node:module";
import { describe, expect, it } from "vitest";
import * as built from "@kit/limiter";
import * as source from "../src/index.js";

const surface = ["LimiterBusyError", "LimiterTimeoutError", "LimiterTokensError", "LimiterWaitError", "createLimiter"];

describe("@kit/limiter", () => {
  it("exports these names and no others", () => {
    expect(Object.keys(source).sort()).toEqual(surface);
  });

  it("exports the same when it is built, to import and to require", () => {
    const required = createRequire(import.meta.url)("@kit/limiter") as object;
    expect(Object.keys(built).sort()).toEqual(surface);
    expect(Object.keys(required).sort()).toEqual(surface);
  });
});

describe("its errors", () => {
  const errors = [
    new source.LimiterTimeoutError("api", 500, 1_200, "perSecond"),
    new source.LimiterTokensError("api", 7),
    new source.LimiterWaitError("api"),
    new source.LimiterBusyError("ev\n\u001b[31mil\u0000"),
  ];

  it("say what happened, to which limiter, and the next step", () => {
    expect(errors.map(String)).toEqual([
      'LimiterTimeoutError: Limiter "api" has no room within 500 ms: the next is free in 1200 ms',
      'LimiterTokensError: Limiter "api" can never allow 7 tokens in one call. Lower `tokens`, or raise the limits',
      'LimiterWaitError: Limiter "api" cannot make a call wait. Use the algorithm "gcra" for all limits, and share all or none of them',
      expect.stringMatching(/^LimiterBusyError: Limiter "ev\\n.*" did not send the call: \P{Cc}+$/u),
    ]);
  });

  it("have stable codes, and their facts as fields", () => {
    expect(errors.map((error) => Object.fromEntries(Object.entries(error)))).toEqual([
      {
        name: "LimiterTimeoutError",
        code: "KIT_LIMITER_TIMEOUT",
        retryable: true,
        resource: "api",
        retryAfterMs: 1_200,
        refusedBy: "perSecond",
      },
      { name: "LimiterTokensError", code: "KIT_LIMITER_TOKENS", retryable: false, resource: "api", tokens: 7 },
      { name: "LimiterWaitError", code: "KIT_LIMITER_WAIT", retryable: false, resource: "api" },
      { name: "LimiterBusyError", code: "KIT_LIMITER_BUSY", retryable: true, resource: expect.any(String) as string },
    ]);
  });
});
