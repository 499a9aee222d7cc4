// The jobs of the client processes for limits, cancellation, schedules and bulk changes.
import { setTimeout as sleep } from "node:timers/promises";
import { now } from "@tooling/lab";
import type { BenchQueue, Data } from "./implementations.js";

export interface LimitTask {
  readonly perSecond: number;
  /** So many begin at once. */
  readonly burst: number;
}

export interface NamesTask {
  readonly names: number;
  readonly jobsOfEach: number;
}

export interface CancelTask {
  readonly jobs: number;
  /** They are cancelled at random instants within this time. */
  readonly withinMs: number;
}

export interface ScheduleTask {
  readonly count: number;
}

export interface FlowTask {
  readonly flows: number;
  readonly children: number;
}

export interface Drained {
  readonly jobs: number;
  readonly elapsedMs: number;
}

export const featureJobs = (queue: BenchQueue, data: () => Data) => {
  const { limit, cancel, addFlows, removeFlows, schedules, drain } = queue;
  let isAdding = false;
  /** One add after the other. Resolves with the milliseconds that each took. */
  const addWhile = async (goesOn: () => boolean): Promise<readonly number[]> => {
    const tookMs: number[] = [];
    while (goesOn()) {
      const at = now();
      await queue.add(data());
      tookMs.push(now() - at);
    }
    return tookMs;
  };
  return {
    limit: ({ perSecond, burst }: LimitTask) => limit?.(perSecond, burst),

    fillNames: ({ names, jobsOfEach }: NamesTask) => queue.fillNames?.(names, jobsOfEach),

    /** Resolves with the milliseconds from each cancellation to the abort of the handler's signal. */
    cancel: async ({ jobs: count, withinMs }: CancelTask): Promise<readonly number[]> => {
      if (!cancel) throw new Error("the implementation cannot cancel");
      const all = Array.from({ length: count }, data);
      let begun = 0;
      const aborted = new Map<number, number>();
      const stop = await queue.work(count, ({ n }, { signal }) => {
        begun++;
        return new Promise<void>((resolve) => {
          signal.addEventListener("abort", () => resolve(void aborted.set(n, now())), { once: true });
        });
      });
      const jobIds = await Promise.all(all.map((one) => queue.add(one)));
      while (begun < count) await sleep(10);
      const cancelledAt = await Promise.all(
        jobIds.map(async (id) => {
          await sleep(Math.random() * withinMs);
          const at = now();
          await cancel(id as string);
          return at;
        }),
      );
      while (aborted.size < count) await sleep(10);
      await stop();
      return all.map(({ n }, index) => (aborted.get(n) ?? NaN) - (cancelledAt[index] ?? NaN));
    },

    /** Adds flows, 50 in a call, and works until each job has run. Resolves with the milliseconds from the first call. */
    flows: async ({ flows: count, children }: FlowTask): Promise<number> => {
      if (!addFlows) throw new Error("the implementation has no flows");
      const jobs = count * (children + 1);
      let ran = 0;
      let done: () => void = () => undefined;
      const all = new Promise<void>((resolve) => (done = resolve));
      const startedAt = now();
      for (let left = count; left > 0; left -= 50)
        await addFlows(
          Array.from({ length: Math.min(50, left) }, () => ({
            root: data(),
            children: Array.from({ length: children }, data),
          })),
        );
      const stop = await queue.work(100, () => void (++ran === jobs && done()));
      await all;
      const elapsedMs = now() - startedAt;
      await stop();
      return elapsedMs;
    },

    /** Adds a flow and removes it with its children. */
    removeFlow: async ({ children }: { readonly children: number }) => {
      if (!addFlows || !removeFlows) throw new Error("the implementation has no flows");
      const flow = { root: data(), children: Array.from({ length: children }, data) };
      await removeFlows((await addFlows([flow])) as readonly string[]);
    },

    storeSchedules: ({ count }: ScheduleTask) => schedules?.store(count),
    runSchedules: () => schedules?.run(),

    workSlowly: async () => void (await queue.work(10, () => sleep(20))),
    drain: async (): Promise<Drained> => {
      if (!drain) throw new Error("the implementation cannot drain");
      const startedAt = now();
      const jobs = await drain();
      return { jobs, elapsedMs: now() - startedAt };
    },

    addFor: ({ ms }: { readonly ms: number }) => {
      const end = now() + ms;
      return addWhile(() => now() < end);
    },
    addUntilStopped: () => {
      isAdding = true;
      return addWhile(() => isAdding);
    },
    stopAdding: () => void (isAdding = false),
  };
};
