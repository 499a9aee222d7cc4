// The queues, each behind the same small interface and with the settings under which it is measured. A library is loaded
// only when it is opened.
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { enqueue, executeLater, moveDueOnce, workOnQueuesOnce } from "@tooling/classic";
import type { Job, Queue } from "@kit/queue";
import type { Schedules } from "@kit/queue/schedules";
import type { Redis } from "ioredis";
import { connected, reconnecting } from "../../clients.js";
import { inWords } from "../../loops/caller.js";
import { pinned } from "../../pins.js";
import { catalogOf, type Definition as AnyDefinition } from "../../implementation.js";

/** The data of a job: about 200 bytes as JSON, distinct and incompressible. */
export interface Data {
  readonly n: number;
  readonly text: string;
}

/** How our worker acknowledges; the peers have one way each. */
export interface QueueSetup {
  readonly strict?: boolean;
  readonly ack?: "batched" | "each";
  readonly cancelBy?: "push";
  /** The number of groups. Jobs are added to one after the other. @default no job has a group */
  readonly groups?: number;
  /** @default 20,000 */
  readonly deadlineMs?: number;
  /** Whether ended jobs are kept. */
  readonly keepsHistory?: boolean;
  /** Whether each handler reports progress once. */
  readonly reportsProgress?: boolean;
}

/** Only ours passes the job. Its signal is made when it is read. */
type Handler = (data: Data, job: { readonly signal: AbortSignal }) => unknown;

/** A job that starts once its children have ended. */
interface Flow {
  readonly root: Data;
  readonly children: readonly Data[];
}

/** A queue in this process. */
export interface BenchQueue {
  add(data: Data): Promise<unknown>;
  /** Adds at most 1,000 jobs. */
  addMany(all: readonly Data[]): Promise<unknown>;
  readonly addDelayed?: (data: Data, delayMs: number) => Promise<unknown>;
  readonly addRanked?: (all: readonly Data[], priorityOf: (data: Data) => number) => Promise<unknown>;
  /** Lets so many jobs begin per second, and so many at once. */
  readonly limit?: (perSecond: number, burst: number) => Promise<unknown>;
  /** Adds jobs of so many names, of which one job each may be active. Their handlers do not end while a worker goes on. */
  readonly fillNames?: (names: number, jobsOfEach: number) => Promise<unknown>;
  /** Cancels a job by the id that `add` resolved with. */
  readonly cancel?: (id: string) => Promise<unknown>;
  /** Stores so many schedules that are not due for years; and runs them. */
  readonly schedules?: { store(count: number): Promise<unknown>; run(): void };
  /** Adds flows. Each is a job with its children. */
  readonly addFlows?: (flows: readonly Flow[]) => Promise<unknown>;
  /** Removes jobs and all jobs below them, by the ids that `addFlows` resolved with. */
  readonly removeFlows?: (ids: readonly string[]) => Promise<unknown>;
  /** Deletes what waits. Resolves with the number of jobs. */
  readonly drain?: () => Promise<number>;
  /** Starts a worker. Resolves once it is ready, with the function that ends it. */
  work(concurrency: number, handler: Handler): Promise<() => Promise<unknown>>;
}

type Definition = AnyDefinition<BenchQueue, QueueSetup>;

const name = "bench";

/** For implementations whose jobs have no signal. */
const noSignal = { signal: new AbortController().signal };

const schedulesOn = (schedules: Schedules): NonNullable<BenchQueue["schedules"]> => ({
  store: async (count) => {
    const startAt = Date.now() + 3e11;
    for (let first = 0; first < count; first += 500)
      await Promise.all(
        Array.from({ length: Math.min(500, count - first) }, (_, index) =>
          schedules.upsert(`s${String(first + index)}`, { name: "job", data: {}, everyMs: 60_000, startAt }),
        ),
      );
  },
  run: () => schedules.run(),
});

