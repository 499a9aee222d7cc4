// The jobs of the client processes of the queue cases.
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { now } from "@tooling/lab";
import type { Operation } from "../../operation.js";
import type { OpenJobs } from "../../suite.js";
import { featureJobs } from "./features-jobs.js";
import { type BenchQueue, type Data, implementations } from "./implementations.js";
import { pin } from "./pin.js";

/** Adds, or batches of jobs that a worker handles, which are added first. */
export type QueueTask =
  | { readonly how: "serial" | "concurrent" | "bulk" | "ranked" }
  | { readonly how: "batch"; readonly concurrency: number; readonly jobs: number };

export interface ProcessTask {
  readonly jobs: number;
  readonly concurrency: number;
  readonly handlerMs?: number;
}

export interface Rate {
  readonly jobs: number;
  readonly elapsedMs: number;
  /** CPU time of this process. */
  readonly cpuMicros: number;
}

export interface TrickleTask {
  readonly jobs: number;
  readonly gapMs: number;
  /** @default due at once */
  readonly delayMs?: number;
}

export interface SpreadTask {
  /** So many workers of one handler each, and so many long jobs. */
  readonly workers: number;
  readonly quick: number;
}

const many = 1_000;
const texts = Array.from({ length: 10_000 }, () => randomBytes(135).toString("base64url"));
let made = 0;
const data = (): Data => ({ n: ++made, text: texts[made % texts.length] ?? "" });
const datas = (count: number): Data[] => Array.from({ length: count }, data);

const longText = randomBytes(12_288).toString("base64url");
/** A text whose length is log-uniform; each begins at another place. */
const someText = (): string => {
  const length = Math.floor(16 * 1_024 ** Math.random());
  return longText.slice(Math.floor(Math.random() * (longText.length - length))).slice(0, length);
};

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

const cpuMicros = (): number => {
  const { user, system } = process.cpuUsage();
  return user + system;
};

/** The priority of a job, 1 to 50. */
const priorityOf = ({ n }: Data): number => (n % 50) + 1;

