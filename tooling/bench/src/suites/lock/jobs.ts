// The client processes of the lock cases.
import { setTimeout as sleep } from "node:timers/promises";
import { now } from "@tooling/lab";
import { type LockCaller, implementations } from "./implementations.js";
import { sent, sentAt } from "../../sent.js";
import type { OpenJobs } from "../../suite.js";
import { idle, loopJobs, until } from "../../loops/loops-jobs.js";

export interface BurstTask {
  readonly callers: number;
  readonly name: string;
  readonly startAt: number;
  readonly holdMs: number;
}

export interface HoldTask {
  readonly names: readonly string[];
  /** Milliseconds between two acquires, so that leases end at different instants. */
  readonly apartMs: number;
  /** Whether to fail an implementation that cannot keep a lock for longer than a lease. */
  readonly mustRenew: boolean;
}

const forEver = new Promise<void>(() => undefined);

export const jobs: OpenJobs = async (opening) => {
  const implementation = await implementations.open(opening);
  const callers: LockCaller[] = [];
  const callerOf = (index: number): LockCaller => (callers[index] ??= implementation.caller());

  /** Resolves with the instant at which the last hold ended. */
  const burst = async ({ callers: count, name, startAt, holdMs }: BurstTask): Promise<number> => {
    let lastDone = 0;
    const call = async (index: number): Promise<void> => {
      await callerOf(index).using(name, async () => {
        await sleep(holdMs);
        lastDone = now();
      });
    };
    await until(startAt);
    await Promise.all(Array.from({ length: count }, (_, index) => call(index)));
    return lastDone;
  };

  const losses: number[] = [];

  /** Takes all names and keeps them for as long as this process lives. */
  const hold = async ({ names, apartMs, mustRenew }: HoldTask): Promise<void> => {
    if (mustRenew && !implementation.renews) throw new Error("the implementation has no renewal");
    for (const [index, name] of names.entries()) {
      await new Promise<void>((resolve, reject) => {
        const held = callerOf(index).using(name, ({ onLost }) => {
          onLost(() => losses.push(now()));
          resolve();
          return forEver;
        });
        // Some libraries also reject here when the lock is lost, which they have already reported.
        held.catch(reject);
      });
      if (apartMs > 0) await sleep(apartMs);
    }
  };

  const grants = new Map<string, number>();

  /** Starts one waiting caller per name, which releases at once. */
  const wait = ({ names }: { names: readonly string[] }): void => {
    for (const [index, name] of names.entries())
      void callerOf(index).using(name, () => {
        grants.set(name, now());
      });
  };

  /** Holds the name for as long as this process lives, acquired in the same way as the waiters do. */
  const occupy = ({ name }: { name: string }): Promise<void> =>
    new Promise((resolve, reject) => {
      callerOf(0)
        .using(name, () => {
          resolve();
          return forEver;
        })
        .catch(reject);
    });

  const crowd = ({ name, callers: count }: { name: string; callers: number }): void => {
    for (let index = 0; index < count; index++) void callerOf(index).using(name, idle);
  };

  return {
    ...loopJobs(callerOf),
    burst,
    hold,
    wait,
    occupy,
    crowd,
    sent,
    sentAt,
    losses: () => losses,
    grants: () => grants,
    leaseKey: ({ name }: { name: string }) => implementation.leaseKey(name),
  };
};
