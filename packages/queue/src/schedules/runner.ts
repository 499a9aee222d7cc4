import { KitClosedError, type KitError } from "@kit/core";
import { asKitError, backoffMs, type Deadline, inTime, pause } from "@kit/core/toolkit";
import type { QueueCommands } from "../store/commands.js";
import { ScheduleError } from "./errors.js";
import { jobIdOf } from "./job-id.js";
import { type Plan, planRuns } from "./plan.js";
import { recordOf, timingOf } from "./record.js";
import { due, type DueSchedule, fire, maxSchedules, readSchedule } from "./scripts/index.js";
import { runsOf } from "./times.js";

/** The maximum number of jobs that one call adds, and their approximate maximum size in bytes. */
const maxJobs = 500;
const maxBytes = 1_024 * 1_024;

/** How much later the other processes look, in case the process that adds the jobs has died. */
const backupMs = { least: 50, spread: 200 };

/** Events of the runner. */
export interface RunnerEvents {
  readonly added: (schedule: string, jobs: readonly string[]) => void;
  readonly missed: (schedule: string, from: number, to: number) => void;
  readonly error: (error: KitError) => void;
}

/** A due schedule with its plan, and its line in `plan` of `fire.lua`. */
interface Row {
  readonly found: DueSchedule;
  readonly plan: Plan;
  readonly line: string;
}

interface Line {
  readonly id: string;
  readonly revision: string;
  readonly at: string;
  readonly next: number;
  readonly left?: number | undefined;
  readonly runs?: readonly number[];
  /** Empty, or a mode of `fire.lua`. */
  readonly mode?: "skip" | "demand" | "demandSkip" | "";
  readonly waitMs?: number;
}

/** A line in `plan` of `fire.lua`. */
const lineOf = ({ id, revision, at, next, left, runs = [], mode = "", waitMs = 0 }: Line): string =>
  [id, revision, at, next === Infinity ? "inf" : next, left ?? "", runs.join(), mode, waitMs].join("\t");

/**
 * Adds the jobs of due runs. The server decides which runs are due. A call adds jobs only if the schedule has not changed since it was
 * read. So among several processes or repeated calls only one adds the jobs of a run.
 */
export class Runner {
  readonly #commands: QueueCommands;
  readonly #lookEveryMs: number;
  readonly #events: RunnerEvents;
  #loop: Promise<void> | undefined;
  #wake: () => void = () => undefined;
  /** This process added the last due runs, so it looks first the next time as well. */
  #isFirst = true;
  /** Schedules that cannot be run here. Each of them was reported. */
  readonly #refused = new Set<string>();

  constructor(commands: QueueCommands, lookEveryMs: number, events: RunnerEvents) {
    this.#commands = commands;
    this.#lookEveryMs = lookEveryMs;
    this.#events = events;
  }

  /** Looks for due runs until the object is closed. */
  start(): void {
    this.#loop ??= this.#run();
  }

  /** A schedule was added or changed by this process. */
  wake(): void {
    this.#wake();
  }

