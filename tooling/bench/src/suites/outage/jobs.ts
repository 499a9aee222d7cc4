// The client processes: a producer that adds at a steady rate, and a worker.
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { now } from "@tooling/lab";
import type { OpenJobs } from "../../suite.js";
import { implementations } from "../queue/implementations.js";

export interface PourTask {
  readonly perSecond: number;
}

/** A job that was handled: its number and when. */
export type Handled = readonly [n: number, at: number];

const tickMs = 10;
const text = randomBytes(135).toString("base64url");

export const jobs: OpenJobs = async (opening) => {
  const queue = await implementations.open(opening);
  const acknowledged: number[] = [];
  const handled: Handled[] = [];
  let isPouring = false;
  let [sent, failed] = [0, 0];
  const pour = async (perSecond: number): Promise<void> => {
    const startedAt = now();
    for (; isPouring; await sleep(tickMs))
      for (const due = ((now() - startedAt) * perSecond) / 1_000; sent < due;) {
        const n = ++sent;
        queue.add({ n, text }).then(
          () => acknowledged.push(n),
          () => failed++,
        );
      }
  };
  return {
    /** Adds jobs at a steady rate, whether or not earlier adds have settled, until `stopPouring`. */
    pour: ({ perSecond }: PourTask) => {
      isPouring = true;
      void pour(perSecond);
    },
    /** Resolves with the numbers of the jobs whose add succeeded, once every add has settled or a minute has passed. */
    stopPouring: async (): Promise<readonly number[]> => {
      isPouring = false;
      for (let left = 6_000; left > 0 && acknowledged.length + failed < sent; left--) await sleep(tickMs);
      return acknowledged;
    },
    handle: async ({ concurrency }: { readonly concurrency: number }) => {
      await queue.work(concurrency, ({ n }) => void handled.push([n, now()]));
    },
    /** What was handled since the last call. */
    handled: (): readonly Handled[] => handled.splice(0),
  };
};