const kit: Definition = {
  id: "kit",
  settings: ({ deadlineMs }) =>
    deadlineMs === 2_000
      ? "defaults"
      : "defaults but deadlineMs: 20000; where a case says strict or ack each: strict: true, ack: each",
  open: async (
    url,
    { keepsHistory = false, reportsProgress = false, deadlineMs = 20_000, groups, ...setup },
    connect,
  ) => {
    // An older build, with which this one is compared, may lack these entries.
    const history = keepsHistory ? (await import("@kit/queue/history")).keepHistory() : undefined;
    const { reportProgress } = reportsProgress ? await import("@kit/queue/progress") : {};
    const { createQueue } = await import("@kit/queue");
    const { cancelJob, drainQueue, removeJob, setLimits } = await import("@kit/queue/manage");
    const { createSchedules } = await import("@kit/queue/schedules");
    const redis = await connect(url);
    // On a busy machine a bulk of megabytes can take long.
    const queue = createQueue<{ job: (data: Data) => unknown }>(redis, name, {
      deadlineMs,
      ...(history && { history }),
    });
    const address = { queue: name };
    // As for every peer, a plain add has no options.
    const optionsOf = ({ n }: Data) => (groups === undefined ? undefined : { group: `g${String(n % groups)}` });
    // Names that are made while it runs have no type.
    const anyQueue = queue as unknown as Queue;
    let full: readonly string[] = [];
    return {
      add: (data) => queue.add("job", data, optionsOf(data)),
      addMany: (all) => queue.addAll(all.map((data) => ({ name: "job", data, ...optionsOf(data) }))),
      addDelayed: (data, delayMs) => queue.add("job", data, { delayMs }),
      addRanked: (all, priorityOf) =>
        Promise.all(all.map((data) => queue.add("job", data, { priority: priorityOf(data) }))),
      limit: (count, burst) => setLimits(redis, address, { rate: { count, perMs: 1_000, burst } }),
      fillNames: async (count, jobsOfEach) => {
        full = Array.from({ length: count }, (_, index) => `full-${String(index)}`);
        const names = Object.fromEntries(full.map((one) => [one, { concurrency: 1 }]));
        await setLimits(redis, address, { names });
        for (let round = 0; round < jobsOfEach; round++)
          await anyQueue.addAll(full.map((one) => ({ name: one, data: {} })));
      },
      cancel: (id) => cancelJob(redis, address, id),
      schedules: schedulesOn(createSchedules(redis, name, { deadlineMs })),
      addFlows: async (flows) => {
        const { addFlow } = await import("@kit/queue/flows");
        const job = (data: Data) => ({ name: "job", data }) as const;
        const added = await Promise.all(
          flows.map(({ root, children }) => addFlow(queue, { ...job(root), children: children.map(job) })),
        );
        return added.map(({ id }) => id);
      },
      removeFlows: async (all) => {
        for (const id of all) await removeJob(redis, address, id, { children: true });
      },
      drain: () => drainQueue(redis, address),
      work: async (concurrency, handler) => {
        const run = async (job: Job): Promise<void> => {
          await handler(job.data as Data, job);
          void reportProgress?.(job, { done: 1 });
        };
        const hang = ({ signal }: { readonly signal: AbortSignal }): Promise<unknown> => once(signal, "abort");
        const hanging = Object.fromEntries(full.map((one) => [one, hang]));
        const handlers = { ...hanging, job: run };
        const worker = anyQueue.work(handlers as never, { concurrency: concurrency + full.length, ...setup });
        return () => worker.close(full.length > 0 ? { timeoutMs: 0 } : {});
      },
    };
  },
};

const bullmq = (
  id: string,
  isDefaults: boolean,
  settings: object,
  from: "bullmq" | "bullmq60" = "bullmq",
): Definition => ({
  id,
  peer: pinned(from),
  isDefaults,
  settings: isDefaults ? "as it comes" : inWords(settings),
  open: async (url) => {
    const loading = from === "bullmq" ? import("bullmq") : import("bullmq60");
    const { FlowProducer, Queue, Worker } = (await loading) as typeof import("bullmq");
    // Two versions on one server must not share a queue.
    const own = from === "bullmq" ? name : from;
    const connection = await connected(url);
    let producer: InstanceType<typeof FlowProducer> | undefined;
    const queue = new Queue(own, { connection: connection as never, defaultJobOptions: settings });
    queue.on("error", () => undefined);
    const blocking = reconnecting(url);
    blocking.options.maxRetriesPerRequest = null;
    return {
      add: (data) => queue.add("job", data),
      addMany: (all) => queue.addBulk(all.map((data) => ({ name: "job", data }))),
      addDelayed: (data, delay) => queue.add("job", data, { delay }),
      addRanked: (all, priorityOf) =>
        // Added so that every priority is at least 1.
        Promise.all(all.map((data) => queue.add("job", data, { priority: priorityOf(data) + 100 }))),
      addFlows: (flows) => {
        if (!producer) producer = new FlowProducer({ connection: connection as never }).on("error", () => undefined);
        const job = (data: Data) => ({ name: "job", queueName: own, data, opts: settings });
        return producer.addBulk(flows.map(({ root, children }) => ({ ...job(root), children: children.map(job) })));
      },
      work: async (concurrency, handler) => {
        const worker = new Worker<Data>(own, async ({ data }) => handler(data, noSignal), {
          connection: blocking as never,
          concurrency,
        });
        worker.on("error", () => undefined);
        await worker.waitUntilReady();
        return () => worker.close();
      },
    };
  },
});

