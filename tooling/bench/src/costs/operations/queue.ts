import { setTimeout as sleep } from "node:timers/promises";
import { createQueue, type Job, type Queue, type QueueOptions } from "@kit/queue";
import { keepHistory } from "@kit/queue/history";
import { pauseQueue, resumeQueue } from "@kit/queue/manage";
import { reportProgress } from "@kit/queue/progress";
import { createSchedules, type Schedules } from "@kit/queue/schedules";
import { now } from "@tooling/lab";
import type { CostedOperation, IdleObject, Opened, StoredObject } from "../operation.js";
import { inGroups, manyCallers, oneByOne } from "../operation.js";
import type { Scene } from "../scene.js";
import { someData } from "./data.js";

const name = "mail";
const bulk = 1_000;
type Jobs = { job: (data: object) => unknown };

const queueOn = async (scene: Scene, options: QueueOptions = {}): Promise<Queue<Jobs>> =>
  scene.own(createQueue<Jobs>(await scene.client(), name, options));

const addMany = async (queue: Queue<Jobs>, count: number): Promise<void> => {
  for (let left = count; left > 0; left -= bulk)
    await queue.addAll(Array.from({ length: Math.min(bulk, left) }, () => ({ name: "job", data: someData() })));
};

interface Working {
  /** Resolves once so many more jobs have ended. */
  completed(count: number): Promise<void>;
}

/** A worker of a client of its own, as in a process of its own. */
const workerOn = async (
  scene: Scene,
  concurrency: number,
  {
    options,
    handler = () => undefined,
  }: { readonly options?: QueueOptions; readonly handler?: (job: Job) => unknown } = {},
): Promise<Working> => {
  const queue = await queueOn(scene, options);
  const worker = scene.own(queue.work({ job: (job) => handler(job as unknown as Job) }, { concurrency }));
  let ended = 0;
  let wanted: { readonly count: number; readonly resolve: () => void } | undefined;
  worker.on("completed", () => {
    if (++ended === wanted?.count) wanted.resolve();
  });
  return {
    completed: (count) => {
      ended = 0;
      return new Promise((resolve) => (wanted = { count, resolve }));
    },
  };
};

/** Jobs that all wait before the worker begins. */
const processing =
  (
    concurrency: number,
    settings: { readonly options?: QueueOptions; readonly handler?: (job: Job) => unknown } = {},
  ): CostedOperation["open"] =>
  async (scene): Promise<Opened> => {
    const redis = await scene.client();
    const queue = await queueOn(scene, settings.options);
    const worker = await workerOn(scene, concurrency, settings);
    return {
      prepare: async (count) => {
        await pauseQueue(redis, { queue: name });
        await addMany(queue, count);
      },
      run: async (count) => {
        const all = worker.completed(count);
        await resumeQueue(redis, { queue: name });
        await all;
      },
    };
  };

/** Jobs that are added at even distances, until all have ended. */
const arriving =
  (perSecond: number, delayMs?: number): CostedOperation["open"] =>
  async (scene): Promise<Opened> => {
    const queue = await queueOn(scene);
    const worker = await workerOn(scene, 100);
    return {
      run: async (count) => {
        const all = worker.completed(count);
        const startedAt = now();
        const adds: Promise<unknown>[] = [];
        for (let index = 0; index < count; index++) {
          const earlyMs = startedAt + (index * 1_000) / perSecond - now();
          if (earlyMs > 0) await sleep(earlyMs);
          adds.push(queue.add("job", someData(), { delayMs }));
        }
        await Promise.all(adds);
        await all;
      },
    };
  };

/** Jobs that producers add one by one as fast as they can, until all have ended. */
const busy: CostedOperation["open"] = async (scene) => {
  const worker = await workerOn(scene, 100);
  const producers: Opened["run"][] = [];
  while (producers.length < manyCallers) {
    const queue = await queueOn(scene);
    producers.push(oneByOne(() => queue.add("job", someData())));
  }
  return {
    run: async (count) => {
      const all = worker.completed(count);
      await Promise.all(producers.map((add) => add(count / manyCallers)));
      await all;
    },
  };
};

