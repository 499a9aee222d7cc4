// The client processes of the lock cases.
import { setTimeout as sleep } from "node:timers/promises";
import { now } from "@tooling/lab";
import { implementations } from "./implementations.js";
import type { LockCaller } from "./lock-caller.js";
import type { Operation } from "../../operation.js";
import { sent, sentAt } from "../../sent.js";
import type { OpenJobs } from "../../suite.js";
import { idle, loopJobs, type PairsTask, until } from "../../loops/loops-jobs.js";

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

/** Sections of many callers under one name. */
export interface MixTask {
  readonly callers: number;
  /** Of a hundred sections. */
  readonly writes: number;
  readonly holdMs: number;
}

/** One caller, which takes several names at once. */
export interface NamesTask {
  readonly names: number;
  readonly sets: number;
}

const forEver = new Promise<void>(() => undefined);

export const jobs: OpenJobs = async (opening) => {
  const implementation = await implementations.open(opening);
  const callers: LockCaller[] = [];
  const callerOf = (index: number): LockCaller => (callers[index] ??= implementation.caller());

  const loops = loopJobs(callerOf);

  /** Each caller begins at another point of the same hundred. */
  const mixOf = ({ callers: count, writes, holdMs }: MixTask): Operation => ({
    callers: count,
    call: (caller, number) => {
      const isReader = ((number + caller) * writes) % 100 >= writes;
      return callerOf(caller).using("mixed", () => sleep(holdMs), isReader);
    },
  });

  const severalOf = ({ names, sets }: NamesTask): Operation => {
    const all = Array.from({ length: sets }, (_, set) =>
      Array.from({ length: names }, (_, index) => `set:${String(set)}:${String(index)}`),
    );
    return { callers: 1, call: (caller, number) => callerOf(caller).usingAll?.(all[number % sets] ?? [], idle) };
  };

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
    ...loops,
    operation: (task: PairsTask | MixTask | NamesTask) =>
      "writes" in task ? mixOf(task) : "sets" in task ? severalOf(task) : loops.operation(task),
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
