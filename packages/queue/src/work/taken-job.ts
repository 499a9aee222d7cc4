import type { TakenJob } from "./taken.js";

/** @throws {TypeError} `job` did not come from a worker. */
export const takenJob = (job: unknown): TakenJob => {
  const { commands } = Object(job) as Partial<TakenJob>;
  if (commands === undefined)
    throw new TypeError("Expected `job` to be the object that the handler received, not a copy");
  return job as TakenJob;
};
