// Only this file of bull-board has the class; `@bull-board/api/baseAdapter` has its type.
import { BaseAdapter } from "@bull-board/api/dist/queueAdapters/base.js";
import type * as board from "@bull-board/api/typings/app";
import type { RedisLike } from "@kit/core";
import { createQueue } from "@kit/queue";
import * as manage from "@kit/queue/manage";
import { createSchedules, type Schedules } from "@kit/queue/schedules";
import { type JobHome, KitJob } from "./job.js";
import type { BullBoardOptions } from "./options.js";
import { addOptions, asked, cleanable, enteredData, type Listing, listings, refused, stateOf } from "./words.js";

const statuses = Object.keys(listings) as board.JobStatus[];

/** How many jobs, log lines and schedules one request reads, and how many jobs and schedules one call reads. */
const most = 1_000;
const pageSize = 100;

/** A queue on a bull-board. */
export class KitAdapter extends BaseAdapter {
  readonly #home: JobHome;
  readonly #schedules: Schedules;
  readonly #defaults: board.QueueDefaultJobOptions;
  #read: Promise<manage.Overview> | undefined;

  constructor(redis: RedisLike, { queue, prefix }: manage.QueueAddress, { jobs = {}, ...shown }: BullBoardOptions) {
    // The board draws flows of type `bullmq` by BullMQ's keys, and offers changes of their schedules.
    super("bull", { ...shown, allowCompletedRetries: false });
    const { schemas, maxPayloadBytes, maxAttempts = 1, allowEviction, deadlineMs } = jobs;
    const checks = { schemas, maxPayloadBytes };
    this.#home = { at: [redis, { queue, prefix }], queue: createQueue(redis, queue, { ...jobs, prefix }), checks };
    this.#schedules = createSchedules(redis, queue, { prefix, allowEviction, deadlineMs });
    this.#defaults = { attempts: maxAttempts };
  }

