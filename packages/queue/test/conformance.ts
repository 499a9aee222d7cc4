import { eventually } from "@kit/testing";
import { canary, type Conformance, conforming } from "@tooling/vitest/conformance";
import {
  type AddOnceOptions,
  type AddOptions,
  type CallOptions,
  createQueue,
  type Queue,
  type WorkOptions,
} from "../src/index.js";
import { addFlow } from "../src/flows/index.js";
import { addRules } from "../src/add/options.js";
import { callRules } from "../src/call/options.js";
import { letterRules, redriveRules } from "../src/dead/options.js";
import { queueRules } from "../src/store/options.js";
import { workRules } from "../src/work/options.js";
import { createSchedules, type Schedules } from "../src/schedules/index.js";
import { listRules, scheduleRules, schedulesRules } from "../src/schedules/options.js";
import { name, permanentKeys, Runs } from "./harness.js";

const backoff = [{ firstMs: -1 }, { firstMs: 1, jitter: 2 }, { firstMs: 1, factor: Number.NaN }, null];
const refused = {
  backoff,
  group: ["", "x".repeat(129), "a\nb", "\ud800", 42, null],
  id: ["", "x".repeat(129), "!5!x", "a\nb", "\ud800", "x7Kp2mQ9a.001f", 42, null],
  unique: [
    {},
    { key: "" },
    { key: "a\nb" },
    { key: "a", mode: "keepLast", ttlMs: 5 },
    { key: "a", extend: true },
    "a",
    null,
  ],
  dueAt: [-1, Number.NaN, Infinity, "1", null, new Date(Number.NaN), 1e15, new Date(8.64e15)],
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

const hourly = { everyMs: 3_600_000, name: "job", data } as const;
const scheduled = (schedules: Schedules): Promise<unknown> => schedules.upsert("hourly", hourly);
const scheduleTrace = (operation: string): [string, object] => [
  `kit:queue.schedules.${operation}`,
  { queue: name, schedule: "hourly" },
];

/** A queue and its schedules, for the conformance suites. */
export const conformance: Conformance = {
  name: "queue",
  permanentKeys,
  objects: [
    conforming<Queue>({
      what: "a queue",
      make: (client, options) => createQueue(client, name, options),
      named: (client, named) => createQueue(client, named),
      options: queueRules,
      refused: {
        backoff,
        deadLetters: [{ maxCount: -1 }, { count: 1 }, { maxAgeMs: "1" }, 1],
        durable: [true, { replicas: 0 }, { fsync: "always" }, { waitMs: 5 }],
        schemas: [1, null],
        history: [1, {}, null],
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
          refused,
          run: (queue, options: AddOptions) => queue.add("job", data, options),
          trace: ["kit:queue.add", { queue: name, job: "job" }],
        },
        addOnce: {
          options: addRules,
          refused,
          run: (queue, options: AddOptions) => {
            const isObject = options === undefined || Object.getPrototypeOf(options) === Object.prototype;
            const own = Object.entries(options ?? {}).filter(([, value]) => value !== undefined);
            const withId = isObject ? { id: "once", ...Object.fromEntries(own) } : options;
            return queue.addOnce("job", data, withId as AddOnceOptions);
          },
          trace: ["kit:queue.add", { queue: name, job: "job" }],
        },
        call: {
          options: callRules,
          refused,
          prepare: (queue) => Promise.resolve(queue.work({ job: () => 1 })),
          run: (queue, options: CallOptions) => queue.call("job", data, options),
          trace: ["kit:queue.call", { queue: name, job: "job" }],
        },
        "call, waiting": {
          options: { signal: callRules.signal },
          run: (queue, options: CallOptions) => queue.call("job", data, options),
          waits: true,
        },
        addAll: {
          run: (queue) => queue.addAll([{ name: "job", data }]),
          trace: ["kit:queue.addAll", { queue: name, jobs: 1 }],
        },
        "addAll, as a flow": {
          run: (queue) => addFlow(queue, { name: "job", data }),
          trace: ["kit:queue.addFlow", { queue: name, jobs: 1 }],
        },
        work: {
          options: workRules,
          refused,
          run: (queue, options: WorkOptions) => void queue.work({ job: () => undefined }, options),
          isLocal: true,
        },
        deadLetters: {
          options: letterRules,
          refused: {
            before: ["x", 1, { id: "x" }, { id: "", diedAt: 1 }, { id: "x", diedAt: -1 }],
            job: ["", "x".repeat(129), 7, null],
          },
          run: (queue, options) => queue.deadLetters(options),
          trace: ["kit:queue.deadLetters", { queue: name }],
        },
        "deadLetters, of a job that failed": { prepare: deadLetter, run: (queue) => queue.deadLetters() },
        redrive: {
          options: redriveRules,
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
      others: ["workInTurn", "health"],
    }),
    conforming<Schedules>({
      what: "schedules",
      make: (client, options) => createSchedules(client, name, options),
      named: (client, named) => createSchedules(client, named),
      options: schedulesRules,
      refused: { backoff },
      works: async (schedules) => {
        await scheduled(schedules);
        const { id, left, everyMs } = (await schedules.get("hourly"))!;
        return [id, left, everyMs, await schedules.list({ start: 1 }), await schedules.remove("hourly")];
      },
      calls: {
        upsert: {
          options: scheduleRules,
          required: hourly,
          refused: {
            // Whatever JSON can hold.
            data: [],
            name: ["", "x".repeat(129), 7, null],
            startAt: refused.dueAt,
            endAt: refused.dueAt,
            options: [1, { lifo: true }],
          },
          run: (schedules, options: object) => schedules.upsert("hourly", options as typeof hourly),
          trace: scheduleTrace("upsert"),
        },
        remove: {
          prepare: scheduled,
          run: (schedules) => schedules.remove("hourly"),
          trace: scheduleTrace("remove"),
        },
        pause: { prepare: scheduled, run: (schedules) => schedules.pause("hourly"), trace: scheduleTrace("pause") },
        resume: { prepare: scheduled, run: (schedules) => schedules.resume("hourly"), trace: scheduleTrace("resume") },
        runNow: { prepare: scheduled, run: (schedules) => schedules.runNow("hourly"), trace: scheduleTrace("runNow") },
        get: { prepare: scheduled, run: (schedules) => schedules.get("hourly"), trace: scheduleTrace("get") },
        next: { prepare: scheduled, run: (schedules) => schedules.next("hourly", 3), trace: scheduleTrace("next") },
        list: {
          options: listRules,
          prepare: scheduled,
          run: (schedules, options) => schedules.list(options),
          trace: ["kit:queue.schedules.list", { queue: name }],
        },
        run: { run: (schedules) => schedules.run(), isLocal: true },
        runDue: {
          prepare: scheduled,
          run: (schedules) => schedules.runDue(),
          trace: ["kit:queue.schedules.runDue", { queue: name }],
        },
      },
    }),
  ],
};
