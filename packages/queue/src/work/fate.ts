import { KitClosedError, KitError } from "@kit/core";
import { checkedWait, longestWaitMs, msOption, type ResolvedBackoff, waitAfter } from "../job/backoff.js";
import { failedOutcome, outcomeOf } from "../job/outcomes.js";
import {
  JobBackoffError,
  JobCancelledError,
  JobLeaseLostError,
  type JobRefusedError,
  type RateLimitError,
  type SnoozeError,
} from "../job/errors.js";
import { recordOf, storedError } from "../job/failure.js";
import type { Ending } from "./endings.js";
import type { Fetcher } from "./fetcher.js";
import type { LostLeases } from "../store/scripts/lost.js";
import type { BackoffFunction } from "../job/types.js";
import type { TakenJob } from "./taken.js";

/** The events of the worker, and its `close()`. */
export interface FateHost {
  readonly completed: (job: TakenJob) => void;
  /** `retryInMs` is undefined if the job is dead. */
  readonly failed: (job: TakenJob, error: unknown, retryInMs: number | undefined) => void;
  readonly snoozed: (job: TakenJob, error: unknown, retryInMs: number) => void;
  /** The job's handler wants that no job starts for a while. Resolves once the jobs that wait in this worker have gone back. */
  readonly holding: (job: TakenJob) => Promise<void>;
  readonly lost: (job: TakenJob) => void;
  readonly cancelled: (job: TakenJob) => void;
  readonly expired: (job: TakenJob) => void;
  readonly error: (error: KitError) => void;
  /** `close()` waits for it. */
  readonly waitFor: (decision: Promise<void>) => void;
}

/**
 * Decides the outcome of each job that a worker has taken. A job is
 *
 * - done, when its handler has returned
 * - tried again, when its handler failed and attempts are left
 * - snoozed, when its handler requested that, up to `maxSnoozes` times. It is tried again, without counting an attempt
 * - waiting, when its handler added children to it. It is tried again when they have ended, without counting an attempt or a snooze
 * - expired, when no worker took it in time. It is done, and has not run
 * - passed on, when this worker cannot run it. It waits, and another worker may take it. After too many passes each one counts as an
 *   attempt
 * - dead, when its last attempt failed
 * - handed back, when its handler stopped because the worker closes or its lease is lost. This does not count as an attempt
 * - cancelled, when a caller cancelled it. The server has deleted it, and what its handler returns or throws is ignored
 * - lost, when its lease has ended. Another worker may run it, and this one must not end it
 *
 * The first seven apply once the server has confirmed them. Until then the lease can still be lost.
 */
export class Fates {
  readonly #fetcher: Fetcher;
  readonly #host: FateHost;
  readonly #backoff: ResolvedBackoff | BackoffFunction | undefined;
  readonly #maxSnoozes: number;
  readonly #maxResultBytes: number;
  /** Names of jobs for which the worker has emitted a JobRefusedError. */
  readonly #refusedNames = new Set<string>();

  /** `backoff`: for jobs that were added without one. */
  constructor(
    fetcher: Fetcher,
    host: FateHost,
    backoff: ResolvedBackoff | BackoffFunction | undefined,
    maxSnoozes: number,
    maxResultBytes: number,
  ) {
    this.#fetcher = fetcher;
    this.#host = host;
    this.#backoff = backoff;
    this.#maxSnoozes = maxSnoozes;
    this.#maxResultBytes = maxResultBytes;
  }

