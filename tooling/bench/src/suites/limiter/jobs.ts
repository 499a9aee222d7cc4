// The client processes of the limiter cases.
import { now } from "@tooling/lab";
import type { OpenJobs } from "../../suite.js";
import { implementations, type LimiterSetup } from "./implementations.js";

export interface ConsumeTask {
  readonly callers: number;
  readonly keys: number;
}

export interface CrowdTask {
  readonly callers: number;
}

export const jobs: OpenJobs = async (opening) => {
  const { consume, wait } = await implementations.open(opening);
  const { count } = opening.setup as LimiterSetup;
  let crowds = 0;
  return {
    operation: ({ callers, keys }: ConsumeTask) => ({
      callers,
      call: async (caller: number, number: number) => {
        const isAllowed = await consume(`user-${String((caller + number) % keys)}`);
        // A limit of one call is that of a key that is refused.
        if (!isAllowed && count > 1) throw new Error("the call was refused");
      },
    }),
    /** All callers wait for their turn at once. Resolves with the milliseconds until each started. */
    crowd: async ({ callers }: CrowdTask): Promise<readonly number[]> => {
      if (!wait) throw new Error("the implementation does not wait");
      const key = `crowd-${String(++crowds)}`;
      const from = now();
      return await Promise.all(Array.from({ length: callers }, () => wait(key).then(() => now() - from)));
    },
  };
};
