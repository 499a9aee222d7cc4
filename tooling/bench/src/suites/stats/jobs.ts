import { now } from "@tooling/lab";
import type { Jobs, OpenJobs } from "../../suite.js";
import { openStatsImplementation, type StatsSetup, type Tool } from "./implementations.js";

type Way = "count" | "observe" | "countLocally" | "countUnlabelled" | "observeLocally";

/** `callers` callers count or observe for `ms`, each one call after the other. The calls take the series in turn. */
export interface RunTask {
  readonly way: Way;
  readonly callers: number;
  readonly series: number;
  readonly ms: number;
}

export interface RunResult {
  readonly operations: number;
  readonly elapsedMs: number;
}

/** One hit per second of the `seconds` before `endAt`. */
export interface DaysTask {
  readonly seconds: number;
  readonly endAt: number;
}

/** `hits` hits, as fast as possible. */
export interface ManyTask {
  readonly hits: number;
  readonly series: number;
}

/** Calls between two readings of the clock, since local calls take nanoseconds. */
const burst = 1_000;
/** How often the event loop gets a turn, in which buffered counts are sent. */
const sliceMs = 10;

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** A value for each turn: a thousand different ones, from 1 to 1,000. */
const valueOf = (turnNumber: number): number => 1 + ((turnNumber * 619) % 1_000);

/** One call of a way, by its number. An implementation without local counts counts at the server. */
const callOf = (tool: Tool, way: Way, series: number): ((number: number) => unknown) => {
  const call = tool[way] ?? (way === "countLocally" ? tool.count : undefined);
  if (!call) throw new Error(`the implementation cannot ${way}`);
  return (number) => call(number % series, valueOf(number));
};

export const jobs: OpenJobs = async ({ implementation, url, setup }) => {
  const tool = await openStatsImplementation(implementation, url, setup as StatsSetup);

  const runLocally = async (call: (at: number) => unknown, ms: number): Promise<RunResult> => {
    const startedAt = now();
    const end = startedAt + ms;
    let operations = 0;
    while (now() < end) {
      const sliceEnd = Math.min(end, now() + sliceMs);
      do {
        for (const upTo = operations + burst; operations < upTo; operations++) call(operations);
      } while (now() < sliceEnd);
      await turn();
    }
    await tool.settle?.();
    return { operations, elapsedMs: now() - startedAt };
  };

  return {
    ready: () => Promise.resolve(),

    run: async ({ way, callers, series, ms }: RunTask): Promise<RunResult> => {
      const call = callOf(tool, way, series);
      if (!(call(0) instanceof Promise)) return await runLocally(call, ms);
      const startedAt = now();
      const end = startedAt + ms;
      let operations = 0;
      const caller = async (first: number): Promise<void> => {
        for (let at = first; now() < end; at += callers, operations++) await call(at);
      };
      await Promise.all(Array.from({ length: callers }, (_, index) => caller(index)));
      return { operations, elapsedMs: now() - startedAt };
    },

    days: async ({ seconds, endAt }: DaysTask): Promise<void> => {
      const { countAt, clean } = tool;
      if (!countAt) throw new Error("the implementation cannot count at an instant");
      for (let second = seconds; second > 0;) {
        const some: Promise<unknown>[] = [];
        for (const last = Math.max(0, second - 1_000); second > last; second--)
          some.push(countAt(endAt - second * 1_000));
        await Promise.all(some);
      }
      await clean?.(endAt);
    },

    /** Resolves with the milliseconds that it took. */
    many: async ({ hits, series }: ManyTask): Promise<number> => {
      const { countLocally, settle } = tool;
      if (!countLocally || !settle) throw new Error("the implementation cannot count locally");
      const startedAt = now();
      for (let hit = 0; hit < hits;) {
        for (const upTo = Math.min(hits, hit + 20 * burst); hit < upTo; hit++) countLocally(hit % series, 1);
        await turn();
      }
      await settle();
      return now() - startedAt;
    },

    sum: async ({ series }: { readonly series: number }): Promise<number> => {
      let sum = 0;
      for (let one = 0; one < series; one++) sum += (await tool.total?.(one)) ?? 0;
      return sum;
    },
  } satisfies Jobs;
};
