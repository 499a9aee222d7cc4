// The client processes of the semaphore cases.
import type { Caller } from "../../loops/caller.js";
import { implementations, type SemaphoreSetup } from "./implementations.js";
import type { OpenJobs } from "../../suite.js";
import { loopJobs } from "../../loops/loops-jobs.js";
import { shiftWallClock } from "../../loops/wall-clock.js";

export const jobs: OpenJobs = async (opening) => {
  // The clock is shifted before the library loads: a machine with a wrong clock has it from the start.
  shiftWallClock((opening.setup as SemaphoreSetup).clocksOffMs?.[opening.index] ?? 0);
  const callerOf = await implementations.open(opening);
  const callers: Caller[] = [];
  return { ...loopJobs((index) => (callers[index] ??= callerOf())) };
};
