import { createRequire } from "node:module";
import { describe, expect, it } from "vitest";
import * as built from "@kit/lock";
import * as source from "../src/index.js";

const surface = [
  "LockLostError",
  "LockNotDurableError",
  "LockQueueFullError",
  "LockSelfDeadlockError",
  "LockTimeoutError",
  "createLock",
];

describe("@kit/lock", () => {
  it("exports these names and no others", () => {
    expect(Object.keys(source).sort()).toEqual(surface);
  });

  it("exports the same when it is built, to import and to require", () => {
    const required = createRequire(import.meta.url)("@kit/lock") as object;
    expect(Object.keys(built).sort()).toEqual(surface);
    expect(Object.keys(required).sort()).toEqual(surface);
  });
});

describe("its errors", () => {
  const errors = [
    new source.LockTimeoutError("chest", 500, "somebody", 1_200),
    new source.LockTimeoutError("chest", 500, undefined, undefined),
    new source.LockLostError("chest", "taken", "7"),
    new source.LockQueueFullError("chest", 3),
    new source.LockNotDurableError("chest", "0 of 1 replicas acknowledged"),
    new source.LockSelfDeadlockError("chest"),
  ];

  it("say what happened, to which lock, and the next step", () => {
    expect(errors.map(String)).toEqual([
      'LockTimeoutError: Lock "chest" was not granted within 500 ms (held by "somebody", 1200 ms left at the last reply)',
      'LockTimeoutError: Lock "chest" was not granted within 500 ms',
      'LockLostError: Lock "chest" was lost: another holder has it',
      'LockQueueFullError: Lock "chest" already has 3 waiters. Try again later, or raise maxWaiters',
      'LockNotDurableError: Lock "chest" was granted, but not durably: 0 of 1 replicas acknowledged',
      `LockSelfDeadlockError: Lock "chest" is already held by this section, which would wait for itself. Use the section's lease, or call using()`,
    ]);
  });

  it("have stable codes, and their facts as fields", () => {
    expect(errors.map((error) => Object.fromEntries(Object.entries(error)))).toEqual([
      {
        name: "LockTimeoutError",
        code: "KIT_LOCK_TIMEOUT",
        retryable: true,
        resource: "chest",
        holder: "somebody",
        msLeft: 1_200,
      },
      {
        name: "LockTimeoutError",
        code: "KIT_LOCK_TIMEOUT",
        retryable: true,
        resource: "chest",
        holder: undefined,
        msLeft: undefined,
      },
      {
        name: "LockLostError",
        code: "KIT_LOCK_LOST",
        retryable: false,
        resource: "chest",
        reason: "taken",
        fencingToken: "7",
      },
      { name: "LockQueueFullError", code: "KIT_LOCK_QUEUE_FULL", retryable: true, resource: "chest", maxWaiters: 3 },
      { name: "LockNotDurableError", code: "KIT_LOCK_NOT_DURABLE", retryable: true, resource: "chest" },
      { name: "LockSelfDeadlockError", code: "KIT_LOCK_SELF_DEADLOCK", retryable: false, resource: "chest" },
    ]);
  });
});
