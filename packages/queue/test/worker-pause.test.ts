import { expect, it } from "vitest";
import type { StepReply } from "../src/store/scripts/index.js";
import { Timekeeper } from "../src/work/timekeeper.js";
import { latch } from "./harness.js";

it("a worker that was to start the next job by a rate, and is paused and resumed, watches the rate as the others do", async () => {
  const due = latch();
  const timekeeper = new Timekeeper(10_000, () => due.open());
  const startIn = (ms: number): StepReply => ({ nowMicros: 1e9, nextStart: 1e6 + ms }) as StepReply;
  timekeeper.observeStart(startIn(1e6), true);
  timekeeper.stop();
  timekeeper.observeStart(startIn(1), false);
  await expect(due.promise).resolves.toBeUndefined();
});
