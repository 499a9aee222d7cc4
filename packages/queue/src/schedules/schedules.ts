import type { KitError, RedisLike } from "@kit/core";
import { type CloseOptions, integer, newToken, type ObjectLife, resolve, TypedEmitter } from "@kit/core/toolkit";
import { decodePayload, parseBlob } from "../job/payload.js";
import { QueueCommands } from "../store/commands.js";
import { type QueueSettings, queueSettings } from "../store/options.js";
import type { AnyJobs, JobTypes } from "../job/types.js";
import { factsOf, factsOfPage, instantOf, type ScheduleFacts } from "./facts.js";
import {
  type ListOptions,
  listRules,
  type Schedule,
  scheduleId,
  scheduleRules,
  type SchedulesOptions,
  schedulesRules,
} from "./options.js";
import { fieldOf, readable, recordOf, timingOf } from "./record.js";
import { Runner } from "./runner.js";
import { dropSchedule, listSchedules, putSchedule, readSchedule, type ReadSchedule } from "./scripts/index.js";
import { scheduleRuns, type Wanted, wantedOf } from "./wanted.js";

/** Events of the schedules of a queue. */
export interface SchedulesEvents {
  /**
   * This process added the jobs of due runs. The event also names jobs that were not added because their id was already in the queue. If
   * the reply of the call is lost, there is no event.
   */
  readonly added: readonly [event: { readonly schedule: string; readonly jobs: readonly string[] }];
  /** The runs from `from` until before `to` add no job, because of the schedule's policy. Both times are epoch ms. */
  readonly missed: readonly [event: { readonly schedule: string; readonly from: number; readonly to: number }];
  /**
   * A background operation failed. `run()` tries again until this object is closed. An outage emits one error at its start, and one with
   * the code `KIT_RECOVERED` at its end. A ScheduleError means that this process cannot run one schedule; it is emitted once per schedule.
   */
  readonly error: readonly [error: KitError];
  /** The server can evict keys when its memory is full. Same as the event of the queue. */
  readonly evictable: readonly [event: { readonly policy: string }];
}

/** The outcome of an `upsert`. */
export interface UpsertedSchedule {
  /** `kept`: the stored schedule was already equal. `older`: the stored schedule has a higher version, and stays. */
  readonly outcome: "added" | "changed" | "kept" | "older";
  /** The next run, in epoch ms by the server's clock. Undefined if the schedule has ended, for example because its `endAt` has passed. */
  readonly nextAt: number | undefined;
}

/** A schedule with the data of its jobs. */
export interface StoredSchedule extends ScheduleFacts {
  readonly data: unknown;
}

const nextCount = integer(1, 1_000);

/**
 * The schedules of one queue. It stores them, and adds a job for each of their runs. Create it with {@link createSchedules}.
 *
 * Run times depend on the schedule alone, and the server's clock decides whether a run is due. A run's job is an ordinary job of the queue
 * with the id `SCHEDULE@INSTANT`. A failed job does not affect the schedule. The job and the next run are stored in one step. So each run
 * adds its job once, however many processes run schedules, and even if one of them dies.
 */
