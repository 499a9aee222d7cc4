// What the client processes of the lock cases do.
import { setTimeout as sleep } from "node:timers/promises";
import { now } from "../clock.js";
import { type Caller, type LockSetup, openLockContestant } from "../contestants/lock.js";
import type { Opening } from "../lab.js";
import { sent, sentAt } from "../sent.js";
import type { Jobs } from "../suite.js";

export interface PairsTask {
  readonly callers: number;
  readonly namesPerCaller: number;
  readonly ms: number;
}

export interface PairsResult {
  readonly pairs: number;
  readonly elapsedMs: number;
}

export interface LoopsTask {
  readonly loops: number;
  readonly name: string;
  readonly startAt: number;
  /** Taken from here on, so that all have found their pace. */
  readonly countFrom: number;
  readonly stopAt: number;
  readonly holdMs: number;
}

export interface LoopsResult {
  /** One element per acquisition: asked, running, giving back. */
  readonly requested: Float64Array;
  readonly granted: Float64Array;
  readonly released: Float64Array;
  /** Which of the loops. */
  readonly loop: Float64Array;
  /** Commands sent from `countFrom` to `stopAt`, and over all. */
  readonly sentInWindow: number;
  readonly sent: number;
}

export interface BurstTask {
  readonly callers: number;
  readonly name: string;
  readonly startAt: number;
  readonly holdMs: number;
}

export interface HoldTask {
  readonly names: readonly string[];
  /** Between one acquire and the next, so that leases end at different instants. */
  readonly apartMs: number;
  /** Refused by those that cannot keep a lock for longer than a lease. */
  readonly mustRenew: boolean;
}

const idle = (): void => undefined;
const forEver = new Promise<void>(() => undefined);

const until = async (instant: number): Promise<void> => {
  await sleep(Math.max(0, instant - now()));
};

export const lockJobs = async ({ contestant: id, url, setup }: Opening): Promise<Jobs> => {
  const contestant = await openLockContestant(id, url, setup as LockSetup);
  const callers: Caller[] = [];
  const callerOf = (index: number): Caller => (callers[index] ??= contestant.caller());

  const pairs = async ({ callers: count, namesPerCaller, ms }: PairsTask): Promise<PairsResult> => {
    const startedAt = now();
    const end = startedAt + ms;
    let done = 0;
    const call = async (index: number): Promise<void> => {
      const caller = callerOf(index);
      const names = Array.from({ length: namesPerCaller }, (_, name) => `pair:${String(index)}:${String(name)}`);
      for (let turn = 0; now() < end; turn++, done++) await caller.using(names[turn % namesPerCaller] as string, idle);
    };
    await Promise.all(Array.from({ length: count }, (_, index) => call(index)));
    return { pairs: done, elapsedMs: now() - startedAt };
  };

  const loops = async (task: LoopsTask): Promise<LoopsResult> => {
    const { name, startAt, countFrom, stopAt, holdMs } = task;
    const requested: number[] = [];
    const granted: number[] = [];
    const released: number[] = [];
    const loop: number[] = [];
    const run = async (index: number): Promise<void> => {
      const caller = callerOf(index);
      while (now() < stopAt) {
        const requestedAt = now();
        await caller.using(name, async () => {
          const grantedAt = now();
          // Whoever still waits at the end goes through without holding, so that the end comes.
          if (grantedAt < stopAt) await sleep(holdMs);
          requested.push(requestedAt);
          granted.push(grantedAt);
          loop.push(index);
          released.push(now());
        });
      }
    };
    await until(startAt);
    const sentBefore = sent();
    const work = Promise.all(Array.from({ length: task.loops }, (_, index) => run(index)));
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
  };

  /** When the last of them had done its work. */
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
    if (mustRenew && !contestant.renews) throw new Error("has no renewal of its own");
    for (const [index, name] of names.entries()) {
      await new Promise<void>((resolve, reject) => {
        const held = callerOf(index).using(name, ({ onLost }) => {
          onLost(() => losses.push(now()));
          resolve();
          return forEver;
        });
        // Some also throw when the lock is lost; that it is lost was told by then.
        held.catch(reject);
      });
      if (apartMs > 0) await sleep(apartMs);
    }
  };

  const grants = new Map<string, number>();

  /** Has one caller wait for each name, with nothing to do once it is there. */
  const wait = ({ names }: { names: readonly string[] }): Promise<void> => {
    for (const [index, name] of names.entries())
      void callerOf(index).using(name, () => {
        grants.set(name, now());
      });
    return Promise.resolve();
  };

  /** Takes the name for as long as this process lives, in the way of those that wait for it. */
  const occupy = ({ name }: { name: string }): Promise<void> =>
    new Promise((resolve, reject) => {
      callerOf(0)
        .using(name, () => {
          resolve();
          return forEver;
        })
        .catch(reject);
    });

  const crowd = ({ name, callers: count }: { name: string; callers: number }): Promise<void> => {
    for (let index = 0; index < count; index++) void callerOf(index).using(name, idle);
    return Promise.resolve();
  };

  return {
    pairs,
    loops,
    burst,
    hold,
    wait,
    occupy,
    crowd,
    sent: () => Promise.resolve(sent()),
    sentAt: () => Promise.resolve(sentAt()),
    losses: () => Promise.resolve(losses),
    grants: () => Promise.resolve(grants),
    leaseKey: ({ name }: { name: string }) => Promise.resolve(contestant.leaseKey(name)),
  } satisfies Jobs;
};