export const operations: readonly CostedOperation[] = [
  {
    package: "queue",
    name: "add",
    about: "data of 200 bytes",
    count: 2_000,
    callers: manyCallers,
    open: async (scene) => {
      const queue = await queueOn(scene);
      return { run: oneByOne(() => queue.add("job", someData())) };
    },
  },
  {
    package: "queue",
    name: "add, 100 at a time",
    about: "concurrent adds",
    count: 20_000,
    open: async (scene) => {
      const queue = await queueOn(scene);
      return { run: inGroups(100, () => queue.add("job", someData())) };
    },
  },
  {
    package: "queue",
    name: "addAll of 1,000",
    about: "",
    count: 20_000,
    open: async (scene) => {
      const queue = await queueOn(scene);
      return { run: (count) => addMany(queue, count) };
    },
  },
  {
    package: "queue",
    name: "a job, 10 a second",
    about: "add and run, evenly spaced, one worker",
    count: 30,
    isOnCluster: false,
    open: arriving(10),
  },
  {
    package: "queue",
    name: "a job, 1,000 a second",
    about: "the same",
    count: 2_000,
    isOnCluster: false,
    open: arriving(1_000),
  },
  {
    package: "queue",
    name: "a job, of busy producers",
    about: "add and run; 16 processes add thousands a second",
    count: 6_400,
    open: busy,
  },
  {
    package: "queue",
    name: "a delayed job, 100 a second",
    about: "evenly spaced, due after half a second",
    count: 200,
    isOnCluster: false,
    open: arriving(100, 500),
  },
  {
    package: "queue",
    name: "process, c=1",
    about: "a backlog of jobs whose handler does nothing, without adds",
    count: 10_000,
    open: processing(1),
  },
  { package: "queue", name: "process, c=10", about: "the same", count: 10_000, open: processing(10) },
  { package: "queue", name: "process, c=100", about: "the same", count: 10_000, open: processing(100) },
  {
    package: "queue",
    name: "process, c=100, with history",
    about: "the last 1,000 jobs kept",
    count: 10_000,
    open: processing(100, { options: { history: keepHistory() } }),
  },
  {
    package: "queue",
    name: "process, c=100, with progress",
    about: "one progress report a job",
    count: 1_000,
    open: processing(100, { handler: (job) => void reportProgress(job, { done: 1 }) }),
  },
];

const dueInYears = 3e11;

const storeSchedules = async (schedules: Schedules, count: number): Promise<void> => {
  const startAt = Date.now() + dueInYears;
  await inGroups(500, (index) =>
    schedules.upsert(`s${String(index)}`, { name: "job", data: {}, everyMs: 60_000, startAt }),
  )(count);
};

export const stored: readonly StoredObject[] = [
  {
    package: "queue",
    name: "a waiting job",
    about: "data of 200 bytes",
    count: 20_000,
    store: async (scene, count) => addMany(await queueOn(scene), count),
  },
  {
    package: "queue",
    name: "a delayed job",
    about: "data of 200 bytes",
    count: 20_000,
    store: async (scene, count) => {
      const queue = await queueOn(scene);
      await inGroups(bulk, () => queue.add("job", someData(), { delayMs: 3_600_000 }))(count);
    },
  },
  {
    package: "queue",
    name: "a job in the history",
    about: "",
    count: 10_000,
    store: async (scene, count) => {
      const options = { history: keepHistory({ maxCount: count }) };
      const all = (await workerOn(scene, 100, { options })).completed(count);
      await addMany(await queueOn(scene, options), count);
      await all;
    },
  },
  {
    package: "queue",
    name: "a schedule",
    about: "",
    count: 10_000,
    store: async (scene, count) => storeSchedules(scene.own(createSchedules(await scene.client(), name)), count),
  },
];

export const idle: readonly IdleObject[] = [
  {
    package: "queue",
    name: "a queue object that adds nothing",
    about: "",
    open: async (scene) => {
      const redis = await scene.client();
      await scene.own(createQueue(redis, "idle objects")).add("job", {});
    },
  },
  {
    package: "queue",
    name: "a worker without jobs",
    about: "any number of handlers",
    open: async (scene) => {
      const queue = scene.own(createQueue(await scene.client(), "no jobs"));
      scene.own(queue.work({ job: () => undefined }, { concurrency: 100 }));
    },
  },
  {
    package: "queue",
    name: "a worker with one long job",
    about: "lease of 10 s",
    open: async (scene) => {
      const queue = scene.own(createQueue(await scene.client(), "a long job"));
      let end: (() => void) | undefined;
      scene.own(queue.work({ job: () => new Promise<void>((resolve) => (end = resolve)) }));
      scene.atEnd(() => Promise.resolve(end?.()));
      await queue.add("job", {});
    },
  },
  {
    package: "queue",
    name: "10,000 schedules, none due",
    about: "",
    open: async (scene) => {
      const schedules = scene.own(createSchedules(await scene.client(), "idle schedules"));
      await storeSchedules(schedules, 10_000);
      schedules.run();
    },
  },
];
