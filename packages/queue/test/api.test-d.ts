// Compiled, never run: pins the types that callers see. A change of the surface must be made here too.
import type { RedisLike } from "@kit/core";
import type { StandardSchema } from "@kit/core/config";
import type { Cluster, Redis } from "ioredis";
import {
  type AnyJob,
  createQueue,
  type Job,
  type Queue,
  RateLimitError,
  SnoozeError,
  UnrecoverableError,
  type Worker,
} from "../src/index.js";
import { listWorkers } from "../src/manage/index.js";
import { createOrderedWorker } from "../src/ordered/index.js";
import { batched } from "../src/batch/index.js";
import {
  addFlow,
  type FlowChild,
  type FlowEdge,
  type FlowReport,
  inspectFlow,
  readChildren,
  WaitForChildren,
} from "../src/flows/index.js";
import { createSchedules } from "../src/schedules/index.js";
import { drain } from "../src/testing/index.js";

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
type Check<Proof extends true> = Proof;

declare const redis: Redis;
declare const cluster: Cluster;
const clients: RedisLike[] = [redis, cluster];

interface Jobs {
  email(data: { to: string }): void;
  resize(data: { url: string; width: number }): Uint8Array;
  cleanUp(): void;
}
const queue: Queue<Jobs> = createQueue<Jobs>(redis, "mail");

export const added: Promise<string>[] = [
  queue.add("email", { to: "ann" }),
  queue.add("resize", { url: "", width: 1 }, { priority: -1 }),
  queue.add("cleanUp"),
  queue.add("email", { to: "ann" }, { group: "tenant-7" }),
  // @ts-expect-error no such job
  queue.add("emial", { to: "ann" }),
  // @ts-expect-error the data of another job
  queue.add("email", { url: "" }),
  // @ts-expect-error data is missing
  queue.add("email"),
  // @ts-expect-error no such option
  queue.add("email", { to: "ann" }, { delay: 5 }),
];
export const once: Promise<true | "ready" | "active" | "delayed" | "dead" | "lost" | "unsure" | "ended">[] = [
  queue
    .addOnce("email", { to: "ann" }, { id: "own", delayMs: 5 })
    .then((added) => (added.isAdded ? true : added.state)),
  queue.addOnce("cleanUp", undefined, { id: "own" }).then((added) => added.state ?? true),
  queue
    .addOnce("cleanUp", undefined, { unique: { key: "own", mode: "keepLast" } })
    .then((added) => added.isReplaced ?? "dead"),
  // @ts-expect-error neither an id nor a key
  queue.addOnce("email", { to: "ann" }, {}),
];
export const several: Promise<string[]> = queue.addAll([
  { name: "email", data: { to: "ann" } },
  { name: "resize", data: { url: "", width: 1 }, delayMs: 5 },
  { name: "cleanUp" },
  { name: "cleanUp", priority: 1 },
  // @ts-expect-error data is missing
  { name: "email" },
  // @ts-expect-error the data of another job
  { name: "resize", data: { to: "ann" } },
]);