/** bee-queue is ready only with an open command connection; its `redis` is a client of another library. */
const bee = (id: string, isDefaults: boolean, settings: object): Definition => ({
  id,
  peer: pinned("bee-queue"),
  isDefaults,
  settings: isDefaults ? "as it comes, with activateDelayedJobs where jobs are delayed" : inWords(settings),
  open: async (url) => {
    const { default: BeeQueue } = await import("bee-queue");
    const own = { ...settings, redis: { url }, activateDelayedJobs: true };
    const queue = await new BeeQueue<Data>(name, { ...own, isWorker: false }).ready();
    queue.on("error", () => undefined);
    return {
      add: (data) => queue.createJob(data).save(),
      addMany: async (all) => {
        const failed = await queue.saveAll(all.map((data) => queue.createJob(data)));
        if (failed.size > 0) throw new Error("some jobs were not saved");
      },
      addDelayed: (data, delayMs) =>
        queue
          .createJob(data)
          .delayUntil(Date.now() + delayMs)
          .save(),
      work: async (concurrency, handler) => {
        const worker = await new BeeQueue<Data>(name, own).ready();
        worker.on("error", () => undefined);
        worker.process(concurrency, async ({ data }) => handler(data, noSignal));
        return () => worker.close(1_000).catch(() => undefined);
      },
    };
  },
});

const groupmq: Definition = {
  id: "groupmq",
  peer: pinned("groupmq"),
  settings: "autoBatch, keepCompleted 0, 200 groups, which may run side by side",
  open: async (url) => {
    const { Queue, Worker } = await import("groupmq");
    const redis = (await connected(url)) as never;
    const queue = new Queue<Data>({ redis, namespace: name, keepCompleted: 0, autoBatch: { size: 100, maxWaitMs: 1 } });
    const add = (data: Data, delay?: number): Promise<unknown> =>
      queue.add({ groupId: `g${String(data.n % 200)}`, data, ...(delay === undefined ? {} : { delay }) });
    return {
      add,
      addMany: (all) => Promise.all(all.map((data) => add(data))),
      addDelayed: add,
      work: async (concurrency, handler) => {
        const worker = new Worker<Data>({ queue, concurrency, handler: async ({ data }) => handler(data, noSignal) });
        worker.on("error", () => undefined);
        void worker.run();
        return () => worker.close(1_000);
      },
    };
  },
};

const classic: Definition = {
  id: "classic",
  settings: "RPUSH of [name, args] as JSON; BLPOP, a connection per slot; delayed: ZSET, polled each 10 ms",
  open: async (url) => {
    const redis = await connected(url);
    return {
      add: (data) => enqueue(redis, name, "job", [data]),
      addMany: (all) => Promise.all(all.map((data) => enqueue(redis, name, "job", [data]))),
      addDelayed: (data, delayMs) => executeLater(redis, name, "job", [data], delayMs),
      work: async (concurrency, handler) => {
        let isOver = false;
        const slots = await Promise.all(Array.from({ length: concurrency + 1 }, () => connected(url)));
        const untilOver = async (round: () => Promise<unknown>): Promise<void> => {
          // A delayed item makes the round throw, so the loop starts the next one.
          while (!isOver) await round().catch(() => undefined);
        };
        const callbacks = { job: (data: unknown): unknown => handler(data as Data, noSignal) };
        const [mover, ...workers] = slots as [Redis, ...Redis[]];
        for (const slot of workers) void untilOver(() => workOnQueuesOnce(slot, [name], callbacks));
        void untilOver(() => moveDueOnce(mover));
        return async () => {
          isOver = true;
          for (const slot of slots) slot.disconnect();
        };
      },
    };
  },
};

const waiting = "floor:waiting";

