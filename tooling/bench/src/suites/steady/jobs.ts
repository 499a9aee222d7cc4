// The client processes: a producer and a worker.
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { now } from "@tooling/lab";
import type { OpenJobs } from "../../suite.js";
import { implementations } from "../queue/implementations.js";
import { pin } from "../queue/pin.js";

export interface StartTask {
  readonly concurrency: number;
  readonly handlerMs: number;
}

export interface PourTask {
  readonly perSecond: number;
  readonly ms: number;
  /** Gaps between adds are random (exponential) instead of even. */
  readonly isPoisson: boolean;
}

export interface Poured {
  readonly jobs: number;
  readonly cpuMicros: number;
  readonly tookMs: readonly number[];
}

export interface Started {
  /** For each job that started since the last call: how long after the call of add. */
  readonly lateMs: readonly number[];
  /** The CPU time of this process since the last call. */
  readonly cpuMicros: number;
}

const cpuMicros = (since?: NodeJS.CpuUsage): number => {
  const { user, system } = process.cpuUsage(since);
  return user + system;
};

const texts = Array.from({ length: 10_000 }, () => randomBytes(135).toString("base64url"));

export const jobs: OpenJobs = async (opening) => {
  const queue = await implementations.open(opening);
  let made = 0;
  const lateMs: number[] = [];
  let usage = process.cpuUsage();
  return {
    pin,

    start: async ({ concurrency, handlerMs }: StartTask) => {
      await queue.work(concurrency, ({ n }) => {
        lateMs.push(now() - n);
        return handlerMs > 0 ? sleep(handlerMs) : undefined;
      });
    },

    started: (): Started => {
      const used = cpuMicros(usage);
      usage = process.cpuUsage();
      return { lateMs: lateMs.splice(0), cpuMicros: used };
    },

    pour: async ({ perSecond, ms, isPoisson }: PourTask): Promise<Poured> => {
      const before = process.cpuUsage();
      const tookMs: number[] = [];
      const adds: Promise<unknown>[] = [];
      const startedAt = now();
      const gap = (): number => ((isPoisson ? -Math.log(1 - Math.random()) : 1) * 1_000) / perSecond;
      for (let due = startedAt + gap(); due < startedAt + ms; due += gap()) {
        while (now() < due) await sleep(Math.max(1, due - now()));
        const at = now();
        const added = Promise.resolve(queue.add({ n: at, text: texts[++made % texts.length] ?? "" }));
        adds.push(added.then(() => tookMs.push(now() - at)));
      }
      await Promise.all(adds);
      return { jobs: adds.length, cpuMicros: cpuMicros(before), tookMs };
    },
  };
};
