import { getEventListeners } from "node:events";
import { describe, expect, it, vi } from "vitest";
import { atDeadline, Deadline, onAbort } from "../src/kernel/base/deadline.js";

const block = (ms: number): void => {
  const until = performance.now() + ms;
  while (performance.now() < until);
};

describe("Deadline", () => {
  it("counts down on the monotonic clock", () => {
    const now = vi.spyOn(Date, "now").mockReturnValue(0);
    const deadline = Deadline.in(600_000);
    now.mockReturnValue(10_000_000);
    expect(deadline.remainingMs).toBeGreaterThan(300_000);
    expect(deadline.remainingMs).toBeLessThanOrEqual(600_000);
    now.mockRestore();
  });

  it.each([
    [150, 150],
    [1_100, 1_000],
  ])("of %d ms lasts %d ms more, once, if it passes while the event loop hangs", (ms, moreMs) => {
    const deadline = Deadline.in(ms);
    block(ms + 300);
    expect(deadline.remainingMs).toBeGreaterThan(moreMs - 50);
    expect(deadline.at - performance.now()).toBeLessThanOrEqual(moreMs);
    expect(deadline.stall).toMatch(/^; the event loop was blocked for at least \d+\.\d s$/);
    block(moreMs + 100);
    expect(deadline.remainingMs).toBeLessThan(0);
  });

  it("means an instant where it was made of one", () => {
    const deadline = new Deadline(performance.now() + 5);
    Deadline.in(5);
    block(200);
    expect(deadline.remainingMs).toBeLessThan(0);
    expect(deadline.stall).toBe("");
  });

  it("does not last longer while the event loop turns", async () => {
    vi.resetModules();
    const fresh = await import("../src/kernel/base/deadline.js");
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance", "setImmediate"] });
    const deadlines = [5, 60, 200].map((ms) => fresh.Deadline.in(ms));
    fresh.atDeadline(fresh.Deadline.in(30), () => undefined);
    await vi.advanceTimersByTimeAsync(100);
    expect(deadlines.map(({ remainingMs }) => remainingMs)).toEqual([-95, -40, 100]);
    vi.useRealTimers();
  });
});

describe("atDeadline", () => {
  it.each([30, -5])("calls at a deadline %d ms ahead, not before", async (ms) => {
    const deadline = Deadline.in(ms);
    await new Promise<void>((resolve) => atDeadline(deadline, resolve));
    expect(deadline.remainingMs).toBeLessThanOrEqual(1);
  });

  it("lets what came meanwhile be read first after a blocked event loop", async () => {
    const { port1, port2 } = new MessageChannel();
    const order: string[] = [];
    port2.on("message", () => order.push("message"));
    const late = new Promise<void>((resolve) =>
      atDeadline(Deadline.in(5), () => {
        order.push("late");
        resolve();
      }),
    );
    port1.postMessage(1);
    block(20);
    await late;
    port1.close();
    expect(order).toEqual(["message", "late"]);
  });

  it("is not called once cancelled, also between the timer and the turn that it waits", async () => {
    let calls = 0;
    const cancel = atDeadline(Deadline.in(1), () => calls++);
    block(5);
    // Timers run before this immediate; ours was set after it.
    await new Promise(setImmediate);
    cancel();
    await new Promise(setImmediate);
    await new Promise(setImmediate);
    expect(calls).toBe(0);
  });

  it("waits for a deadline beyond what a timer can hold", async () => {
    // The one timer of the module may be a real one, set by another test.
    vi.resetModules();
    const fresh = await import("../src/kernel/base/deadline.js");
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance", "setImmediate"] });
    let calls = 0;
    const days = 24 * 3_600_000;
    fresh.atDeadline(fresh.Deadline.in(40 * days), () => calls++);
    await vi.advanceTimersByTimeAsync(39 * days);
    expect(calls).toBe(0);
    await vi.advanceTimersByTimeAsync(1.1 * days);
    expect(calls).toBe(1);
    vi.useRealTimers();
  });
});

describe("many deadlines", () => {
  it("come in their order, with one timer, whichever was set first", async () => {
    vi.resetModules();
    const fresh = await import("../src/kernel/base/deadline.js");
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance", "setImmediate"] });
    const order: number[] = [];
    for (const ms of [40, 10, 30, 20]) fresh.atDeadline(fresh.Deadline.in(ms), () => order.push(ms));
    const cancelled = fresh.atDeadline(fresh.Deadline.in(5), () => order.push(5));
    expect(vi.getTimerCount()).toBe(1);
    cancelled();
    await vi.advanceTimersByTimeAsync(50);
    expect(order).toEqual([10, 20, 30, 40]);
    vi.useRealTimers();
  });

  it("hold the process while one is open, and not after the last is cancelled", () => {
    const timers = (): number => process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length;
    const before = timers();
    const stops = [1_000, 2_000].map((ms) => atDeadline(Deadline.in(ms), () => undefined));
    expect(timers()).toBe(before + 1);
    for (const stop of stops) stop();
    expect(timers()).toBe(before);
    const again = atDeadline(Deadline.in(5_000), () => undefined);
    expect(timers()).toBe(before + 1);
    again();
    expect(timers()).toBe(before);
  });
});

describe("onAbort", () => {
  it("puts one listener on a signal, however many wait, and takes it off with the last", () => {
    const { signal } = new AbortController();
    const stops = Array.from({ length: 100 }, () => onAbort(signal, () => undefined));
    expect(getEventListeners(signal, "abort")).toHaveLength(1);
    for (const stop of stops) stop();
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
  });

  it("calls everybody once, save who stopped", () => {
    const controller = new AbortController();
    const called: number[] = [];
    const stops = [0, 1, 2].map((index) => onAbort(controller.signal, () => called.push(index)));
    stops[1]?.();
    controller.abort();
    controller.abort();
    expect(called).toEqual([0, 2]);
    expect(getEventListeners(controller.signal, "abort")).toHaveLength(0);
  });

  it("calls at once when the signal has aborted", () => {
    let calls = 0;
    onAbort(AbortSignal.abort(), () => calls++);
    expect(calls).toBe(1);
  });

  it("calls a listener that was registered twice, once for each", () => {
    const controller = new AbortController();
    let calls = 0;
    const listener = (): number => calls++;
    const stop = onAbort(controller.signal, listener);
    onAbort(controller.signal, listener);
    stop();
    controller.abort();
    expect(calls).toBe(1);
  });

  it("does nothing without a signal", () => {
    expect(onAbort(undefined, () => expect.fail("called"))).toBeTypeOf("function");
  });
});
