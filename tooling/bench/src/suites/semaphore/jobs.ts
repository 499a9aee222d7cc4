// What the client processes of the semaphore cases do.
import type { Caller } from "../../loops/caller.js";
import { openSemaphoreContestant, type SemaphoreSetup } from "./contestants.js";
import type { OpenJobs } from "../../suite.js";
import { loopJobs } from "../../loops/loops-jobs.js";
import { shiftWallClock } from "../../loops/wall-clock.js";

export const jobs: OpenJobs = async ({ contestant: id, url, setup, index }) => {
  const { clocksOffMs, ...settings } = setup as SemaphoreSetup;
  // Before the library is loaded, as on a machine whose clock has been off all along.
  shiftWallClock(clocksOffMs?.[index] ?? 0);
  const contestant = await openSemaphoreContestant(id, url, settings);
  const callers: Caller[] = [];
  return { ready: () => Promise.resolve(), ...loopJobs((caller) => (callers[caller] ??= contestant.caller())) };
};