export const worker: Worker<Jobs> = queue.work({
  email: (job) => {
    const isSame: Check<Same<typeof job, Job<"email", { to: string }>>> = true;
    return [job.data.to, isSame];
  },
  resize: async ({ data, signal }) => (signal.aborted ? new Uint8Array() : new Uint8Array(data.width)),
  cleanUp: ({ data }) => {
    const isSame: Check<Same<typeof data, undefined>> = true;
    return isSame;
  },
});
queue.work({
  email: () => new SnoozeError(5),
  resize: async ({ data }) => (data.width > 0 ? new Uint8Array() : new UnrecoverableError("no width")),
  cleanUp: () => new RateLimitError(5),
});
// @ts-expect-error a handler is missing
queue.work({ email: () => undefined, resize: () => new Uint8Array() });
queue.work({
  email: (job) => {
    const isSame: Check<Same<typeof job, Job<"email", { to: string }>>> = true;
    return isSame;
  },
  "*": (job) => {
    const isSame: Check<Same<typeof job, AnyJob<Jobs>>> = true;
    return job.name === "resize" ? new Uint8Array(job.data.width) : isSame;
  },
});
queue.work({ "*": async ({ name, data }) => Promise.resolve([name, data]) });
// @ts-expect-error the result of another job
queue.work({ resize: () => "text", "*": () => undefined });
// @ts-expect-error no such job
queue.work({ emial: () => undefined, "*": () => undefined });
declare const numbers: Queue<{ one(): number; two(): string }>;
numbers.work({ "*": ({ name }) => (name === "one" ? 1 : "two") });
// @ts-expect-error the result of no job
numbers.work({ "*": () => true });
// @ts-expect-error the result of another job
queue.work({ email: () => undefined, resize: () => "text", cleanUp: () => undefined });
queue.work({
  email: batched({ size: 10 }, async (jobs, signal) => {
    const isSame: Check<Same<typeof jobs, readonly Job<"email", { to: string }>[]>> = true;
    await Promise.resolve([isSame, signal.aborted]);
  }),
  resize: batched({ size: 10, waitMs: 5 }, (jobs) =>
    jobs.map(({ data }) => (data.width > 0 ? new Uint8Array(data.width) : new Error(data.url))),
  ),
  cleanUp: batched({ size: 10 }, (jobs) => jobs.map(({ id }) => id)),
});
queue.work({
  email: batched({ size: 10 }, () => undefined),
  // @ts-expect-error the result of another job
  resize: batched({ size: 10 }, (jobs) => jobs.map(() => "text")),
  // @ts-expect-error no such option
  cleanUp: batched({ size: 10, wait: 5 }, () => undefined),
});

for (const event of ["completed", "failed", "snoozed", "dead", "lost", "cancelled", "expired"] as const)
  worker.on(event, ({ job }) => {
    if (job.name === "resize") return job.data.width;
    const isSame: Check<Same<typeof job.name, "email" | "cleanUp">> = true;
    return isSame;
  });
const log = (...facts: readonly unknown[]): unknown => facts;
for (const event of ["completed", "crashed", "error"] as const) worker.on(event, log).once(event, log).off(event, log);

interface Report {
  readonly at: Date;
  readonly rows: readonly { readonly id: bigint | null; readonly due?: Date; close(): void }[];
  readonly of: "all" | "some";
}
declare const reports: Queue<{ report(): Promise<Report>; bytes(): Buffer; any(): unknown }>;
void reports.call("report").then((report) => {
  type Sent = {
    readonly at: string;
    readonly rows: readonly { readonly id: null; readonly due?: string }[];
    readonly of: "all" | "some";
  };
  const isSame: Check<Same<typeof report, Sent>> = true;
  return isSame;
});
void reports.call("bytes").then((bytes) => {
  const isSame: Check<Same<typeof bytes, Buffer>> = true;
  return isSame;
});
void reports.call("any").then((any) => {
  const isSame: Check<Same<typeof any, unknown>> = true;
  return isSame;
});

interface DatedJobs {
  remind(data: { readonly at: Date; readonly tags?: readonly (string | Date)[] }): void;
  thumb(data: Uint8Array): void;
}
declare const dated: Queue<DatedJobs>;
void dated.add("remind", { at: new Date() });
void dated.add("thumb", new Uint8Array());
const remind = ({ data }: { readonly data: { readonly at: string } }): unknown => data.at;
const datedWorker = dated.work({
  remind: ({ data }) => {
    const isText: Check<Same<typeof data, { readonly at: string; readonly tags?: readonly string[] }>> = true;
    return isText;
  },
  thumb: ({ data }) => {
    const isBuffer: Check<Same<typeof data, Buffer>> = true;
    return isBuffer;
  },
});
datedWorker.on("completed", ({ job }) => (job.name === "remind" ? remind(job) : job.data.length));
createOrderedWorker({}).serve(dated, { remind, thumb: ({ data }) => data.toString("hex") });
createOrderedWorker({}).serve(dated, { remind, "*": ({ name }) => name });
void drain(dated, { remind, thumb: ({ data }) => data.toString("hex") });

declare const dateSchema: StandardSchema<{ at: string }, { at: Date }>;
const converting = createQueue<DatedJobs>(redis, "dated", { schemas: { remind: dateSchema } });
converting.work({ remind: ({ data }) => data.at.getTime(), thumb: ({ data }) => data.length });
void drain(converting, { remind: ({ data }) => data.at.getTime(), thumb: ({ data }) => data.length });

