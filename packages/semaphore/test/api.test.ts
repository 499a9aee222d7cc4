import { KitError } from "@kit/core";
import { createRequire } from "node:module";
import { describe, expect, it } from "vitest";
import * as built from "@kit/semaphore";
import * as source from "../src/index.js";

const surface = [
  "PermitLostError",
  "SemaphoreQueueFullError",
  "SemaphoreTimeoutError",
  "SemaphoreWeightError",
  "createSemaphore",
];

describe("@kit/semaphore", () => {
  it("exports these names and no others", () => {
    expect(Object.keys(source).sort()).toEqual(surface);
  });

  it("exports the same when it is built, to import and to require", () => {
    const required = createRequire(import.meta.url)("@kit/semaphore") as object;
    expect(Object.keys(built).sort()).toEqual(surface);
    expect(Object.keys(required).sort()).toEqual(surface);
  });
});

describe("its errors", () => {
  const errors = [
    new source.SemaphoreTimeoutError("renderer", { waitMs: 500 }, { permits: 5, used: 4, msLeft: 1_200 }),
    new source.SemaphoreTimeoutError("renderer", { waitMs: 500 }, { permits: 0, used: 0, msLeft: -1 }),
    new source.SemaphoreTimeoutError(
      "renderer",
      { waitMs: 500, tenant: "ann" },
      { permits: 9, permitsPerTenant: 5, used: 6, msLeft: 1_200 },
      new KitError("KIT_UNAVAILABLE", "gone"),
    ),
    new source.SemaphoreTimeoutError("renderer", { waitMs: 500 }),
    new source.SemaphoreWeightError("renderer", 7, 5),
    new source.SemaphoreQueueFullError("renderer", 3),
    new source.PermitLostError("renderer", "deadline"),
  ];

  it("say what happened, to which semaphore, and the next step", () => {
    expect(errors.map(String)).toEqual([
      'SemaphoreTimeoutError: Semaphore "renderer" granted no permit within 500 ms (4 of 5 permits in use at the last reply)',
      'SemaphoreTimeoutError: Semaphore "renderer" granted no permit within 500 ms (0 of 0 permits in use at the last reply)',
      'SemaphoreTimeoutError: Semaphore "renderer" granted no permit for tenant "ann" within 500 ms (6 of 9 permits in use and at most 5 for each tenant at the last reply; at the last try Redis was unreachable)',
      'SemaphoreTimeoutError: Semaphore "renderer" granted no permit within 500 ms',
      'SemaphoreWeightError: Semaphore "renderer" cannot grant a weight of 7: its maximum is 5. Lower the weight, or raise the limits',
      'SemaphoreQueueFullError: Semaphore "renderer" already has 3 waiters. Try again later, or raise maxWaiters',
      expect.stringMatching(/^PermitLostError: A permit of semaphore "renderer" was lost: \w/),
    ]);
  });

  it("have stable codes, and their facts as fields", () => {
    const timeout = {
      name: "SemaphoreTimeoutError",
      code: "KIT_SEMAPHORE_TIMEOUT",
      retryable: true,
      resource: "renderer",
    };
    const plain = { tenant: undefined, permitsPerTenant: undefined };
    expect(errors.map((error) => Object.fromEntries(Object.entries(error)))).toEqual([
      { ...timeout, ...plain, permits: 5, used: 4, msLeft: 1_200 },
      { ...timeout, ...plain, permits: 0, used: 0, msLeft: undefined },
      { ...timeout, tenant: "ann", permits: 9, permitsPerTenant: 5, used: 6, msLeft: 1_200 },
      { ...timeout, ...plain, permits: undefined, used: undefined, msLeft: undefined },
      {
        name: "SemaphoreWeightError",
        code: "KIT_SEMAPHORE_WEIGHT",
        retryable: false,
        resource: "renderer",
        weight: 7,
        most: 5,
      },
      {
        name: "SemaphoreQueueFullError",
        code: "KIT_SEMAPHORE_QUEUE_FULL",
        retryable: true,
        resource: "renderer",
        maxWaiters: 3,
      },
      { name: "PermitLostError", code: "KIT_PERMIT_LOST", retryable: false, resource: "renderer", reason: "deadline" },
    ]);
  });

  it("show no line breaks or escape codes of a name", () => {
    const wild = "ev\n\u001b[31mil\u0000";
    expect(String(new source.SemaphoreQueueFullError(wild, 3))).not.toMatch(/\p{Cc}/u);
  });
});
