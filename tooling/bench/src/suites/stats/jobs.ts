import { now } from "@tooling/lab";
import type { Operation } from "../../operation.js";
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

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** A value for each turn: a thousand different ones, from 1 to 1,000. */
const valueOf = (turnNumber: number): number => 1 + ((turnNumber * 619) % 1_000);

export const jobs: OpenJobs = async (opening) => {
  const tool: Tool = await implementations.open(opening);
  return {
    /** An implementation without local counts counts at the server. */
    operation: ({ way, callers, series }: StatsTask): Operation => {
      const local = tool[way];
      const call = local ?? (way === "countLocally" ? tool.count : undefined);
      if (!call) throw new Error(`the implementation cannot ${way}`);
      const callAt = (at: number): unknown => call(at % series, valueOf(at));
      return local !== undefined && way !== "count" && way !== "observe"
        ? {
            callers: 1,
            isLocal: true,
            call: (_, number) => callAt(number),
            ...(tool.settle && { settle: tool.settle }),
          }
        : { callers, call: (caller, number) => callAt(caller + number * callers) };
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
        for (const upTo = Math.min(hits, hit + 20_000); hit < upTo; hit++) countLocally(hit % series, 1);
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
