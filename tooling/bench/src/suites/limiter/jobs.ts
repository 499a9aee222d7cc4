// The client processes of the limiter cases.
import { now } from "@tooling/lab";
import { until } from "../../loops/loops-jobs.js";
import type { OpenJobs } from "../../suite.js";
import { implementations, type LimiterSetup } from "./implementations.js";

export interface ConsumeTask {
  readonly callers: number;
  readonly keys: number;
}

export interface CrowdTask {
  readonly callers: number;
}

export interface LoopTask extends CrowdTask {
  readonly startAt: number;
  readonly countFrom: number;
  readonly stopAt: number;
}

export interface FillTask {
  readonly keys: number;
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
    /** Uses each key once. */
    fill: async ({ keys }: FillTask): Promise<void> => {
      const callers = Array.from({ length: 64 }, async (_, caller) => {
        for (let key = caller; key < keys; key += 64) await consume(`user-${String(key)}`);
      });
      await Promise.all(callers);
    },
    /** Each caller waits for its turn again and again. Resolves with how often each started in the time that counts. */
    loops: async ({ callers, startAt, countFrom, stopAt }: LoopTask): Promise<readonly number[]> => {
      if (!wait) throw new Error("the implementation does not wait");
      const starts = Array.from({ length: callers }, () => 0);
      await until(startAt);
      const loop = async (own: number): Promise<void> => {
        while (now() < stopAt) {
          await wait("loops");
          if (now() >= countFrom && now() < stopAt) starts[own]!++;
        }
      };
      await Promise.all(starts.map((_, own) => loop(own)));
      return starts;
    },
    /** All callers wait for their turn at once. Resolves with the milliseconds until each started. */
    crowd: async ({ callers }: CrowdTask): Promise<readonly number[]> => {
      if (!wait) throw new Error("the implementation does not wait");
      const key = `crowd-${String(++crowds)}`;
      const from = now();
      return await Promise.all(Array.from({ length: callers }, () => wait(key).then(() => now() - from)));
    },
  };
};