export const jobs: OpenJobs = async (opening) => {
  let queue: BenchQueue = await implementations.open(opening);
  const addRanked = (all: readonly Data[]): Promise<unknown> => {
    if (!queue.addRanked) throw new Error("the implementation has no priorities");
    return queue.addRanked(all, priorityOf);
  };
  const addSome = (): Promise<unknown> => Promise.all(datas(many).map((one) => queue.add(one)));
  const adders = {
    serial: { size: 1, call: () => queue.add(data()) },
    concurrent: { size: many, call: addSome },
    bulk: { size: many, call: () => queue.addMany(datas(many)) },
    ranked: { size: many, call: () => addRanked(datas(many)) },
  };
  /** One worker handles batch after batch. */
  const batches = async (concurrency: number, size: number): Promise<Operation> => {
    let left = 0;
    let done: () => void = () => undefined;
    await queue.work(concurrency, () => void (--left === 0 && done()));
    const call = async (): Promise<void> => {
      left = size;
      const all = new Promise<void>((resolve) => (done = resolve));
      await fill(size);
      await all;
    };
    return { callers: 1, call, size };
  };
  const fill = async (count: number, isRanked = false): Promise<void> => {
    for (let left = count; left > 0; left -= many) {
      const some = datas(Math.min(many, left));
      await (isRanked ? addRanked(some) : queue.addMany(some));
    }
  };
  /** By job: how late it was. */
  const heard: number[] = [];
  let [isSoaking, soaked, handled, seen] = [false, 0, 0, 0];
  const dueAt = (at: number): Data => ({ n: at, text: data().text });
  return {
    operation: (task: QueueTask) =>
      task.how === "batch" ? batches(task.concurrency, task.jobs) : { callers: 1, ...adders[task.how] },

    pin,

    /** Opens the queue on another port of the server's, for all later calls. */
    open: async ({ port }: { readonly port: number }) => {
      const url = new URL(opening.url);
      url.port = String(port);
      queue = await implementations.open({ ...opening, url: url.href });
    },

    fill: ({ jobs: count, isRanked }: { readonly jobs: number; readonly isRanked?: boolean }) => fill(count, isRanked),

    ...featureJobs(queue, data),

    /** Works until `jobs` jobs have been handled; all of them are queued already. */
    process: async ({ jobs: count, concurrency, handlerMs = 0 }: ProcessTask): Promise<Rate> => {
      const cpuBefore = cpuMicros();
      let [startedAt, ended] = [0, 0];
      let done: () => void = () => undefined;
      const all = new Promise<void>((resolve) => (done = resolve));
      const end = ({ text }: Data): void => {
        if (startedAt === 0) startedAt = now();
        if (text.length !== 180) throw new Error("the data of a job differs from what was added");
        if (++ended === count) done();
      };
      const stop = await queue.work(concurrency, handlerMs > 0 ? (one) => sleep(handlerMs).then(() => end(one)) : end);
      await all;
      const rate = { jobs: count - 1, elapsedMs: now() - startedAt, cpuMicros: cpuMicros() - cpuBefore };
      await stop();
      return rate;
    },

    /**
     * Adds jobs of 16 bytes to 16 KiB while one worker handles them. The worker is the same in every call. Resolves with
     * the heap of the process once all are done.
     */
    soak: async ({ jobs: count }: { readonly jobs: number }): Promise<number> => {
      if (!isSoaking) {
        // V8 counts compiled code as heap, and its compilers produce more of it for as long as the process lives.
        setFlagsFromString("--no-opt");
        setFlagsFromString("--no-sparkplug");
        await queue.work(50, () => void handled++);
      }
      isSoaking = true;
      for (let left = count; left > 0; left -= many)
        await queue.addMany(datas(Math.min(many, left)).map(({ n }) => ({ n, text: someText() })));
      soaked += count;
      while (handled < soaked) await sleep(10);
      // Calls under way end first.
      await sleep(100);
      collectGarbage();
      return process.memoryUsage().heapUsed;
    },

    /**
     * Workers with a client each handle quick jobs, and wait; then there is a job for each of them that does not end. Resolves with how
     * long after the call to add them the last one started.
     */
    spread: async ({ workers, quick }: SpreadTask): Promise<number> => {
      let ended = 0;
      let lastAt = 0;
      const isLong = ({ n }: Data): boolean => n < 0;
      let [quickDone, longBegun] = [(): void => undefined, (): void => undefined];
      const allQuick = new Promise<void>((resolve) => (quickDone = resolve));
      const allLong = new Promise<void>((resolve) => (longBegun = resolve));
      let begun = 0;
      const handler = (one: Data): unknown => {
        if (!isLong(one)) return void (++ended === quick && quickDone());
        lastAt = now();
        if (++begun === workers) longBegun();
        return new Promise(() => undefined);
      };
      for (let index = 0; index < workers; index++) {
        const own = await implementations.open(opening);
        await own.work(1, handler);
      }
      for (let left = quick; left > 0; left--) await queue.add(data());
      await allQuick;
      // Until all of them wait for work again.
      await sleep(300);
      const startedAt = now();
      await queue.addMany(datas(workers).map(({ n, text }) => ({ n: -n, text })));
      await allLong;
      return lastAt - startedAt;
    },

    /** Handles jobs that carry the instant at which they are due. */
    listen: async ({ isHanging = false }: { readonly isHanging?: boolean }) => {
      await queue.work(1, ({ n }) => {
        heard.push(now() - n);
        seen = now();
        return isHanging ? new Promise(() => undefined) : undefined;
      });
    },
    heard: () => heard.splice(0),
    seen: () => seen,

    trickle: async ({ jobs: count, gapMs, delayMs }: TrickleTask) => {
      const adds: Promise<unknown>[] = [];
      for (let left = count; left > 0; left--) {
        await sleep(gapMs * (0.5 + Math.random()));
        if (delayMs === undefined) await queue.add(dueAt(now()));
        else if (!queue.addDelayed) throw new Error("the implementation has no delays");
        else adds.push(queue.addDelayed(dueAt(now() + delayMs), delayMs));
      }
      await Promise.all(adds);
    },
  };
};
