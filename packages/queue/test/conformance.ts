import { eventually } from "@kit/testing";
import {
  boolean,
  canary,
  clientRules,
  type Conformance,
  conforming,
  integer,
  milliseconds,
  type OptionRules,
  refusing,
  signal,
  text,
} from "@tooling/vitest/conformance";
import {
  type AddOnceOptions,
  type AddOptions,
  type CallOptions,
  createQueue,
  type Queue,
  type WorkOptions,
} from "../src/index.js";
import { name, permanentKeys, Runs } from "./harness.js";

const backoff = refusing({ firstMs: -1 }, { firstMs: 1, jitter: 2 }, { firstMs: 1, factor: Number.NaN }, null);
const jobRules: OptionRules = { maxAttempts: integer(1, 1_000_000), backoff, timeoutMs: milliseconds(1) };
const addRules: OptionRules = {
  ...jobRules,
  id: refusing("", "x".repeat(129), "!5!x", "a\nb", "\ud800", "x7Kp2mQ9a.001f", 42, null),
  delayMs: milliseconds(0, 3e14),
  dueAt: refusing(-1, Number.NaN, Infinity, "1", null, new Date(Number.NaN)),
  priority: integer(1 - 2 ** 20, 2 ** 20 - 1),
  lifo: boolean,
  op: text(256),
  signal,
};
const data = { card: canary };

/** Ids of dead letters: one job that failed. */
const deadLetter = async (queue: Queue): Promise<string[]> => {
  const worker = queue.work({
    job: () => {
      throw new Error(canary);
    },
  });
  await queue.add("job", data);
  const letters = await eventually(async () => {
    const found = await queue.deadLetters();
    if (found.length === 0) throw new Error("it has not failed yet");
    return found;
  });
  await worker.close();
  return letters.map(({ id }) => id);
};

/** A queue, for the conformance suites. */
export const conformance: Conformance = {
  name: "queue",
  permanentKeys,
  objects: [
    conforming<Queue>({
      what: "a queue",
      make: (client, options) => createQueue(client, name, options),
      named: (client, named) => createQueue(client, named),
      options: {
        ...clientRules,
        ...jobRules,
        maxPayloadBytes: integer(1, 512 * 1_024 * 1_024),
        maxPending: integer(1),
        allowEviction: boolean,
        deadLetters: refusing({ maxCount: -1 }, { count: 1 }, { maxAgeMs: "1" }, 1),
        durable: refusing(true, { replicas: 0 }, { fsync: "always" }, { waitMs: 5 }),
        schemas: refusing(1, null),
      },
      works: async (queue) => {
        const runs = new Runs();
        const worker = queue.work({ job: runs.handler }, { ack: "each" });
        await queue.addAll([
          { name: "job", data: 1 },
          { name: "job", data: new Uint8Array([0, 255]), delayMs: 20 },
        ]);
        await runs.until(2);
        await worker.close();
        return runs.data;
      },
      wakes: {
        work: async (queue, settle) => {
          const runs = new Runs();
          const worker = queue.work({ job: runs.handler });
          await settle();
          await queue.add("job", 1);
          await runs.until(1);
          await worker.close();
          return runs.data;
        },
        call: async (queue, settle) => {
          const called = queue.call("job", 1);
          await settle();
          const worker = queue.work({ job: () => "done" });
          const result = await called;
          await worker.close();
          return result;
        },
      },
      calls: {
        add: {
          options: addRules,
          run: (queue, options: AddOptions) => queue.add("job", data, options),
          trace: ["kit:queue.add", { queue: name, job: "job" }],
        },
        addOnce: {
          options: addRules,
          run: (queue, options: AddOptions) => {
            const isObject = options === undefined || Object.getPrototypeOf(options) === Object.prototype;
            const own = Object.entries(options ?? {}).filter(([, value]) => value !== undefined);
            const withId = isObject ? { id: "once", ...Object.fromEntries(own) } : options;
            return queue.addOnce("job", data, withId as AddOnceOptions);
          },
          trace: ["kit:queue.add", { queue: name, job: "job" }],
        },
        call: {
          options: {
            ...jobRules,
            waitMs: milliseconds(1, 86_400_000),
            priority: integer(1 - 2 ** 20, 2 ** 20 - 1),
            signal,
          },
          prepare: (queue) => Promise.resolve(queue.work({ job: () => 1 })),
          run: (queue, options: CallOptions) => queue.call("job", data, options),
          trace: ["kit:queue.call", { queue: name, job: "job" }],
        },
        "call, waiting": {
          options: { signal },
          run: (queue, options: CallOptions) => queue.call("job", data, options),
          waits: true,
        },
        addAll: {
          run: (queue) => queue.addAll([{ name: "job", data }]),
          trace: ["kit:queue.addAll", { queue: name, jobs: 1 }],
        },
        work: {
          options: {
            concurrency: integer(1, 10_000),
            leaseMs: milliseconds(200, 86_400_000),
            maxCrashes: integer(1, 1_000_000),
            strict: boolean,
            ack: refusing("never", 1, null),
            backoff,
          },
          run: (queue, options: WorkOptions) => void queue.work({ job: () => undefined }, options),
          isLocal: true,
        },
        deadLetters: {
          options: {
            before: refusing("x", 1, { id: "x" }, { id: "", diedAt: 1 }, { id: "x", diedAt: -1 }),
            count: integer(1, 100),
            job: refusing("", "x".repeat(129), 7, null),
          },
          run: (queue, options) => queue.deadLetters(options),
          trace: ["kit:queue.deadLetters", { queue: name }],
        },
        "deadLetters, of a job that failed": { prepare: deadLetter, run: (queue) => queue.deadLetters() },
        redrive: {
          options: { spreadMs: milliseconds(0, 3e14) },
          prepare: deadLetter,
          run: (queue, options, ids: string[]) => queue.redrive(ids, options),
          trace: ["kit:queue.redrive", { queue: name }],
        },
        dropDeadLetters: {
          prepare: deadLetter,
          run: (queue, _options, ids: string[]) => queue.dropDeadLetters(ids),
          trace: ["kit:queue.drop", { queue: name }],
        },
      },
      others: ["workInTurn"],
    }),
  ],
};
