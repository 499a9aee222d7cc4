import { readFileSync } from "node:fs";
import { startRedis } from "@kit/testing";
import { describeMigration, printedBy } from "@tooling/vitest/helpers";
import type {
  AdvancedOptions,
  BackoffOptions,
  DeduplicationOptions,
  FlowJobBase,
  FlowOpts,
  FlowProducerOptions,
  JobSchedulerTemplateOptions,
  JobsOptions,
  MetricsOptions,
  ParentOptions,
  QueueBaseOptions,
  QueueEventsListener,
  QueueEventsOptions,
  QueueListener,
  QueueOptions,
  RateLimiterOptions,
  RepeatOptions,
  WorkerListener,
  WorkerOptions,
} from "bullmq";
import { Redis } from "ioredis";
import { describe, expect, it, vi } from "vitest";

const guide = new URL("../../../apps/docs/migration/bullmq.md", import.meta.url);

describeMigration(startRedis, guide, new URL("migration/", import.meta.url));

it("the way back keeps a job whose id another job of BullMQ has, and continues after an error", async () => {
  await using server = await startRedis();
  vi.stubEnv("REDIS_URL", server.url);
  const redis = new Redis(server.url);
  const stored = { name: "email", opts: "{}", timestamp: 1, delay: 0, priority: 0 };
  try {
    // BullMQ keeps what it has completed. It would ignore a job with this id, without an error.
    await redis.hset("bull:mail:kit-17", { ...stored, data: '"finished"' });
    await redis.zadd("bull:mail:completed", 1, "kit-17");
    const { href } = new URL("migration/back.during.ts", import.meta.url);
    expect(await printedBy(`${href}?finished`)).toEqual(["2 1", "2 1", "1 1"]);
    expect(await redis.hget("bull:mail:kit-17", "data")).toBe('"finished"');
    expect(await redis.hexists("kit:queue:{mail}:jobs", "17")).toBe(1);
    // As after an error between the add to BullMQ and the removal from kit.
    await redis.flushall();
    await redis.hset("bull:mail:kit-17", { ...stored, data: '{"to":"ann@example.org"}' });
    await redis.lpush("bull:mail:wait", "kit-17");
    expect(await printedBy(`${href}?again`)).toEqual(["3 0", "3 0", "2 1"]);
    expect(await redis.hlen("kit:queue:{mail}:jobs")).toBe(0);
    // A job that waits with this id, and is another one.
    await redis.flushall();
    await redis.hset("bull:mail:kit-17", { ...stored, data: '"other"' });
    await redis.lpush("bull:mail:wait", "kit-17");
    expect(await printedBy(`${href}?other`)).toEqual(["2 1", "2 1", "2 1"]);
    expect(await redis.hget("bull:mail:kit-17", "data")).toBe('"other"');
    expect(await redis.hexists("kit:queue:{mail}:jobs", "17")).toBe(1);
  } finally {
    redis.disconnect();
    vi.unstubAllEnvs();
  }
});

/** An entry for each option of a type, and for no other: the compiler refuses a list that is not that of the installed BullMQ. */
type Listed<Options> = Readonly<Record<keyof Options, 1>>;

/** Without the options of the base, which the table of the queue has. */
type Own<Options> = Omit<Options, keyof QueueBaseOptions | "prefix">;

