import type { RedisLike } from "@kit/core";
import {
  attach,
  custom,
  integer,
  type MetricSample,
  type MetricSource,
  resolve,
  type RulesOf,
  type TypedEmitter,
} from "@kit/core/toolkit";
import { checkedAddress } from "../store/address.js";
import {
  inspectQueue,
  type JobFacts,
  type JobPage,
  listJobs,
  listWorkers,
  type Overview,
  type QueueAddress,
  type WorkerPage,
} from "../manage/index.js";
import type { WorkerEvents } from "../work/events.js";
import type { Worker } from "../work/worker.js";
import { Runs } from "./runs.js";

/** A worker with any jobs. */
type MeasuredWorker = Omit<Worker, keyof TypedEmitter<WorkerEvents>>;

/** Options of `queueMetrics()`. */
export interface QueueMetricsOptions {
  /**
   * Workers of this queue in this process. The metrics include their runs and wait times after this call, by job name. After 100 names, all
   * others count as `other`.
   *
   * @default []
   */
  readonly workers?: readonly MeasuredWorker[] | undefined;
  /**
   * How many ready jobs of priority 0 to count by name, from the front of the queue, 0 to 1,000. Every 100 jobs cost one call. The server
   * reads these jobs, including their payloads, but replies with their headers only.
   *
   * @default 0
   */
  readonly countNames?: number | undefined;
}

const metricsRules = {
  workers: custom((name, workers: readonly MeasuredWorker[]) => {
    const measured = workers as readonly Worker[];
    if (!Array.isArray(workers) || measured.some((one: Partial<Worker> | null) => typeof one?.on !== "function"))
      throw new TypeError(`Expected \`${name}\` to be an array of workers`);
    return measured;
  }),
  countNames: integer(0, 1_000, 0),
} satisfies RulesOf<QueueMetricsOptions>;

/** The maximum number of jobs in one page. */
const pageSize = 100;

/** The metrics of one queue. Create it with {@link queueMetrics}. */
export class QueueMetrics implements MetricSource {
  readonly #redis: RedisLike;
  readonly #address: QueueAddress;
  readonly #countNames: number;
  readonly #runs: Runs;

  /** Only this package calls it. */
  constructor(redis: RedisLike, address: QueueAddress, options: QueueMetricsOptions) {
    const { workers = [], countNames } = resolve("options", options as object, metricsRules);
    this.#redis = redis;
    const { queue, prefix } = checkedAddress(address);
    this.#address = { queue, prefix };
    // Checks the client now, not at the first scrape.
    attach(redis, { prefix }).detach();
    this.#countNames = countNames;
    this.#runs = new Runs(workers);
  }

