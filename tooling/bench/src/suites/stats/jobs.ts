import { now } from "@tooling/lab";
import type { OpenJobs } from "../../suite.js";
import { implementations, type Tool } from "./implementations.js";

type Way = "count" | "observe" | "countLocally" | "countUnlabelled" | "observeLocally";

/** Callers count or observe. The calls take the series in turn. */
export interface StatsTask {
  readonly way: Way;
  readonly callers: number;
  readonly series: number;
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

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** A value for each turn: a thousand different ones, from 1 to 1,000. */
const valueOf = (turnNumber: number): number => 1 + ((turnNumber * 619) % 1_000);

export const jobs: OpenJobs = async (opening) => {
  const tool: Tool = await implementations.open(opening);
  return {
    /** An implementation without local counts counts at the server. */
    operation: ({ way, callers, series }: StatsTask) => {
      const local = tool[way];
      const call = local ?? (way === "countLocally" ? tool.count : undefined);
      if (!call) throw new Error(`the implementation cannot ${way}`);
      const isLocal = local !== undefined && way !== "count" && way !== "observe";
      const count = isLocal ? 1 : callers;
      return {
        callers: count,
        burst: isLocal ? burst : 1,
        call: (caller: number, number: number) => {
          const at = caller + number * count;
          return call(at % series, valueOf(at));
        },
        ...(isLocal && tool.settle && { settle: tool.settle }),
      };
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
  };
};
