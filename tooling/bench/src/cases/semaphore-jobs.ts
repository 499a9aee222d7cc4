// What the client processes of the semaphore cases do.
import type { Caller } from "../contestants/caller.js";
import { openSemaphoreContestant, type SemaphoreSetup } from "../contestants/semaphore.js";
import type { Opening } from "../lab.js";
import type { Jobs } from "../suite.js";
import { loopJobs } from "./loops-jobs.js";
import { shiftWallClock } from "./wall-clock.js";

export const semaphoreJobs = async ({ contestant: id, url, setup, index }: Opening): Promise<Jobs> => {
  const { clocksOffMs, ...settings } = setup as SemaphoreSetup;
  // Before the library is loaded, as on a machine whose clock has been off all along.
  shiftWallClock(clocksOffMs?.[index] ?? 0);
  const contestant = await openSemaphoreContestant(id, url, settings);
  const callers: Caller[] = [];
  return { ready: () => Promise.resolve(), ...loopJobs((caller) => (callers[caller] ??= contestant.caller())) };
};