const base: Listed<QueueBaseOptions> = {
  ...{ connection: 1, blockingConnection: 1, skipVersionCheck: 1, telemetry: 1, skipWaitingForReady: 1 },
};
const queue: Listed<Own<QueueOptions>> = { defaultJobOptions: 1, streams: 1, skipMetasUpdate: 1, settings: 1 };
const job: Listed<JobsOptions> = {
  ...{ timestamp: 1, priority: 1, delay: 1, attempts: 1, backoff: 1, lifo: 1, removeOnComplete: 1, removeOnFail: 1 },
  ...{ keepLogs: 1, stackTraceLimit: 1, sizeLimit: 1, repeatJobKey: 1, jobId: 1, parent: 1, prevMillis: 1 },
  ...{ deduplication: 1, failParentOnFailure: 1, continueParentOnFailure: 1, ignoreDependencyOnFailure: 1 },
  ...{ removeDependencyOnFailure: 1, telemetry: 1 },
};
const backoff: Listed<BackoffOptions> = { type: 1, delay: 1, jitter: 1 };
const deduplication: Listed<DeduplicationOptions> = {
  ...{ id: 1, ttl: 1, extend: 1, replace: 1, reschedule: 1, keepLastIfActive: 1 },
};
const telemetry: Listed<NonNullable<JobsOptions["telemetry"]>> = { metadata: 1, omitContext: 1 };
const parent: Listed<ParentOptions> = { id: 1, queue: 1 };
const worker: Listed<Own<WorkerOptions>> = {
  ...{ name: 1, autorun: 1, concurrency: 1, limiter: 1, metrics: 1, maximumRateLimitDelay: 1, maxStartedAttempts: 1 },
  ...{ maxStalledCount: 1, stalledInterval: 1, removeOnComplete: 1, removeOnFail: 1, skipStalledCheck: 1 },
  ...{ skipLockRenewal: 1, drainDelay: 1, lockDuration: 1, lockRenewTime: 1, runRetryDelay: 1, settings: 1 },
  ...{ useWorkerThreads: 1, workerForkOptions: 1, workerThreadsOptions: 1 },
};
const limiter: Listed<RateLimiterOptions> = { max: 1, duration: 1 };
const metrics: Listed<MetricsOptions> = { maxDataPoints: 1 };
const settings: Listed<AdvancedOptions> = { backoffStrategy: 1, repeatStrategy: 1, repeatKeyHashAlgorithm: 1 };
const events: Listed<Own<QueueEventsOptions>> = { autorun: 1, lastEventId: 1, blockingTimeout: 1 };
const scheduler: Listed<RepeatOptions> = {
  ...{ endDate: 1, startDate: 1, pattern: 1, key: 1, limit: 1, every: 1, immediately: 1, count: 1, offset: 1 },
  ...{ prevMillis: 1, jobId: 1, tz: 1 },
};
const template: Listed<Omit<JobSchedulerTemplateOptions, keyof JobsOptions>> = {};
const flows: Listed<Own<FlowProducerOptions>> = {};
const flow: Listed<FlowJobBase<unknown>> & { readonly children: 1 } = {
  ...{ name: 1, queueName: 1, data: 1, prefix: 1, opts: 1, children: 1 },
};
const flowOptions: Listed<FlowOpts> = { queuesOptions: 1 };

/** The events of all three. */
const emitted: Listed<WorkerListener & QueueListener & QueueEventsListener> = {
  ...{ active: 1, added: 1, cleaned: 1, closed: 1, closing: 1, completed: 1, deduplicated: 1, delayed: 1, drained: 1 },
  ...{ duplicated: 1, error: 1, failed: 1, "ioredis:close": 1, paused: 1, progress: 1, ready: 1, removed: 1 },
  ...{ resumed: 1, "retries-exhausted": 1, stalled: 1, waiting: 1, "waiting-children": 1 },
  ...{ locksRenewed: 1, lockRenewalFailed: 1 },
};

const under = (name: string, options: object): string[] => Object.keys(options).map((option) => `${name}.${option}`);

/** The options, or events, that each table must have. */
const tables = {
  Queue: [...Object.keys({ ...base, ...queue, prefix: 1 }), "streams.events"],
  Jobs: [
    ...Object.keys(job),
    ...under("backoff", backoff),
    ...under("deduplication", deduplication),
    ...under("telemetry", telemetry),
    ...under("parent", parent),
  ],
  Worker: [
    ...Object.keys(worker),
    ...under("limiter", limiter),
    ...under("metrics", metrics),
    ...under("settings", settings),
  ],
  QueueEvents: Object.keys(events),
  JobScheduler: Object.keys({ ...scheduler, ...template }),
  FlowProducer: Object.keys({ ...flows, ...flow, ...flowOptions }),
  "Events by name": Object.keys(emitted),
};

describe("the tables of options and events", () => {
  it.each(Object.entries(tables))("%s has every one of BullMQ, and no other", (name, options) => {
    const page = readFileSync(guide, "utf8");
    const [, section = ""] = new RegExp(`\n### ${name}\n(.*?)(?=\n##|$)`, "s").exec(page) ?? [];
    const first = section
      .split("\n")
      .filter((line) => line.startsWith("| `"))
      .map((line) => line.split("|")[1] ?? "");
    const named = first.flatMap((cell) =>
      [...cell.replaceAll(/\(.*?\)/g, "").matchAll(/`([^`]+)`/g)].map(([, one = ""]) => one),
    );
    expect(named.toSorted()).toEqual(options.toSorted());
  });
});
