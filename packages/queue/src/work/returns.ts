import { asKitError } from "@kit/core/toolkit";
import type { QueueCommands } from "../store/commands.js";
import { maxEnded, type plain } from "../store/scripts/index.js";
import type { JobLeases } from "./leases.js";
import type { TakenJob } from "./taken.js";

/** How many earlier returned jobs the server tries as the place after which to put the next one. */
const maxPivots = 16;

/** Hands jobs of one worker back to the front of the queue, without counting an attempt or a crash. */
export class Returns {
  readonly #commands: QueueCommands;
  readonly #leases: JobLeases;
  readonly #onEnded: () => void;
  /** While `keepsOrder`: the jobs that were handed back, in the order in which they were taken. */
  readonly #returned: TakenJob[] = [];
  #keepsOrder = false;
  /** Calls in progress. */
  pending = 0;

  /** `onEnded`: the calls of one `handBack()` have ended. */
  constructor(commands: QueueCommands, leases: JobLeases, onEnded: () => void) {
    this.#commands = commands;
    this.#leases = leases;
    this.#onEnded = onEnded;
  }

  /** The worker is closing or paused: jobs that go back one by one keep the order in which they were taken. */
  set keepsOrder(keeps: boolean) {
    this.#keepsOrder = keeps;
    if (!keeps) this.#returned.length = 0;
  }

  /**
   * Returns jobs to the front of the queue, in the order in which they were taken. With `keepsOrder`, this order also holds for jobs that
   * go back one by one. If the server does not answer, tries again until the worker has closed: the jobs must not end with a crash.
   * `isLimited`: the queue has limits, as far as the worker knows.
   */
  async handBack(jobs: readonly TakenJob[], isLimited: boolean): Promise<void> {
    if (jobs.length === 0) return;
    // They do not count for a rate of the queue.
    const refunds = jobs.every((job) => job.isLimited && job.state === "held");
    const limited = refunds ? "1" : isLimited ? "0" : "";
    const begun = new Set(jobs.filter(({ state, header }) => state !== "held" && header.expires !== undefined));
    for (const job of jobs) {
      job.state = "ended";
      this.#leases.release(job);
    }
    this.pending++;
    const { life } = this.#commands;
    const sorted = jobs.toSorted((a, b) => a.order - b.order);
    while (sorted.length > 0 && !life.signal.aborted) {
      const [first] = sorted;
      const position = this.#returned.findLastIndex(({ order }) => order < (first?.order ?? 0)) + 1;
      const next = this.#returned[position]?.order ?? Infinity;
      const until = sorted.findIndex(({ order }) => order > next);
      const some = sorted.splice(0, until < 0 ? maxEnded : Math.min(until, maxEnded));
      const after = this.#returned.slice(Math.max(0, position - maxPivots), position).toReversed();
      if (this.#keepsOrder) this.#returned.splice(position, 0, ...some);
      const args = {
        members: some.map(({ member }) => member).join("\n"),
        after: after.map(({ entry }) => entry).join("\n"),
        limited,
        begun: some.flatMap((job) => (begun.has(job) ? [job.id] : [])).join("\n"),
      };
      await this.#send(args);
    }
    this.pending--;
    this.#onEnded();
  }

  async #send(args: Parameters<typeof plain.handBack.run>[2]): Promise<void> {
    const { life, outage } = this.#commands;
    for (let attempt = 1; !life.signal.aborted; attempt++)
      try {
        await this.#commands.move(({ handBack }) => this.#commands.run(handBack, args));
        return outage.worked("returning");
      } catch (reason) {
        const error = asKitError(reason, "Handing jobs back");
        if (!error.retryable) return outage.report(error);
        await this.#commands.failed("returning", "Handing jobs back", error, attempt);
      }
  }
}
