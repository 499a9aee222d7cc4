import { expect, it, vi } from "vitest";
import type { StepReply } from "../src/store/scripts/index.js";
import { Timekeeper } from "../src/work/timekeeper.js";

it("a worker whose timer fires before the next job may start waits for that instant again; for a later one it only watches", () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    let dues = 0;
    const timekeeper = new Timekeeper(10_000, () => dues++);
    const startIn = (ms: number, nextStart = 1e6): StepReply =>
      ({ nowMicros: (nextStart - ms) * 1_000, nextStart }) as StepReply;
    timekeeper.observeStart(startIn(3), true);
    vi.advanceTimersByTime(3);
    expect(dues).toBe(1);
    // The worker waits, so its step only looked.
    timekeeper.observeStart(startIn(0.1), false);
    vi.advanceTimersByTime(1);
    expect(dues).toBe(2);
    // Another worker took the job.
    timekeeper.observeStart(startIn(3, 1e6 + 3), false);
    vi.advanceTimersByTime(400);
    expect(dues).toBe(2);
    vi.advanceTimersByTime(1_200);
    expect(dues).toBe(3);
  } finally {
    vi.useRealTimers();
  }
});
