import { getEventListeners } from "node:events";
import { afterEach, describe, expect, it, vi } from "vitest";
import { KitError, KitUnknownOutcomeError } from "../src/kernel/base/errors.js";
import { backoffMs, pause, retry } from "../src/kernel/base/retry.js";

afterEach(() => {
  vi.useRealTimers();
});

const busy = (): KitError => new KitError("KIT_BUSY", "busy", { retryable: true });

describe("backoffMs", () => {
  it("stays between nothing and the cap through two thousand tries, and is never NaN", () => {
    for (let attempt = 2; attempt < 2_002; attempt++) {
      const wait = backoffMs(attempt, 5, 200);
      expect(wait).toBeGreaterThanOrEqual(0);
      expect(wait).toBeLessThanOrEqual(200);
    }
  });

  it("doubles its bound with each try", () => {
    const random = vi.spyOn(Math, "random").mockReturnValue(0.999_999);
    expect([2, 3, 4, 5, 9].map((attempt) => Math.round(backoffMs(attempt, 5, 200)))).toEqual([5, 10, 20, 40, 200]);
    random.mockRestore();
  });
});

describe("pause", () => {
  it("ends with the signal's reason, and leaves neither timer nor listener", async () => {
    const controller = new AbortController();
    const before = process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length;
    const waiting = pause(60_000, controller.signal);
    controller.abort(new Error("enough"));
    await expect(waiting).rejects.toThrow("enough");
    expect(getEventListeners(controller.signal, "abort")).toHaveLength(0);
    expect(process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length).toBe(before);
  });

  it("takes its listener off when the time is over", async () => {
    const { signal } = new AbortController();
    await pause(1, signal);
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
  });
});

describe("retry", () => {
  it("resolves with the first success, and passes each try its number", async () => {
    const numbers: number[] = [];
    const value = await retry((number) => {
      numbers.push(number);
      return number < 4 ? Promise.reject(busy()) : Promise.resolve("done");
    });
    expect(value).toBe("done");
    expect(numbers).toEqual([1, 2, 3, 4]);
  });

  it("refuses an option that does not exist before the first try", async () => {
    let tries = 0;
    const misspelt = { waitMS: 10 } as object;
    await expect(retry(() => Promise.resolve(++tries), misspelt)).rejects.toThrow(/"waitMS".*waitMs, baseMs/);
    expect(tries).toBe(0);
  });

  it("tries again only what calls itself retryable", async () => {
    for (const error of [
      new Error("x"),
      new KitError("KIT_NAME", "x"),
      new KitUnknownOutcomeError("x", undefined),
      "text",
      null,
    ]) {
      let tries = 0;
      const outcome = retry(() => {
        tries++;
        return Promise.reject(error as Error);
      });
      await expect(outcome).rejects.toBe(error);
      expect(tries).toBe(1);
    }
  });

  it("asks the caller's function instead, if there is one", async () => {
    let tries = 0;
    const outcome = retry(
      () => Promise.reject(new Error(String(++tries))),
      {},
      (error) => (error as Error).message !== "3",
    );
    await expect(outcome).rejects.toThrow("3");
  });

  it("starts no try after waitMs, and rejects with the last error", async () => {
    vi.useFakeTimers();
    const startedAt = performance.now();
    const begun: number[] = [];
    const outcome = retry(
      () => {
        begun.push(performance.now() - startedAt);
        return Promise.reject(busy());
      },
      { waitMs: 1_000 },
    );
    const settled = outcome.catch((error: unknown) => error);
    await vi.advanceTimersByTimeAsync(1_100);
    expect(await settled).toMatchObject({ code: "KIT_BUSY" });
    expect(Math.max(...begun)).toBeLessThanOrEqual(1_000);
    expect(begun.length).toBeGreaterThan(5);
    expect(begun.length).toBeLessThan(100);
  });

  it("tries once with waitMs 0", async () => {
    let tries = 0;
    const outcome = retry(
      () => {
        tries++;
        return Promise.reject(busy());
      },
      { waitMs: 0 },
    );
    await expect(outcome).rejects.toMatchObject({ code: "KIT_BUSY" });
    expect(tries).toBe(1);
  });

  it("rejects with the signal's reason: before the first try, and while it waits", async () => {
    let tries = 0;
    const attempt = (): Promise<never> => {
      tries++;
      return Promise.reject(busy());
    };
    await expect(retry(attempt, { signal: AbortSignal.abort(new Error("early")) })).rejects.toThrow("early");
    expect(tries).toBe(0);
    const controller = new AbortController();
    const waiting = retry(attempt, { baseMs: 60_000, capMs: 60_000, waitMs: 10_000_000, signal: controller.signal });
    await new Promise(setImmediate);
    controller.abort(new Error("late"));
    await expect(waiting).rejects.toThrow("late");
    expect(tries).toBe(1);
  });

  it.each([
    ["waitMs", -1, RangeError],
    ["waitMs", 1.5, RangeError],
    ["waitMs", Number.NaN, RangeError],
    ["baseMs", 0, RangeError],
    ["capMs", "200", TypeError],
    ["signal", {}, TypeError],
  ] as const)("refuses %s of %j", async (name, value, kind) => {
    const outcome = retry(() => Promise.resolve(1), { [name]: value });
    await expect(outcome).rejects.toBeInstanceOf(kind);
    await expect(outcome).rejects.toThrow(`\`${name}\``);
  });
});