  /** The job's handler has returned a result, or one of the errors that it could also throw. */
  done(job: TakenJob, result: unknown): void {
    const { code, snoozeMs } = wishOf(job, result);
    if (snoozeMs !== undefined || code === unrecoverable || code === waiting) return this.failed(job, result);
    job.state = "ending";
    const outcome = isAwaited(job) ? outcomeOf(job.name, result, this.#maxResultBytes) : undefined;
    this.#fetcher.end({ job, verdict: "done", record: "", error: undefined, outcome, result });
  }

  /** Its handler has thrown, or has timed out. */
  failed(job: TakenJob, error: unknown): void {
    job.state = "ending";
    const { stopReason } = job;
    const isStopped = stopReason instanceof KitClosedError || stopReason instanceof JobLeaseLostError;
    const { isHandedOver, code, snoozeMs } = wishOf(job, error);
    if (isStopped || isHandedOver) return void this.#fetcher.handBack([job]);
    if (job.refusal !== undefined && error === job.refusal) return this.refused(job, job.refusal);
    if (code === waiting) return void this.#wait(job, error as Parent);
    if (snoozeMs !== undefined && job.snoozes < this.#maxSnoozes)
      return this.#end(job, snoozeMs, error, job.failures, code);
    this.#attempted(job, error, code === unrecoverable, snoozeMs);
  }

  /** No worker took it in time. */
  expired(job: TakenJob): void {
    job.state = "ending";
    const outcome = isAwaited(job) ? "expired" : undefined;
    this.#fetcher.end({ job, verdict: "done", record: "", error: undefined, isExpired: true, outcome });
  }

  /** This worker cannot run it. The job goes after the other jobs, not to the front, where this worker would immediately take it again. */
  refused(job: TakenJob, error: JobRefusedError): void {
    if (!this.#refusedNames.has(job.name)) {
      // Names may come from user input.
      if (this.#refusedNames.size >= 1_000) this.#refusedNames.clear();
      this.#refusedNames.add(job.name);
      this.#host.error(error);
    }
    if (job.passes < maxPasses) this.#end(job, waitOfPass(job.passes), error, job.failures, error.code);
    else this.#attempted(job, error, false, undefined);
  }

  /** Whether its lease may have ended, by our own clock. In that case it is lost. */
  isOver(job: TakenJob): boolean {
    return this.#fetcher.leases.isOver(job);
  }

  /** Its lease has ended, or may have. If its end was sent before, that call may have been confirmed: then the job is done. */
  lost(job: TakenJob): void {
    if (job.isRepeat || job.stopReason instanceof JobLeaseLostError) return;
    job.stop(new JobLeaseLostError(job.name, job.id));
    if (job.hasHandler !== undefined) this.#host.lost(job);
    else job.state = "ended";
  }

  /**
   * It was cancelled, and the server has deleted it. If its end is in progress, the server refuses the end and reports the cancel again.
   */
  cancelled(job: TakenJob): void {
    job.stop(new JobCancelledError(job.name, job.id));
    if (job.state === "ending") return;
    job.state = "ended";
    if (job.hasHandler !== undefined) this.#host.cancelled(job);
  }

  /** The server has ended it, or has refused because it took the lease back. */
  ended({ job, verdict, error, isSnoozed, isExpired }: Ending, isAccepted: boolean): void {
    if (!isAccepted) {
      // Even if the job's end was sent before: that call did not arrive.
      job.isRepeat = false;
      this.lost(job);
    } else if (isExpired) this.#host.expired(job);
    else if (verdict === "done") this.#host.completed(job);
    else if (isSnoozed && typeof verdict === "number") this.#host.snoozed(job, error, verdict);
    else this.#host.failed(job, error, verdict === "dead" ? undefined : verdict);
  }

  async #wait(job: TakenJob, error: Parent): Promise<void> {
    const ending: Ending = { job, verdict: Infinity, record: "", error, isSnoozed: true };
    try {
      await this.#fetcher.endBy(ending, async () => await error.park(job));
    } catch (reason) {
      this.#attempted(job, reason, false, undefined);
    }
  }

  /** An attempt has failed. `waitMs`: how long to wait, if the handler decided it. */
  #attempted(job: TakenJob, error: unknown, isLast: boolean, waitMs: number | undefined): void {
    const { header } = job;
    const attempt = job.failures + 1;
    const backoff = header.backoff ?? this.#backoff;
    if (isLast || attempt >= header.maxAttempts) this.#end(job, "dead", error, attempt);
    else if (waitMs !== undefined) this.#end(job, waitMs, error, attempt);
    else if (typeof backoff !== "function") this.#end(job, waitAfter(attempt, backoff), error, attempt);
    else {
      job.state = "retrying";
      this.#host.waitFor(this.#retryBy(backoff, job, error, attempt));
    }
  }

  async #retryBy(backoff: BackoffFunction, job: TakenJob, error: unknown, attempt: number): Promise<void> {
    let waitMs: number;
    try {
      waitMs = checkedWait(await backoff({ attempt, error, job }));
    } catch (cause) {
      waitMs = waitAfter(attempt);
      this.#host.error(new JobBackoffError(job.name, cause));
    }
    // It was handed back in the meantime.
    if (job.state === "ended") return;
    this.#end(job, waitMs === -1 ? "dead" : waitMs, error, attempt);
  }