  async close(): Promise<void> {
    await Promise.all([this.#home.queue.close(), this.#schedules.close()]);
  }

  getName(): string {
    return `${this.prefix}${this.#home.at[1].queue}`;
  }

  getStatuses(): board.Status[] {
    return ["latest", ...statuses];
  }

  getJobStatuses(): board.JobStatus[] {
    return statuses;
  }

  async getJobCounts(): Promise<board.JobCounts> {
    const seen = await this.#overview();
    const counts = statuses.map((status) => [status, seen[listings[status][2]]]);
    return { ...Object.fromEntries(counts), waiting: seen.waiting + seen.grouped } as board.JobCounts;
  }

  async getJobs(wanted: board.JobStatus[], start = 0, end = start + pageSize - 1): Promise<KitJob[]> {
    const count = Math.min(most, Math.max(1, end - start + 1));
    return (await Promise.all(wanted.map((status) => this.#page(status, start, count)))).flat();
  }

  async getJob(id: string): Promise<KitJob | null> {
    const report = await this.#report(id);
    return report.state === "none" ? null : new KitJob(this.#home, report, stateOf(report));
  }

  async getJobLogs(id: string): Promise<string[]> {
    const { lines, kept, dropped } = await manage.readLog(...this.#home.at, id, { count: most });
    const missing = kept + dropped - lines.length;
    const note = missing > 0 ? [`(${String(missing)} earlier lines are not shown)`] : [];
    return [...note, ...lines.map(({ at, text }) => `${at} ${text}`)];
  }

  async addJob(name: string, data: unknown, options: board.QueueJobOptions): Promise<KitJob> {
    const id = await asked(this.#home.queue.add(name, enteredData(data), addOptions(options)));
    const report = await this.#report(id);
    return new KitJob(this.#home, report, stateOf(report));
  }

  async isPaused(): Promise<boolean> {
    return (await this.#overview()).pausedAt !== null;
  }

  async pause(): Promise<void> {
    await manage.pauseQueue(...this.#home.at);
  }

  async resume(): Promise<void> {
    await manage.resumeQueue(...this.#home.at);
  }

  async clean(status: board.JobCleanStatus, olderThanMs: number): Promise<void> {
    const state = cleanable[status];
    if (state === undefined) throw refused(`kit does not clean jobs with the status ${status}.`);
    await manage.cleanQueue(...this.#home.at, { state, olderThanMs, run: true });
  }

  async empty(): Promise<void> {
    await manage.drainQueue(...this.#home.at);
  }

  async obliterate({ force = false }: board.ObliterateOptions = {}): Promise<void> {
    const { active } = await manage.inspectQueue(...this.#home.at);
    // By this text, the board knows to offer `force`.
    if (active > 0 && !force) throw new Error("Cannot obliterate queue with active jobs");
    await manage.purgeQueue(...this.#home.at, { run: true });
  }

  /** Promotes as many jobs as are delayed now. Those that wait for the active job of their key are last, and stay. */
  async promoteAll(): Promise<void> {
    const { at } = this.#home;
    for (let { delayed } = await manage.inspectQueue(...at); delayed > 0; delayed -= pageSize) {
      const { jobs } = await manage.listJobs(...at, { state: "delayed", count: Math.min(delayed, pageSize) });
      await Promise.all(jobs.map(({ id }) => manage.promoteJob(...at, id)));
    }
  }

  async getJobSchedulers(): Promise<Omit<board.AppJobScheduler, "queueName">[]> {
    const found: Omit<board.AppJobScheduler, "queueName">[] = [];
    for (let start = 0; start === found.length && start < most; start += pageSize)
      for (const one of await this.#schedules.list({ start, count: pageSize })) {
        const { id, name, cron: pattern, everyMs: every, timezone: tz, count: limit } = one;
        const { startAt: startDate, endAt: endDate, nextAt: next, left = 0 } = one;
        const iterationCount = limit === undefined ? undefined : limit - left;
        found.push({ id, name, pattern, every, tz, startDate, endDate, limit, iterationCount, next });
      }
    return found;
  }

  /** Up to 100, since the board asks at each refresh. A schedule of a newer version must not hide its queue. */
  async getJobSchedulersCount(): Promise<number> {
    return (await this.#schedules.list({ count: pageSize }).catch(() => [])).length;
  }

  async removeJobScheduler(id: string): Promise<boolean> {
    return await this.#schedules.remove(id);
  }

  updateJobScheduler(): Promise<never> {
    return Promise.reject(refused("Change a schedule with upsert() of @kit/queue/schedules."));
  }

  runJobSchedulerNow(): Promise<never> {
    return Promise.reject(refused("Run a schedule with runNow() of @kit/queue/schedules."));
  }

  override async getWorkers(): Promise<board.QueueWorker[]> {
    const { workers, now } = await manage.listWorkers(...this.#home.at);
    return workers.map(({ id, name, host, pid, since }) => {
      const age = since === null ? 0 : Math.max(0, Math.round((now - Date.parse(since)) / 1_000));
      return { id, name, addr: `${host ?? "unknown host"}:${String(pid)}`, age };
    });
  }

  async getGlobalConcurrency(): Promise<number | null> {
    return (await this.#overview()).concurrency;
  }

  async setGlobalConcurrency(concurrency: number): Promise<void> {
    await this.#limit({ concurrency: concurrency > 0 ? concurrency : null });
  }

  override get supportsGlobalRateLimit(): boolean {
    return true;
  }

  override async getConfiguredRateLimit(): Promise<board.QueueRateLimit | null> {
    const { rate } = await this.#overview();
    return rate && { max: rate.count, duration: rate.perMs };
  }

  override async setConfiguredRateLimit({ max, duration }: board.QueueRateLimit): Promise<void> {
    await this.#limit({ rate: { count: max, perMs: duration } });
  }

  override async removeConfiguredRateLimit(): Promise<void> {
    await this.#limit({ rate: null });
  }

  override async getActiveRateLimitTtl(): Promise<number> {
    const { heldUntil, now } = await this.#overview();
    return Math.max(0, (heldUntil ?? now) - now);
  }

  /** Ends the wait that a handler asked for. */
  override async releaseActiveRateLimit(): Promise<void> {
    const { rate } = await manage.inspectQueue(...this.#home.at);
    if (rate !== null) throw refused("The wait ends together with the rate limit. Remove the rate limit.");
    await this.#limit({ rate: null });
  }

  override getQueueDefaultJobOptions(): board.QueueDefaultJobOptions {
    return this.#defaults;
  }

  /** The board then draws no chart. */
  getMetrics(): Promise<never> {
    return Promise.reject(refused("Export queueMetrics() of @kit/queue/metrics: kit stores no metrics."));
  }

  /** Null if the client's user may not run INFO. The board then has no details of the server. */
  async getRedisInfo(): Promise<string | null> {
    return await this.#home.at[0].call("INFO").then(String, () => null);
  }

  /** The board makes several calls at the same time that need these numbers. They share one reply. */
  #overview(): Promise<manage.Overview> {
    this.#read ??= manage.inspectQueue(...this.#home.at).finally(() => (this.#read = undefined));
    return this.#read;
  }

  #report(id: string): Promise<manage.JobReport> {
    return asked(manage.inspectJob(...this.#home.at, id, { withData: true }));
  }

  async #limit(limits: Parameters<typeof manage.setLimits>[2]): Promise<void> {
    await asked(manage.setLimits(...this.#home.at, limits));
  }

  /** The jobs of groups come after the others that wait. */
  async #page(status: board.JobStatus, start: number, count: number): Promise<KitJob[]> {
    const listing = listings[status];
    if (status !== "waiting") return await this.#listed(status, listing, start, count);
    const { waiting, grouped } = await this.#overview();
    const found = start < waiting ? await this.#listed(status, listing, start, count) : [];
    if (grouped === 0 || found.length === count) return found;
    const next = Math.max(0, start - waiting);
    return [...found, ...(await this.#listed(status, ["grouped", "start"], next, count - found.length))];
  }

  async #listed(status: board.JobStatus, [state, from]: Listing, start: number, count: number): Promise<KitJob[]> {
    const found: KitJob[] = [];
    for (let next: number | undefined = start; next !== undefined && found.length < count;) {
      const page = { state, from, start: next, count: Math.min(pageSize, count - found.length) };
      const read = await manage.listJobs(...this.#home.at, page);
      found.push(...read.jobs.map((job) => new KitJob(this.#home, job, status)));
      ({ next } = read);
    }
    return found;
  }
}
