import { describe, expect, it } from "vitest";

import { eventually } from "../src/index.js";

describe("eventually", () => {
  it("resolves what the first check that does not throw returns", async () => {
    let looks = 0;
    const value = await eventually(
      () => {
        looks += 1;
        if (looks < 3) throw new Error("not yet");
        return looks;
      },
      { intervalMs: 1 },
    );
    expect(value).toBe(3);
  });

  it("waits for checks that are asynchronous", async () => {
    let looks = 0;
    const check = async () => ((looks += 1) < 2 ? Promise.reject(new Error("not yet")) : Promise.resolve("done"));
    await expect(eventually(check, { intervalMs: 1 })).resolves.toBe("done");
  });

  it("fails at its time with the last failure as the cause", async () => {
    let looks = 0;
    const failing = eventually(
      () => {
        looks += 1;
        throw new Error(`look ${looks} failed`);
      },
      { timeoutMs: 30, intervalMs: 5 },
    );
    const error = await failing.catch((caught: Error) => caught);
    expect(error).toBeInstanceOf(Error);
    const waitedMs = 30 * Number(process.env["KIT_TESTING_PATIENCE"]);
    expect((error as Error).message).toMatch(
      new RegExp(`^The check did not pass within ${waitedMs} ms \\(\\d+ tries\\): look \\d+ failed$`),
    );
    expect((error as Error).cause).toEqual(new Error(`look ${looks} failed`));
  });

  it("gives up on a check that hangs, and names what an earlier look found", async () => {
    let looks = 0;
    const check = () => ((looks += 1) === 1 ? Promise.reject(new Error("three left")) : new Promise<never>(() => {}));
    await expect(eventually(check, { timeoutMs: 30, intervalMs: 1 })).rejects.toThrow("three left");
    await expect(eventually(() => new Promise<never>(() => {}), { timeoutMs: 20 })).rejects.toThrow(
      "the check did not finish",
    );
  });

  it("looks less often the longer it waits", async () => {
    const looks: number[] = [];
    const failing = eventually(
      () => {
        looks.push(performance.now());
        throw new Error("not yet");
      },
      { timeoutMs: 200 },
    );
    await expect(failing).rejects.toThrow("not yet");
    // Pauses of 10 ms would be up to 80 looks. A slow machine makes fewer than these.
    expect(looks.length).toBeLessThan(40);
    expect(looks.length).toBeGreaterThan(2);
  });

  it("looks once even with no time at all", async () => {
    expect(await eventually(() => "seen", { timeoutMs: 0 })).toBe("seen");
  });
});
