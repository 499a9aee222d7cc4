import { KitClosedError, KitError } from "@kit/core";
import { checkedWait, longestWaitMs, msOption, type ResolvedBackoff, waitAfter } from "../add/backoff.js";
import { failedOutcome, outcomeOf } from "../call/outcomes.js";
import {
  JobBackoffError,
  JobCancelledError,
  JobLeaseLostError,
  type JobRefusedError,
  type RateLimitError,
  type SnoozeError,
} from "../errors.js";
import { recordOf, storedError } from "../failure.js";
import type { Ending } from "./endings.js";
import type { Fetcher } from "./fetcher.js";
import type { BackoffFunction } from "./handlers.js";
import type { TakenJob } from "./taken.js";

/** The events of the worker, and its `close()`. */
export interface FateHost {
  readonly completed: (job: TakenJob) => void;
  /** `retryInMs`: undefined if the job is dead. */
  readonly failed: (job: TakenJob, error: unknown, retryInMs: number | undefined) => void;
  readonly snoozed: (job: TakenJob, error: unknown, retryInMs: number) => void;
  /** Its handler wants that no job begins for a while. Resolves once those that wait in this worker have gone back. */
  readonly holding: (job: TakenJob) => Promise<void>;
  readonly lost: (job: TakenJob) => void;
  readonly cancelled: (job: TakenJob) => void;
  readonly expired: (job: TakenJob) => void;
  readonly error: (error: KitError) => void;
  /** `close()` waits for it. */
  readonly waitFor: (decision: Promise<void>) => void;
}

/**
 * Decides the fate of each job that a worker has taken. A job is
 *
 * - done, when its handler has returned
 * - tried again, when its handler failed and attempts are left
 * - snoozed, when its handler requested that, and has not done so too often: it is tried again, and that is no attempt
 * - expired, when no worker took it in time: it is done, and has not run
 * - passed on, when this worker cannot run it: it waits, and another worker may take it. That is no attempt until too many have done so
 * - dead, when its last attempt failed
 * - handed back, when its handler stopped because the worker closes or its lease is lost: that is no attempt
 * - cancelled, when somebody cancelled it: the server has deleted it, and what its handler returns or throws is ignored
 * - lost, when its lease has ended: another worker may run it, and this one must not end it
 *
 * The first six hold once the server has confirmed them; until then the lease may still be lost.
 */
export class Fates {
  readonly #fetcher: Fetcher;
  readonly #host: FateHost;
  readonly #backoff: ResolvedBackoff | BackoffFunction | undefined;
  readonly #maxSnoozes: number;
  readonly #maxResultBytes: number;
  /** Names of jobs about whose refusal the worker has emitted `error`. */
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

  /** Its handler has returned: a result, or one of the errors that mean the same thrown. */
  done(job: TakenJob, result: unknown): void {
    const { code, snoozeMs } = wishOf(job, result);
    if (snoozeMs !== undefined || code === unrecoverable) return this.failed(job, result);
    job.state = "ending";
    const outcome = job.header.replyTo === undefined ? undefined : outcomeOf(job.name, result, this.#maxResultBytes);
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
    if (snoozeMs !== undefined && job.snoozes < this.#maxSnoozes)
      return this.#end(job, snoozeMs, error, job.failures, code);
    this.#attempted(job, error, code === unrecoverable, snoozeMs);
  }

  /** No worker took it in time. */
  expired(job: TakenJob): void {
    job.state = "ending";
    const outcome = job.header.replyTo === undefined ? undefined : "e";
    this.#fetcher.end({ job, verdict: "done", record: "e", error: undefined, isExpired: true, outcome });
  }

  /** This worker cannot run it. It goes behind the other jobs, and not to the front, where this worker would take it again at once. */
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

  /** Whether its lease may have ended, by our own clock. Then it is lost. */
  isOver(job: TakenJob): boolean {
    return this.#fetcher.leases.isOver(job);
  }

  /** Its lease has ended, or may have. A repeat of its end may have been confirmed: then the job is done. */
  lost(job: TakenJob): void {
    if (job.isRepeat || job.stopReason instanceof JobLeaseLostError) return;
    job.stop(new JobLeaseLostError(job.name, job.id));
    if (job.hasHandler !== undefined) this.#host.lost(job);
    else job.state = "ended";
  }

  /** It was cancelled, and the server has deleted it. If its end is under way, the server refuses that, and says so again. */
  cancelled(job: TakenJob): void {
    job.stop(new JobCancelledError(job.name, job.id));
    if (job.state === "ending") return;
    job.state = "ended";
    if (job.hasHandler !== undefined) this.#host.cancelled(job);
  }

  /** The server has ended it, or has refused since it took the lease back. */
  ended({ job, verdict, error, isSnoozed, isExpired }: Ending, isAccepted: boolean): void {
    if (!isAccepted) {
      // Even if its end was sent before: that call did not arrive.
      job.isRepeat = false;
      this.lost(job);
    } else if (isExpired) this.#host.expired(job);
    else if (verdict === "done") this.#host.completed(job);
    else if (isSnoozed && typeof verdict === "number") this.#host.snoozed(job, error, verdict);
    else this.#host.failed(job, error, verdict === "dead" ? undefined : verdict);
  }

  /** An attempt has failed. `waitMs`: its handler has decided how long it waits. */
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
    // Handed back meanwhile.
    if (job.state === "ended") return;
    this.#end(job, waitMs === -1 ? "dead" : waitMs, error, attempt);
  }

  #end(job: TakenJob, verdict: "dead" | number, error: unknown, attempts: number, snoozedBy?: string): void {
    const isSnoozed = snoozedBy !== undefined;
    const isHeld = snoozedBy === rateLimited;
    job.state = "ending";
    const isPassed = snoozedBy === refused;
    const { crashes, isFresh } = job;
    const snoozes = job.snoozes + Number(isSnoozed && !isPassed);
    const count = isPassed ? job.passes + 1 : job.passes < maxPasses ? 0 : job.passes;
    const passes = { count, isFresh: isPassed && isFresh };
    const record = recordOf(attempts, crashes, storedError(error), snoozes, passes);
    const outcome = verdict === "dead" ? failedOutcome(record) : undefined;
    const ending = { job, verdict, record, error, outcome, isSnoozed, isHeld };
    // They go back first, so that this job comes in front of them.
    if (isHeld) this.#host.waitFor(this.#host.holding(job).then(() => this.#fetcher.end(ending)));
    else this.#fetcher.end(ending);
  }
}

const rateLimited = "KIT_JOB_RATE_LIMITED";
const unrecoverable = "KIT_JOB_UNRECOVERABLE";
const refused = "KIT_JOB_REFUSED";

/** How often a job is passed on before that counts as an attempt: for more than an hour, so that a deploy can end. */
const maxPasses = 100;

/** Short at first, since a worker that can run the job may be idle; four passes with each wait, since most workers may be wrong ones. */
const waitOfPass = (passes: number): number => Math.min(60_000, 250 * 2 ** Math.floor(passes / 4));

/** The wish of a handler: the facts of an error that decide. */
interface Wish {
  readonly isHandedOver?: boolean;
  readonly code?: string;
  readonly snoozeMs?: number | undefined;
}

/**
 * Reads from a thrown or returned value all that decides. It may come from another copy of this package; one that throws when it is read is a
 * value like any other.
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
      code,
      // Its class checks it, too, but it may be another copy's, or changed since.
      snoozeMs: isSnooze
        ? msOption("retryAfterMs", (error as SnoozeError | RateLimitError).retryAfterMs, 0, longestWaitMs)
        : undefined,
    };
  } catch {
    return {};
  }
};