/** What kit promises for each job (an id, a lease, an end by its holder alone), in raw commands. They are not atomic: a crash loses jobs. */
const leasedFloor: Definition = {
  id: "floor with leases",
  peer: "floor",
  settings: "one write each: ZADD, HSET, RPUSH to add; BLPOP, then ZADD, HGET to take; ZREM, HDEL to end",
  open: async (url) => {
    const redis = await connected(url);
    let made = 0;
    return {
      add: (data) => {
        const id = `abcdefgh.${String(++made)}`;
        const text = JSON.stringify(data);
        return redis.pipeline().zadd("producers", made, "abcdefgh").hset("jobs", id, text).rpush(waiting, id).exec();
      },
      addMany: () => Promise.reject(new Error("only for steady rates")),
      work: async (_concurrency, handler) => {
        let isOver = false;
        const [blocking, ending] = [await connected(url), await connected(url)];
        const loop = async (): Promise<void> => {
          while (!isOver) {
            const popped = await blocking.blpop(waiting, 1).catch(() => null);
            if (!popped) continue;
            const id = popped[1];
            const found = await redis
              .pipeline()
              .zadd("leases", Date.now() + 10_000, id)
              .hget("jobs", id)
              .exec();
            const run = async (): Promise<void> => {
              await handler(JSON.parse(String(found?.[1]?.[1])) as Data, noSignal);
              await ending.pipeline().zrem("leases", id).hdel("jobs", id).exec();
            };
            void run();
          }
        };
        void loop();
        return () => {
          isOver = true;
          blocking.disconnect();
          ending.disconnect();
          return Promise.resolve();
        };
      },
    };
  },
};

/** The floor: no lease, no identity. Each call is one command, or one variadic command for all items at hand. */
const floor: Definition = {
  id: "floor",
  settings:
    "RPUSH of JSON, variadic where many are at hand; RPOPLPUSH and LREM of what was done before, or LPOP 250 at a time with two calls under way where a worker may take ahead; nothing else",
  open: async (url, { strict }) => {
    const redis = await connected(url);
    let batch: string[] | undefined;
    let sending: Promise<unknown> = Promise.resolve();
    return {
      // Adds of one turn of the event loop share a command.
      add: (data) => {
        if (!batch) {
          const own: string[] = (batch = []);
          sending = Promise.resolve().then(() => {
            batch = undefined;
            return redis.rpush(waiting, ...own);
          });
        }
        batch.push(JSON.stringify(data));
        return sending;
      },
      addMany: (all) => redis.rpush(waiting, ...all.map((data) => JSON.stringify(data))),
      work: async (concurrency, handler) => {
        let isOver = false;
        const blocking = await connected(url);
        const ahead = async (): Promise<void> => {
          while (!isOver) {
            const all = await redis.lpop(waiting, 250);
            if (!all) await waitForOne();
            else for (const text of all) handler(JSON.parse(text) as Data, noSignal);
          }
        };
        const waitForOne = async (): Promise<void> => {
          const popped = await blocking.blpop(waiting, 1).catch(() => null);
          if (popped) handler(JSON.parse(popped[1]) as Data, noSignal);
        };
        const each = async (slot: number): Promise<void> => {
          let done = "";
          while (!isOver) {
            const removing = done === "" ? undefined : redis.lrem(`floor:active:${String(slot)}`, 1, done);
            const text = await redis.rpoplpush(waiting, `floor:active:${String(slot)}`);
            await removing;
            done = text ?? "";
            if (text === null) await sleep(1);
            else handler(JSON.parse(text) as Data, noSignal);
          }
        };
        if (strict) for (let slot = 0; slot < concurrency; slot++) void each(slot);
        else for (let call = 0; call < 2; call++) void ahead();
        return async () => {
          isOver = true;
          blocking.disconnect();
        };
      },
    };
  },
};

const keepNothing = { removeOnComplete: true, removeOnFail: true };
const tellNothing = {
  getEvents: false,
  sendEvents: false,
  storeJobs: false,
  removeOnSuccess: true,
  removeOnFailure: true,
  delayedDebounce: 1,
};

export const implementations = catalogOf<BenchQueue, QueueSetup>([
  kit,
  bullmq("bullmq", false, keepNothing),
  bullmq("bullmq defaults", true, {}),
  bullmq("bullmq 6.0 defaults", true, {}, "bullmq60"),
  bee("bee-queue", false, tellNothing),
  bee("bee-queue defaults", true, {}),
  groupmq,
  classic,
  floor,
  leasedFloor,
]);

/** Number of jobs in a measurement of throughput: about a second's work. */
export const loadOf = (id: string): number => loads[id.replace(" defaults", "")] ?? 0;
const loads: Readonly<Record<string, number>> = {
  kit: 120_000,
  bullmq: 12_000,
  "bee-queue": 16_000,
  groupmq: 4_000,
  classic: 20_000,
  floor: 200_000,
};
