import type * as board from "@bull-board/api/typings/app";
import type { RedisLike } from "@kit/core";
import type { Queue, QueueOptions } from "@kit/queue";
import * as manage from "@kit/queue/manage";
import { asked, enteredData, msOf, notKept, notRead, refused, shownData, stackOf } from "./words.js";

/** The queue of a job. */
export interface JobHome {
  readonly at: readonly [redis: RedisLike, address: manage.QueueAddress];
  readonly queue: Queue;
  readonly checks: Pick<QueueOptions, "schemas" | "maxPayloadBytes">;
}

/** A job in a list. The other facts of a report are only known on its page. */
type ReadJob = manage.JobFacts & Partial<manage.JobReport>;

/** Why nothing was changed, by where kit found the job. */
const reasons: Readonly<Record<string, string>> = {
  active: "a worker has it",
  dead: "it is a dead letter",
  none: "it has ended, or was deleted",
  lost: "it is in no list of work; call repairQueue()",
  delayed: "it waits for the active job of its unique key",
  "waiting-for-children": "it waits for its children",
};

/** A job as bull-board shows and changes it. */
export class KitJob implements board.QueueJob {
  readonly id: string;
  readonly opts: { readonly delay?: number };
  readonly #home: JobHome;
  readonly #job: ReadJob;
  readonly #delay: number;
  /** Where the job was when it was read. */
  #state: board.JobState;

  constructor(home: JobHome, job: ReadJob, state: board.JobState) {
    this.id = job.id;
    this.#home = home;
    this.#job = job;
    this.#state = state;
    this.#delay = state === "delayed" ? Math.max(0, (msOf(job.at) ?? 0) - (msOf(job.addedAt) ?? 0)) : 0;
    const { maxAttempts, attempts, snoozes, priority, timeoutMs = null } = job;
    this.opts = {
      ...{ attempts: maxAttempts, ...(priority !== 0 && { priority }), ...(timeoutMs !== null && { timeoutMs }) },
      // A job that ran waits for its next attempt: that is not its own delay.
      ...(this.#delay > 0 && attempts + snoozes === 0 && { delay: this.#delay }),
    };
  }

  getState(): Promise<board.JobState> {
    return Promise.resolve(this.#state);
  }

  toJSON(): board.QueueJobJson {
    const { name, priority, attempts, crashes, uniqueKey, error, worker, startedAt, takenAt, bytes } = this.#job;
    const { addedAt, at, progress, outcome, result = null } = this.#job;
    const [isDone, isDead] = ["completed", "failed"].map((state) => state === this.#state);
    const data = "data" in this.#job ? shownData(this.#job.data, bytes) : notRead;
    const finishedOn = isDone || isDead ? msOf(at) : null;
    const crashed = isDead ? `Its worker crashed, ${String(crashes)} times in all` : "";
    return {
      ...{ id: this.id, name: name || "unreadable", timestamp: msOf(addedAt) ?? 0, delay: this.#delay },
      ...{ attemptsMade: attempts, finishedOn },
      // Without a start, the board would count the time of the run from 1970.
      processedOn: msOf(startedAt ?? takenAt) ?? finishedOn,
      processedBy: worker && (worker.name ?? `${worker.host ?? "unknown host"}:${String(worker.pid)}`),
      progress: (progress ?? 0) as board.QueueJobJson["progress"],
      failedReason: outcome === "expired" ? "No worker took it before it expired" : (error?.message ?? crashed),
      stacktrace: error === null ? [] : [stackOf(error)],
      ...{ data: isDone ? notKept : data, returnvalue: result, opts: this.opts },
      ...{ priority, stalledCounter: crashes, ...(uniqueKey !== null && { deduplicationId: uniqueKey }) },
    };
  }

  /** Gives a dead letter all its attempts again. */
  async retry(): Promise<void> {
    if (this.#state === "completed") throw refused("kit keeps no data of completed jobs. Add a new job instead.");
    if ((await this.#home.queue.redrive([this.id])) === 0) throw this.#unchanged("none");
  }

  async remove(): Promise<void> {
    const { at, queue } = this.#home;
    if (this.#state === "completed") throw refused("kit deletes completed jobs by age. Clean all of them instead.");
    const found = this.#state === "failed" ? "dead" : await manage.removeJob(...at, this.id);
    if (found === "removed" || found === "none") return;
    if (found === "dead" && (await queue.dropDeadLetters([this.id])) > 0) return;
    // bull-board asks again, and replies that the job is active.
    if (found === "active") this.#state = "active";
    throw this.#unchanged(found === "dead" ? "none" : found);
  }

  async promote(): Promise<void> {
    const state = await manage.promoteJob(...this.#home.at, this.id);
    if (state !== "ready") throw this.#unchanged(state);
  }

  async changeDelay(delayMs: number): Promise<void> {
    const state = await asked(manage.rescheduleJob(...this.#home.at, this.id, { delayMs }));
    if (state !== "ready" && state !== "delayed") throw this.#unchanged(state);
  }

  async changePriority({ priority = 0 }: { readonly priority?: number }): Promise<void> {
    if (!(await asked(manage.setPriority(...this.#home.at, this.id, priority))))
      throw this.#unchanged("it is neither ready nor delayed");
  }

  async updateData(data: unknown): Promise<void> {
    const { at, checks } = this.#home;
    const outcome = await asked(manage.editJob(...at, this.id, { data: enteredData(data) }, checks));
    if (outcome !== "edited") throw this.#unchanged(outcome);
  }

  #unchanged(found: string): Error {
    return refused(`Job ${this.id} was not changed: ${reasons[found] ?? found}.`);
  }
}
