import { KitError } from "@kit/core";

/**
 * This process cannot read or run a schedule: the package `croner` is not installed, or a newer version stored the schedule in another
 * format. As an `error` event it means that the schedule waits for a process that can run it.
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
