import { asKitError, integer, resolve, type Resolved, type RulesOf } from "@kit/core/toolkit";
import type { QueueCommands } from "../store/commands.js";
import type { History } from "../store/options.js";
import type { Ending } from "../work/endings.js";
import type { Recorder } from "../work/history.js";
import { recordOf } from "./record.js";
import { forget, keep } from "./scripts/index.js";

/** How many records of ended jobs a queue keeps. It drops the oldest first. Use the same bounds for all workers of a queue. */
export interface HistoryBounds {
  /**
   * The maximum number of records, from 1.
   *
   * @default 1000
   */
  readonly maxCount?: number | undefined;
  /**
   * How long each record is kept, in milliseconds.
   *
   * @default 604800000 (7 days)
   */
  readonly maxAgeMs?: number | undefined;
  /**
   * The maximum size of all records, in bytes. A job uses about 100 bytes plus its result.
   *
   * @default 16777216 (16 MiB)
   */
  readonly maxBytes?: number | undefined;
  /**
   * The maximum size of a kept result, in bytes of JSON. If a job's result is larger, its record has no result. 0 keeps no results.
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

/** The maximum size of one call in bytes, unless one record is larger. */
const callBytes = 1_024 * 1_024;

/** Records ended jobs in separate calls, each before the step that ends the jobs. */
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
        // The jobs end anyway: running them again would be worse.
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
 * Makes the workers of a queue object record jobs that are done or have expired, with their results. By default the queue keeps 1,000
 * records, for 7 days, in up to 16 MiB. `inspectJob()` and `listJobs()` of `@kit/queue/manage` then show these jobs as `completed`. Dead
 * letters are kept in any case, see `deadLetters`.
 *
 * A worker records its ended jobs right before it ends them. Jobs that end together share one extra call. A job that is still in the queue
 * is shown in its current state, even if it has a record. If a record cannot be written, the job ends without one, and the worker emits
 * `error`. If a job is cancelled or loses its lease while the worker records it, it has no record, unless the worker dies at that moment.
 *
 * @throws {TypeError | RangeError} a bound is invalid.
 *
 * @example
 * const queue = createQueue(redis, "mail", { history: keepHistory({ maxCount: 10_000 }) });
 */
export const keepHistory = (bounds: HistoryBounds = {}): History =>
  new JobHistory(resolve("bounds", bounds, boundsRules));
