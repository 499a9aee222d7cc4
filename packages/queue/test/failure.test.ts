import { describe, expect, it } from "vitest";
import { type StoredError, storedError } from "../src/job/failure.js";

const chain = (...messages: string[]): Error => {
  let error: Error | undefined;
  for (const message of messages.toReversed()) error = new Error(message, error && { cause: error });
  return error!;
};
const messagesOf = (error: StoredError | undefined): string[] =>
  error ? [error.message, ...messagesOf(error.cause)] : [];
const sizeOf = (error: StoredError): number => JSON.stringify(error).length;

describe("a stored error", () => {
  it("has its causes, four deep, and the first five members of each", () => {
    const stored = storedError(chain("no cart", "no price", "no answer", "fetch failed", "refused", "no route"));
    expect(messagesOf(stored)).toEqual(["no cart", "no price", "no answer", "fetch failed", "refused"]);
    expect(stored.cause?.stack).toMatch(/^Error: no price\n/);
    const members = Array.from({ length: 7 }, (_, n) => chain(`address ${String(n)}`, "unreachable"));
    const failed = storedError(new Error("fetch failed", { cause: new AggregateError(members, "all") })).cause!;
    expect(failed.name).toBe("AggregateError");
    expect(failed.errors!.map(messagesOf)).toEqual([0, 1, 2, 3, 4].map((n) => [`address ${String(n)}`, "unreachable"]));
  });

  it("ends at cycles, at fields that cannot be read, and before it grows without bound", () => {
    const cyclic = new Error("around");
    cyclic.cause = cyclic;
    expect(messagesOf(storedError(cyclic))).toHaveLength(5);
    const broken = Object.defineProperty(new Error("broken"), "cause", {
      get: () => {
        throw new Error("no");
      },
    });
    expect(storedError(chain("outer")).cause).toBeUndefined();
    expect(storedError(new Error("outer", { cause: broken })).cause).toMatchObject({
      message: "The error cannot be read",
    });
    const wide = (depth: number): Error =>
      depth === 0
        ? new Error("x".repeat(9_000))
        : new AggregateError(
            Array.from({ length: 9 }, () => wide(depth - 1)),
            "y".repeat(9_000),
          );
    expect(sizeOf(storedError(wide(5)))).toBeLessThan(64 * 1_024);
  });
});