  #end(job: TakenJob, verdict: "dead" | number, error: unknown, attempts: number, snoozedBy?: string): void {
    const isSnoozed = snoozedBy !== undefined;
    const holds: Ending["holds"] =
      snoozedBy === rateLimited ? "queue" : snoozedBy === groupLimited ? "group" : undefined;
    job.state = "ending";
    const isPassed = snoozedBy === refused;
    const { crashes, isFresh } = job;
    const snoozes = job.snoozes + Number(isSnoozed && !isPassed);
    const count = isPassed ? job.passes + 1 : job.passes < maxPasses ? 0 : job.passes;
    const passes = { count, isFresh: isPassed && isFresh };
    const record = recordOf(attempts, crashes, storedError(error), snoozes, passes);
    const outcome = verdict === "dead" ? failedOutcome(record) : undefined;
    const ending = { job, verdict, record, error, outcome, isSnoozed, holds };
    // The waiting jobs go back first, so that this job goes ahead of them.
    if (holds === "queue") this.#host.waitFor(this.#host.holding(job).then(() => this.#fetcher.end(ending)));
    else this.#fetcher.end(ending);
  }
}

/** Whether its caller or its parents receive its outcome. */
const isAwaited = ({ header }: TakenJob): boolean => header.replyTo !== undefined || header.isChild;

const rateLimited = "KIT_JOB_RATE_LIMITED";
/** The same for the job's group. */
const groupLimited = `${rateLimited} group`;
const unrecoverable = "KIT_JOB_UNRECOVERABLE";
const refused = "KIT_JOB_REFUSED";
const waiting = "KIT_JOB_WAITING";

/** A `WaitForChildren` of `@kit/queue/flows`, which has the code for it. */
interface Parent {
  readonly park: (job: TakenJob) => Promise<LostLeases>;
}

/** How often a job is passed on before a pass counts as an attempt. It takes more than an hour, so that a deploy can finish. */
const maxPasses = 100;

/**
 * Short at first, because a worker that can run the job may be idle. Four passes with each wait, because most workers may be unable to run
 * it.
 */
const waitOfPass = (passes: number): number => Math.min(60_000, 250 * 2 ** Math.floor(passes / 4));

/** What a handler wants: the facts of an error that decide. */
interface Wish {
  readonly isHandedOver?: boolean;
  readonly code?: string;
  readonly snoozeMs?: number | undefined;
}

/**
 * Reads the deciding facts from a thrown or returned value. The value can come from another copy of this package. A value that throws when
 * it is read counts as any other value.
 */
const wishOf = (job: TakenJob, error: unknown): Wish => {
  if (Object(error) !== error) return {};
  try {
    const isHandedOver = job.isHandedOver(error);
    if (!KitError.is(error)) return { isHandedOver };
    const { code } = error;
    const isSnooze = code === "KIT_JOB_SNOOZED" || code === rateLimited;
    return {
      isHandedOver,
      code: code === rateLimited && (error as RateLimitError).group && job.group !== undefined ? groupLimited : code,
      // Its class checks it as well, but the class may be from another copy, or the value may have changed.
      snoozeMs: isSnooze
        ? msOption("retryAfterMs", (error as SnoozeError | RateLimitError).retryAfterMs, 0, longestWaitMs)
        : undefined,
    };
  } catch {
    return {};
  }
};