export const called: Promise<Uint8Array> = queue.call("resize", { url: "", width: 1 }, { waitMs: 1_000 });
export const nothing: Promise<void> = queue.call("cleanUp");
// @ts-expect-error an id that may be known already
void queue.call("resize", { url: "", width: 1 }, { id: "own" });
// @ts-expect-error a key that another job may have
void queue.call("resize", { url: "", width: 1 }, { unique: { key: "own" } });

declare const emailSchema: StandardSchema<{ to: string; cc?: string }, { to: string }>;
createQueue<Jobs>(redis, "mail", { schemas: { email: emailSchema } });
// @ts-expect-error the schema of another job
createQueue<Jobs>(redis, "mail", { schemas: { resize: emailSchema } });
// @ts-expect-error no such job
createQueue<Jobs>(redis, "mail", { schemas: { emial: emailSchema } });

export const probes: Promise<boolean>[] = [
  worker.health().then(({ isAlive }) => isAlive),
  queue.health().then(({ isReady, workers: [one] }) => isReady && one?.error?.code !== "KIT_LAYOUT"),
];
export const hosts: Promise<(string | null)[]> = listWorkers(redis, { queue: "mail" }).then(({ workers }) =>
  workers.map(({ host, longest }) => longest?.startedAt ?? host),
);
queue.work({ "*": () => undefined }, { name: "mailer" });

const untyped: Queue = createQueue(clients[0]!, "any");
void untyped.add("whatever", { of: "any kind" });
untyped.work({ whatever: ({ data }) => String(data) });
untyped.work({ "*": ({ name, data }) => name + String(data) });

const edge: FlowEdge<Jobs> = {
  job: { name: "resize", data: { url: "", width: 1 }, children: [] },
  onFailure: "ignore",
};
export const flows: Promise<string>[] = [
  addFlow(queue, {
    ...{ name: "email", data: { to: "ann" }, id: "own", delayMs: 5, priority: 1, maxAttempts: 2, expiresMs: 5 },
    children: [{ name: "cleanUp", lifo: true, backoff: { firstMs: 5 }, timeoutMs: 5, dueAt: 5 }, edge],
  }).then(({ id, ids }) => ids.get({ name: "cleanUp" }) ?? id),
  // @ts-expect-error the data of another job
  addFlow(queue, { name: "email", data: { url: "", width: 1 } }).then(({ id }) => id),
  // @ts-expect-error the data of another job, in a child
  addFlow(queue, { name: "cleanUp", children: [{ name: "email", data: { url: "", width: 1 } }] }).then(({ id }) => id),
  // @ts-expect-error a flow has no keys
  addFlow(queue, { name: "cleanUp", unique: { key: "a" } }).then(({ id }) => id),
];
export const waiting: WaitForChildren<Jobs>[] = [
  new WaitForChildren<Jobs>([{ name: "email", data: { to: "ann" } }, edge]),
  // @ts-expect-error the data of another job
  new WaitForChildren<Jobs>([{ name: "email", data: { url: "", width: 1 } }]),
];
queue.work({
  "*": () => new WaitForChildren<Jobs>([{ name: "cleanUp" }]),
  resize: () => new WaitForChildren<Jobs>([edge]),
});
export const children = (job: Job): Promise<readonly FlowChild[]>[] => [
  readChildren(job, { start: 5, count: 5 }).then((page) => page.children),
  inspectFlow(redis, { queue: "mail" }, "id", { start: 5, count: 5 }).then((report: FlowReport) => report.children),
];

const schedules = createSchedules<Jobs>(redis, "mail", { lookEveryMs: 1_000 });
export const upserted: Promise<number | undefined>[] = [
  schedules.upsert("a", { everyMs: 5, name: "email", data: { to: "ann" } }).then(({ nextAt }) => nextAt),
  schedules.upsert("b", { cron: "* * * * *", timezone: "UTC", name: "cleanUp", count: 3, missed: "all" }).then(() => 1),
  // @ts-expect-error the data of another job
  schedules.upsert("c", { everyMs: 5, name: "resize", data: { to: "ann" } }),
  // @ts-expect-error no such job
  schedules.upsert("d", { everyMs: 5, name: "emial" }),
  // @ts-expect-error its job has an id of its own
  schedules.upsert("e", { everyMs: 5, name: "cleanUp", options: { id: "own" } }),
];
schedules.on("added", ({ schedule, jobs }) => schedule + jobs.join());
