// The client processes of the semaphore cases.
import type { Caller } from "../../loops/caller.js";
import { openSemaphoreImplementation, type SemaphoreSetup } from "./implementations.js";
import type { OpenJobs } from "../../suite.js";
import { loopJobs } from "../../loops/loops-jobs.js";
import { shiftWallClock } from "../../loops/wall-clock.js";

export const jobs: OpenJobs = async ({ implementation: id, url, setup, index }) => {
  const { clocksOffMs, ...settings } = setup as SemaphoreSetup;
  // The clock is shifted before the library loads: a machine with a wrong clock has it from the start.
  shiftWallClock(clocksOffMs?.[index] ?? 0);
  const implementation = await openSemaphoreImplementation(id, url, settings);
  const callers: Caller[] = [];
  return { ready: () => Promise.resolve(), ...loopJobs((caller) => (callers[caller] ??= implementation.caller())) };
};
