import { KitError } from "@kit/core";

/**
 * A schedule cannot be read or run here: the package `croner` is not installed, or this version does not know a format that a newer version
 * stored. As an `error` event it means that the schedule waits for a process that can run it.
 */
export class ScheduleError extends KitError {
  /** @internal */
  static override readonly brand: string = "ScheduleError";
  /** The id of the schedule. */
  readonly schedule: string;

  constructor(schedule: string, reason: string, cause?: unknown) {
    super("KIT_QUEUE_SCHEDULE", `The schedule ${JSON.stringify(schedule)} ${reason}`, { cause });
    this.schedule = schedule;
  }
}
