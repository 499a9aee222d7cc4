import { createRequire } from "node:module";
import * as core from "@kit/core";
import * as lock from "@kit/lock";
import { describe, expect, it } from "vitest";

const require = createRequire(import.meta.url);
const copies = { core: require("@kit/core") as typeof core, lock: require("@kit/lock") as typeof lock };

describe("errors of the CommonJS and the ESM copy", () => {
  const lost = [
    new copies.lock.LockLostError("chest", "expired", "1"),
    new lock.LockLostError("chest", "expired", "1"),
  ];

  it("are instances of each other's classes", () => {
    expect(copies.lock.LockLostError).not.toBe(lock.LockLostError);
    for (const error of lost)
      for (const { LockLostError } of [copies.lock, lock]) expect(error instanceof LockLostError).toBe(true);
    for (const error of lost)
      for (const { KitError } of [copies.core, core]) expect(error instanceof KitError).toBe(true);
    const closed = new copies.core.KitClosedError("The lock");
    expect(closed instanceof core.KitClosedError).toBe(true);
  });

  it("are of no other class", () => {
    for (const error of lost) {
      expect(error instanceof lock.LockTimeoutError).toBe(false);
      expect(error instanceof core.KitClosedError).toBe(false);
      expect(error instanceof copies.core.KitClosedError).toBe(false);
    }
    class Own extends core.KitError {}
    expect(lost.some((error) => error instanceof Own)).toBe(false);
    expect(new Own("KIT_SERVER", "mine") instanceof core.KitError).toBe(true);
    for (const other of [undefined, null, "text", {}, new Error("plain")])
      expect(other instanceof core.KitError).toBe(false);
  });
});