  /** Resolves when the call in progress has ended, or at the deadline. */
  async stop(deadline: Deadline): Promise<void> {
    this.#wake();
    if (this.#loop) await inTime(this.#loop, { deadline });
  }

  /** Adds the jobs of all runs that are due now. Resolves with their number, and with the time until the next run in milliseconds. */
  async runDue(): Promise<{ readonly added: number; readonly nextInMs: number }> {
    const { life } = this.#commands;
    await this.#commands.open();
    const tried = new Set<string>();
    let added = 0;
    let until: number | undefined;
    for (let skip = 0; ;) {
      const { now, next, found } = await this.#commands.run(due, { skip, count: maxSchedules });
      if (found.length === 0 || life.signal.aborted) return { added, nextInMs: next - now };
      // Leave runs that become due in the meantime to the next look. Otherwise this one might never end.
      const limit = (until ??= now);
      if (found.every(({ at }) => Number(at) > limit)) return { added, nextInMs: 0 };
      const fresh = found.filter(({ id, at, field }) => Number(at) <= limit && !tried.has(`${id}\n${at}\n${field}`));
      const rows = await this.#planned(fresh, now);
      for (const { found: one } of rows) tried.add(`${one.id}\n${one.at}\n${one.field}`);
      // Schedules that cannot be run here stay ahead of the others.
      skip += found.length - fresh.length + fresh.filter(({ id }) => this.#refused.has(id)).length;
      if (rows.length > 0) added += await this.#fire(rows, now);
    }
  }

  /**
   * Adds a job of a schedule with the server's time as its run time. Resolves with its id, or with undefined if there is no schedule or its
   * `overlap` skips the job.
   */
  async runNow(id: string): Promise<string | undefined> {
    for (;;) {
      const { now, field, at, isBusy } = await this.#commands.run(readSchedule, { id });
      if (field === "") return undefined;
      const record = recordOf(id, field);
      const skips = timingOf(id, record).overlap === "skip";
      if (isBusy && skips) return undefined;
      // A second run on demand within the same millisecond.
      const run = Math.max(now, Number(record.last || 0) + 1);
      const next = at === "inf" ? Infinity : Number(at);
      const plan = lineOf({
        id,
        revision: record.revision,
        at,
        next,
        runs: [run],
        mode: skips ? "demandSkip" : "demand",
      });
      const [isDone] = await this.#commands.run(fire, { stamp: now.toString(36), plan });
      if (isDone) return jobIdOf(id, run);
    }
  }

  async #run(): Promise<void> {
    const { life, outage, context } = this.#commands;
    for (let attempt = 1; !life.isClosed; attempt++)
      try {
        const { added, nextInMs } = await this.runDue();
        outage.worked("schedules");
        attempt = 0;
        if (added > 0) this.#isFirst = true;
        await this.#wait(nextInMs);
      } catch (reason) {
        if (life.isClosed) return;
        const error = asKitError(reason, "Running schedules");
        if (context.executor.isEnded) return this.#events.error(new KitClosedError("The client of the queue"));
        outage.failed("schedules", error);
        await pause(backoffMs(attempt, 50, error.retryable ? 2_000 : 5_000), life.signal).catch(() => undefined);
      }
  }

  /** Waits for the next due run, a wake-up, or the next look for changes by other processes. */
  async #wait(nextInMs: number): Promise<void> {
    if (this.#commands.life.isClosed) return;
    const laterMs = this.#isFirst ? 0 : backupMs.least + Math.random() * backupMs.spread;
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
      timer = setTimeout(resolve, Math.min(this.#lookEveryMs, Math.max(0, nextInMs) + laterMs)).unref();
    });
    clearTimeout(timer);
  }

  /** The plans of the schedules that fit in one call. */
  async #planned(found: readonly DueSchedule[], now: number): Promise<Row[]> {
    const rows: Row[] = [];
    let jobs = 0;
    let bytes = 0;
    for (const one of found) {
      const room = Math.min(maxJobs - jobs, Math.floor((maxBytes - bytes) / Math.max(1, one.bytes)));
      if (room < 1 && rows.length > 0) break;
      const row = await this.#rowOf(one, now, Math.max(1, room));
      if (!row) continue;
      rows.push(row);
      jobs += row.plan.runs.length;
      bytes += row.plan.runs.length * one.bytes;
    }
    return rows;
  }

  async #rowOf(found: DueSchedule, now: number, most: number): Promise<Row | undefined> {
    const { id, at, field, isBusy } = found;
    const gone: Plan = { runs: [], next: Infinity, left: undefined, missed: undefined };
    if (field === "") return { found, plan: gone, line: lineOf({ id, revision: "", at, next: Infinity }) };
    try {
      const record = recordOf(id, field);
      const timing = timingOf(id, record);
      const after = await runsOf(timing);
      const { missed, jitterMs = 0 } = timing;
      const skips = timing.overlap === "skip";
      const due = { at: Number(at), now, missed, left: record.left };
      const plan = planRuns(after, { ...due, most: skips ? 1 : most, isBusy: skips && isBusy });
      this.#refused.delete(id);
      const { runs, next, left } = plan;
      const waitMs = Math.floor(Math.random() * (jitterMs + 1));
      const line = lineOf({ id, revision: record.revision, at, next, left, runs, mode: skips ? "skip" : "", waitMs });
      return { found, plan, line };
    } catch (error) {
      if (!this.#refused.has(id)) {
        this.#refused.add(id);
        const own = error instanceof ScheduleError ? error : new ScheduleError(id, "cannot run in this process", error);
        this.#events.error(own);
      }
      return undefined;
    }
  }

  async #fire(rows: readonly Row[], now: number): Promise<number> {
    const plan = rows.map(({ line }) => line).join("\n");
    const isDone = await this.#commands.run(fire, { stamp: now.toString(36), plan });
    this.#isFirst = isDone.includes(true);
    let added = 0;
    for (const [index, { found, plan: own }] of rows.entries()) {
      if (!isDone[index]) continue;
      added += own.runs.length;
      if (own.missed) this.#events.missed(found.id, own.missed.from, own.missed.to);
      if (own.runs.length > 0)
        this.#events.added(
          found.id,
          own.runs.map((run) => jobIdOf(found.id, run)),
        );
    }
    return added;
  }
}
