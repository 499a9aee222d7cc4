// The client processes of the cases that locks and semaphores have in common.
import { setTimeout as sleep } from "node:timers/promises";
import { now } from "@tooling/lab";
import type { Caller } from "./caller.js";
import type { Operation } from "../operation.js";
import { sent } from "../sent.js";

export interface PairsTask {
  readonly callers: number;
  readonly namesPerCaller: number;
  /** @default false */
  readonly isTimed?: boolean;
}

export interface LoopsTask {
  readonly loops: number;
  readonly name: string;
  readonly startAt: number;
  /** The start of the measurement, when all loops have warmed up. */
  readonly countFrom: number;
  readonly stopAt: number;
  readonly holdMs: number;
  /** A loop whose call fails begins again a millisecond later. */
  readonly goesOn?: boolean;
}

export interface LoopsResult {
  /** One element per acquisition: requested, running, releasing. */
  readonly requested: Float64Array;
  readonly granted: Float64Array;
  readonly released: Float64Array;
  /** The number of the loop. */
  readonly loop: Float64Array;
  /** Commands sent from `countFrom` to `stopAt`, and over all. */
  readonly sentInWindow: number;
  readonly sent: number;
}

export interface LoopJobs {
  readonly operation: (task: PairsTask) => Operation;
  readonly loops: (task: LoopsTask) => Promise<LoopsResult>;
}

export const idle = (): void => undefined;

export const until = async (instant: number): Promise<void> => {
  await sleep(Math.max(0, instant - now()));
};

export const loopJobs = (callerOf: (index: number) => Caller): LoopJobs => ({
  /** Pairs of acquire and release; each caller has names of its own, in turn. */
  operation: ({ callers, namesPerCaller, isTimed = false }) => ({
    callers,
    isTimed,
    call: (caller, number) => callerOf(caller).using(`pair:${String(caller)}:${String(number % namesPerCaller)}`, idle),
  }),

  loops: async ({ loops: count, name, startAt, countFrom, stopAt, holdMs, goesOn = false }) => {
    const requested: number[] = [];
    const granted: number[] = [];
    const released: number[] = [];
    const loop: number[] = [];
    const run = async (index: number): Promise<void> => {
      const caller = callerOf(index);
      while (now() < stopAt) {
        const requestedAt = now();
        const held = caller.using(name, async () => {
          const grantedAt = now();
          // A caller that still waits at the end goes through without holding, so that the end comes.
          if (grantedAt < stopAt) await sleep(holdMs);
          requested.push(requestedAt);
          granted.push(grantedAt);
          loop.push(index);
          released.push(now());
        });
        await (goesOn ? held.catch(() => sleep(1)) : held);
      }
    };
    await until(startAt);
    const sentBefore = sent();
    const work = Promise.all(Array.from({ length: count }, (_, index) => run(index)));
    await until(countFrom);
    const sentAtStart = sent();
    await until(stopAt);
    const sentInWindow = sent() - sentAtStart;
    await work;
    return {
      requested: Float64Array.from(requested),
      granted: Float64Array.from(granted),
      released: Float64Array.from(released),
      loop: Float64Array.from(loop),
      sentInWindow,
      sent: sent() - sentBefore,
    };
  },
});
