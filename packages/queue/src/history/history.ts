import { asKitError, integer, resolve, type Resolved, type RulesOf } from "@kit/core/toolkit";
import type { QueueCommands } from "../commands.js";
import type { History } from "../options.js";
import type { Ending } from "../work/endings.js";
import type { Recorder } from "../work/history.js";
import { recordOf } from "./record.js";
import { forget, keep } from "./scripts/index.js";

/** How many ended jobs a queue remembers. The oldest are dropped first. Use the same bounds for all workers of a queue. */
export interface HistoryBounds {
  /**
   * The most jobs, from 1.
   *
   * @default 1000
   */
  readonly maxCount?: number | undefined;
  /**
   * How long each is remembered, in milliseconds.
   *
   * @default 604800000 (7 days)
   */
  readonly maxAgeMs?: number | undefined;
  /**
   * The most bytes of all records: about 100 for each job, and its result.
   *
   * @default 16777216 (16 MiB)
   */
  readonly maxBytes?: number | undefined;
  /**
   * The largest result that is kept, in bytes as JSON; the job of a larger one is remembered without it. 0: no results.
   *
   * @default 16384
   */
  readonly maxResultBytes?: number | undefined;
}

const boundsRules = {
  maxCount: integer(1, undefined, 1_000),
  maxAgeMs: integer(1, 1e12, 7 * 86_400_000),
  maxBytes: integer(0, undefined, 16 * 1_024 * 1_024),
  maxResultBytes: integer(0, 1_024 * 1_024, 16_384),
} satisfies RulesOf<HistoryBounds>;

/** The most bytes of one call, unless one record has more. */
const callBytes = 1_024 * 1_024;

/** Records ended jobs in calls of their own, each before the step that ends them. */
class JobHistory implements History, Recorder {
  readonly bounds: Resolved<typeof boundsRules>;

  constructor(bounds: Resolved<typeof boundsRules>) {
    this.bounds = bounds;
  }

  async record(commands: QueueCommands, endings: readonly Ending[]): Promise<void> {
    const { maxResultBytes, ...bounds } = this.bounds;
    const ended = endings
      .filter(({ verdict }) => verdict === "done")
      .map((ending) => ({ member: ending.job.member, record: recordOf(ending, maxResultBytes) }));
    while (ended.length > 0) {
      let bytes = 0;
      const end = ended.findIndex(({ record }, index) => (bytes += record.length) > callBytes && index > 0);
      const some = ended.splice(0, end < 0 ? ended.length : end);
      try {
        await commands.run(keep, { ...bounds, ended: some });
        commands.outage.worked("recording");
      } catch (error) {
        // The jobs end all the same: running them again would be worse.
        return commands.outage.failed("recording", asKitError(error, "Recording ended jobs"));
      }
    }
  }

  async forget(commands: QueueCommands, members: readonly string[]): Promise<void> {
    await commands
      .run(forget, { members: members.join("\n") })
      .catch((error: unknown) => commands.outage.report(asKitError(error, "Deleting records of jobs")));
  }
}

/**
 * Lets the workers of a queue object remember jobs that are done or have expired, with their results: by default 1,000 of them, 7 days, and 16 MiB.
 * `inspectJob()` and `listJobs()` of `@kit/queue/manage` then know them as `completed`. Dead letters are kept anyway, by `deadLetters`.
 *
 * A worker records its ended jobs right before it ends them, in one further call for all that end together. A job that is still in the queue is
 * shown as it is there, whatever its record says. If a record cannot be written, the job ends without one, and the worker emits
 * `error`. A job that was cancelled or lost while it ended has no record; it may have one if its worker dies in that moment.
 *
 * @throws {TypeError | RangeError} a bound is not what it should be.
 *
 * @example
 * const queue = createQueue(redis, "mail", { history: keepHistory({ maxCount: 10_000 }) });
 */
export const keepHistory = (bounds: HistoryBounds = {}): History =>
  new JobHistory(resolve("bounds", bounds, boundsRules));