  /**
   * Reads the numbers of the queue in four short calls, plus one for every 50 workers, plus the calls for `countNames`.
   *
   * @throws {KitUnavailableError} no server answered in time.
   */
  async metrics(): Promise<MetricSample[]> {
    const { queue } = this.#address;
    const seen = await inspectQueue(this.#redis, this.#address);
    const ready = await this.#ready();
    const present = await listWorkers(this.#redis, this.#address);
    return [
      ...samplesOf(queue, seen),
      ...workerSamples(queue, present),
      ...readySamples(queue, ready, seen.now, this.#countNames),
      ...this.#runs.samples(queue),
    ];
  }

  /** Stops measuring the workers. */
  close(): void {
    this.#runs.close();
  }

  async #ready(): Promise<JobFacts[]> {
    const wanted = Math.max(1, this.#countNames);
    const found: JobFacts[] = [];
    for (let start: number | undefined = 0; start !== undefined && found.length < wanted;) {
      const count = Math.min(pageSize, wanted - found.length);
      const page: JobPage = await listJobs(this.#redis, this.#address, { state: "waiting", start, count });
      found.push(...page.jobs);
      start = page.next;
    }
    return found;
  }
}

const pausedHelp = "1 while the queue is paused, or with `job` the jobs of this name";

const samplesOf = (queue: string, seen: Overview): MetricSample[] => {
  const { waiting, prioritised, suspended, delayed, active, dead, lost, now, nextDue, pausedAt, names } = seen;
  const { waitingForChildren, oldestParent, grouped, groups, groupsInTurn } = seen;
  const { completed, died, crashed, deadDropped, deadBytes } = seen;
  const states = {
    ...{ ready: waiting + prioritised, grouped, suspended, delayed, active, dead, lost },
    "waiting-for-children": waitingForChildren,
  };
  const gauge = (name: string, help: string, value: number): MetricSample => ({
    ...{ name: `kit_queue_${name}`, type: "gauge", help, value, labels: { queue } },
  });
  const counter = (name: string, help: string, value: number): MetricSample => ({
    ...gauge(`${name}_total`, help, value),
    type: "counter",
  });
  return [
    ...Object.entries(states).map(([state, value]) => ({
      ...gauge("jobs", "Jobs by state", value),
      labels: { queue, state },
    })),
    gauge(
      "overdue_seconds",
      "How long the first delayed job has been due",
      Math.max(0, now - (nextDue ?? now)) / 1_000,
    ),
    gauge(
      "parents_age_seconds",
      "How long the first job that waits for its children has been added or due",
      Math.max(0, now - (oldestParent ?? now)) / 1_000,
    ),
    gauge("groups", "Groups that have ready or active jobs", groups),
    gauge("groups_in_turn", "Groups that can start a job now", groupsInTurn),
    gauge("paused", pausedHelp, Number(pausedAt !== null)),
    ...names.map(({ name: job, ...named }) => ({
      ...gauge("paused", pausedHelp, Number(named.pausedAt !== null)),
      labels: { queue, job },
    })),
    gauge("dead_bytes", "The size of the dead letters", deadBytes),
    counter("completed", "Jobs that are done, of all workers", completed),
    counter("died", "Jobs that became dead letters", died),
    counter("crashed", "Leases that ended without their worker", crashed),
    counter("dead_dropped", "Dead letters beyond the bounds, which were deleted", deadDropped),
  ];
};

const workerSamples = (queue: string, { workers, now }: WorkerPage): MetricSample[] => {
  const begun = workers.flatMap(({ longest }) => (longest === null ? [] : [Date.parse(longest.startedAt)]));
  const gauge = (name: string, help: string, value: number): MetricSample => ({
    ...{ name: `kit_queue_${name}`, type: "gauge", help, value, labels: { queue } },
  });
  return [
    gauge("workers", "Workers that are alive, at most 1,000", workers.length),
    gauge(
      "handlers",
      "How many jobs these workers can run at a time",
      workers.reduce((sum, { concurrency }) => sum + (concurrency ?? 0), 0),
    ),
    gauge(
      "longest_run_seconds",
      "How long the oldest running job has run, 0 if none has run for longer than a heartbeat",
      begun.length === 0 ? 0 : Math.max(0, now - Math.min(...begun)) / 1_000,
    ),
  ];
};

const readySamples = (queue: string, ready: readonly JobFacts[], now: number, countNames: number): MetricSample[] => {
  const addedAt = Date.parse(ready[0]?.addedAt ?? "");
  const help = "How long ago the next ready job of priority 0 was added";
  const value = Number.isNaN(addedAt) ? 0 : Math.max(0, now - addedAt) / 1_000;
  const age: MetricSample = { name: "kit_queue_next_age_seconds", type: "gauge", help, value, labels: { queue } };
  if (countNames === 0) return [age];
  const byName = new Map<string, number>();
  for (const { name } of ready) byName.set(name, (byName.get(name) ?? 0) + 1);
  const named = [...byName].map(([job, count]): MetricSample => ({
    ...{
      name: "kit_queue_next_jobs",
      type: "gauge",
      help: `The names of the next ready jobs, at most ${String(countNames)}`,
    },
    ...{ value: count, labels: { queue, job } },
  }));
  return [age, ...named];
};

/**
 * Creates the metrics of a queue for `expose()` of `@kit/stats`, or any other exporter. They include the depth by state, the age of the
 * next job, and the counters of the queue. For the `workers` of this process they include histograms of how long jobs waited and ran, by
 * job name.
 *
 * The numbers of the queue are the same in every process, so export them from one process. Runs are measured only in this process, between
 * this call and `close()`.
 *
 * @throws {TypeError | RangeError} an argument is invalid.
 *
 * @example
 * const { text } = await stats.expose({ include: [queueMetrics(redis, { queue: "mail" }, { workers: [worker] })] });
 */
export const queueMetrics = (
  redis: RedisLike,
  address: QueueAddress,
  options: QueueMetricsOptions = {},
): QueueMetrics => new QueueMetrics(redis, address, options);