export class Schedules<Jobs extends JobTypes<Jobs> = AnyJobs>
  extends TypedEmitter<SchedulesEvents>
  implements AsyncDisposable
{
  /** The name of the queue. */
  readonly queue: string;
  readonly #settings: QueueSettings;
  readonly #commands: QueueCommands;
  readonly #life: ObjectLife;
  readonly #runner: Runner;

  /** Only this package calls it. */
  constructor(redis: RedisLike, queue: string, options: SchedulesOptions) {
    super();
    this.queue = queue;
    const { lookEveryMs, ...shared } = resolve("options", options, schedulesRules);
    this.#settings = queueSettings(shared);
    const error = (one: KitError): void => this.emit("error", one);
    const events = { error, evictable: (policy: string) => this.emit("evictable", { policy }) };
    const what = `The schedules of queue ${JSON.stringify(queue)}`;
    this.#commands = new QueueCommands(redis, queue, this.#settings, events, what);
    this.#life = this.#commands.life;
    this.#runner = new Runner(this.#commands, lookEveryMs, {
      added: (schedule, jobs) => this.emit("added", { schedule, jobs }),
      missed: (schedule, from, to) => this.emit("missed", { schedule, from, to }),
      error,
    });
  }

  /**
   * Adds a schedule, or changes the schedule of this id. An equal schedule stays unchanged, so every process can call this when it starts.
   * A new timing applies immediately, and restarts its `count`. If a run is due but has not added its job yet, the new timing applies to
   * that run; `missed` decides about late runs. Other changes keep the next run.
   *
   * A schedule that has ended stays, without a next run, until you remove it, so a restart does not start it again. A schedule
   * that is added after its `endAt` never runs.
   *
   * @throws {JobPayloadError} the data cannot be stored, or is larger than `maxPayloadBytes`.
   * @throws {ScheduleError} there is a `cron`, and croner is not installed.
   * @throws {KitUnavailableError | KitUnknownOutcomeError} as for every command. You can safely repeat the call.
   * @throws {QueueEvictionError} the server can evict jobs.
   * @throws {TypeError | RangeError} a part of the schedule is invalid, or it can never run: its `cron` matches no time, or no time between
   *   `startAt` and `endAt`.
   *
   * @example
   * await schedules.upsert("nightly", { cron: "0 3 * * *", timezone: "Europe/Berlin", name: "report", data: {} });
   */
  async upsert(id: string, schedule: Schedule<Jobs>): Promise<UpsertedSchedule> {
    scheduleId(id);
    const given = resolve("schedule", schedule as object, scheduleRules);
    return await this.#call("upsert", id, async () => {
      const wanted = await wantedOf(id, given, this.#settings);
      await this.#commands.open();
      const upserted = await this.#upsert(id, wanted);
      if (upserted.outcome !== "kept") this.#runner.wake();
      return upserted;
    });
  }

  /**
   * Removes a schedule. Resolves with whether there was one. Jobs that it has added stay.
   *
   * @throws {KitUnavailableError | KitUnknownOutcomeError} as for every command. You can safely repeat the call.
   */
  async remove(id: string): Promise<boolean> {
    scheduleId(id);
    return await this.#call("remove", id, async () => {
      await this.#commands.open();
      for (let isThere = false; ;) {
        const { field } = await this.#read(id);
        if (field === "") return isThere;
        isThere = true;
        const { revision } = recordOf(id, field);
        if (await this.#commands.run(dropSchedule, { id, revision })) return true;
      }
    });
  }

  /**
   * Pauses a schedule: it adds no jobs until `resume()`, even if you upsert it. Jobs that it has added stay. Resolves with whether there is
   * one.
   *
   * @throws {ScheduleError} a newer version has stored the schedule.
   * @throws {KitUnavailableError | KitUnknownOutcomeError} as for every command. You can safely repeat the call.
   */
  async pause(id: string): Promise<boolean> {
    scheduleId(id);
    return await this.#call("pause", id, () => this.#setPaused(id, true));
  }

  /**
   * Resumes a paused schedule. It continues with its next run after now, and adds no jobs for the runs in between. Resolves with whether
   * there is one.
   *
   * @throws {ScheduleError} croner is not installed, or a newer version has stored the schedule.
   * @throws {KitUnavailableError | KitUnknownOutcomeError} as for every command. You can safely repeat the call.
   */
  async resume(id: string): Promise<boolean> {
    scheduleId(id);
    return await this.#call("resume", id, () => this.#setPaused(id, false));
  }

  /**
   * Adds a job of a schedule now, with the id `SCHEDULE@NOW`. The next run and the `count` don't change, and a paused or ended schedule
   * stays paused or ended. Resolves with the job's id. Resolves with undefined if there is no schedule, or if its `overlap` is `"skip"` and
   * the job of its last run is still in the queue.
   *
   * @throws {ScheduleError} a newer version has stored the schedule.
   * @throws {KitUnavailableError | KitUnknownOutcomeError} as for every command. A repeated call can add another job.
   * @throws {QueueEvictionError} the server can evict jobs.
   */
  async runNow(id: string): Promise<string | undefined> {
    scheduleId(id);
    return await this.#call("runNow", id, async () => {
      await this.#commands.open();
      return await this.#runner.runNow(id);
    });
  }

  /**
   * Reads one schedule, with the data of its jobs. Undefined if there is none.
   *
   * @throws {ScheduleError} the stored schedule is damaged, or of a newer version.
   * @throws {KitUnavailableError} no server answered in time.
   */
  async get(id: string): Promise<StoredSchedule | undefined> {
    scheduleId(id);
    return await this.#privateCall("get", id, async () => {
      const { field, template, at } = await this.#read(id);
      if (field === "") return undefined;
      const blob = Buffer.concat([Buffer.from("0 "), template]);
      const job = readable(id, () => parseBlob(blob));
      const data = readable(id, () => decodePayload(blob, job));
      return { ...factsOf(id, field, at, job.header.name), data };
    });
  }

  /**
   * Reads schedules in the order of their next runs, without data. Ended and paused schedules come last.
   *
   * @throws {ScheduleError} a newer version has stored one of them.
   * @throws {KitUnavailableError} no server answered in time.
   * @throws {TypeError | RangeError} an option is invalid.
   */
  async list(options: ListOptions = {}): Promise<ScheduleFacts[]> {
    const page = resolve("options", options, listRules);
    return await this.#life.privateCall(
      "queue.schedules.list",
      () => ({ queue: this.queue }),
      async () => {
        return factsOfPage(await this.#commands.run(listSchedules, page));
      },
    );
  }

  /**
   * Computes the times of the next runs, in epoch ms. A first time in the past means that the run is due. Fewer than `count` times mean
   * that the schedule ends. An empty array means that the schedule has ended, or does not exist.
   *
   * @param count how many, up to 1,000.
   * @throws {ScheduleError} croner is not installed, or a newer version has stored the schedule.
   * @throws {KitUnavailableError} no server answered in time.
   * @throws {TypeError | RangeError} an argument is invalid.
   */
  async next(id: string, count = 1): Promise<number[]> {
    scheduleId(id);
    nextCount.check("count", count);
    return await this.#privateCall("next", id, async () => {
      const { field, at } = await this.#read(id);
      if (field === "") return [];
      const record = recordOf(id, field);
      const after = await scheduleRuns(id, timingOf(id, record));
      const runs: number[] = [];
      const most = Math.min(count, record.left ?? Infinity);
      for (let run = instantOf(at); run !== undefined && runs.length < most; run = after(run)) runs.push(run);
      return runs;
    });
  }

  /**
   * Adds the jobs of runs when they are due, until `close()`. One process is enough, but any number can call it: each run adds its job
   * once. Calling it again does nothing.
   */
  run(): void {
    this.#life.assertOpen();
    this.#runner.start();
  }

  /**
   * Adds the jobs of the runs that are due now, once. Resolves with their number. Use it instead of `run()` in a process that is started
   * periodically, for example by cron.
   *
   * @throws {KitUnavailableError | KitUnknownOutcomeError} as for every command. You can safely repeat the call.
   * @throws {QueueEvictionError} the server can evict jobs.
   */
  async runDue(): Promise<number> {
    return await this.#life.call(
      "queue.schedules.runDue",
      () => ({ queue: this.queue }),
      async () => (await this.#runner.runDue()).added,
    );
  }

  /**
   * Closes this object, within `timeoutMs`. The schedules stay. The client stays open. Idempotent: the options of the first call apply.
   *
   * @throws {TypeError | RangeError} an option is invalid. Nothing else throws.
   */
  async close(options: CloseOptions = {}): Promise<void> {
    await this.#life.close(options, async (deadline) => {
      this.#life.cancel();
      await Promise.all([this.#runner.stop(deadline), this.#life.untilIdle(deadline)]);
    });
  }

  /** Same as `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #upsert(id: string, wanted: Wanted): Promise<UpsertedSchedule> {
    const { version, timing, template, count } = wanted;
    const revision = newToken();
    for (;;) {
      const read = await this.#read(id);
      const stored = read.field === "" ? undefined : recordOf(id, read.field);
      const nextAt = instantOf(read.at);
      if (stored && stored.version > version) return { outcome: "older", nextAt };
      const isSameTiming = stored?.timing === timing && read.at !== "";
      if (isSameTiming && stored.version === version && template.equals(read.template))
        return { outcome: "kept", nextAt };
      const { last = "", isPaused = false } = stored ?? {};
      const next = isSameTiming ? nextAt : isPaused ? undefined : firstRun(wanted, read.now, nextAt);
      const left = isSameTiming ? stored.left : count;
      const isStored = await this.#commands.run(putSchedule, {
        ...{ id, revision: stored?.revision ?? "", at: read.at, removed: read.removed },
        schedule: fieldOf({ version, revision, left, timing, last, isPaused }),
        template,
        next: next === undefined ? "inf" : String(next),
      });
      if (isStored) return { outcome: stored ? "changed" : "added", nextAt: next };
    }
  }

  async #setPaused(id: string, isPaused: boolean): Promise<boolean> {
    await this.#commands.open();
    const revision = newToken();
    for (;;) {
      const read = await this.#read(id);
      if (read.field === "") return false;
      const record = recordOf(id, read.field);
      if (record.isPaused === isPaused) return true;
      const after = isPaused || record.left === 0 ? undefined : await scheduleRuns(id, timingOf(id, record));
      const isStored = await this.#commands.run(putSchedule, {
        ...{ id, revision: record.revision, at: read.at, removed: read.removed, template: read.template },
        schedule: fieldOf({ ...record, revision, isPaused }),
        next: String(after?.(read.now) ?? "inf"),
      });
      if (isStored && !isPaused) this.#runner.wake();
      if (isStored) return true;
    }
  }

  #read(id: string): Promise<ReadSchedule> {
    return this.#commands.run(readSchedule, { id });
  }

  #call<T>(operation: string, schedule: string, run: () => Promise<T>): Promise<T> {
    return this.#life.call(`queue.schedules.${operation}`, () => ({ queue: this.queue, schedule }), run);
  }

  /** A call whose result traces don't show. */
  #privateCall<T>(operation: string, schedule: string, run: () => Promise<T>): Promise<T> {
    return this.#life.privateCall(`queue.schedules.${operation}`, () => ({ queue: this.queue, schedule }), run);
  }
}

/**
 * The first run of a new timing. If a run of the old timing is due and within the new bounds, this run, otherwise the first run from now
 * on.
 */
const firstRun = ({ after, startAt = 0, endAt = Infinity }: Wanted, now: number, due = Infinity): number | undefined =>
  due <= now && due >= startAt && due <= endAt ? due : after(now);

/**
 * Creates the schedules of a queue. Any number of processes can change and run them.
 *
 * `redis` is a client from `connect()` of `@kit/core`, from ioredis, or from `fromNodeRedis()`. The schedules never close or block this
 * client.
 *
 * @throws {TypeError | RangeError} `redis` or an option is invalid.
 * @throws {KitError} `KIT_NAME`: the name cannot be a key.
 *
 * @example
 * const schedules = createSchedules(redis, "mail");
 * await schedules.upsert("digest", { everyMs: 3_600_000, name: "digest" });
 * schedules.run();
 */
export const createSchedules = <Jobs extends JobTypes<Jobs> = AnyJobs>(
  redis: RedisLike,
  queue: string,
  options: SchedulesOptions = {},
): Schedules<Jobs> => new Schedules<Jobs>(redis, queue, options);
