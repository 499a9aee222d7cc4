export { createSchedules } from "./schedules.js";
export { ScheduleError } from "./errors.js";
export { runOf } from "./job-id.js";

export type { ScheduledRun } from "./job-id.js";
export type {
  ListOptions,
  MissedRuns,
  OverlapPolicy,
  Schedule,
  ScheduledJobOptions,
  ScheduleOptions,
  SchedulesOptions,
} from "./options.js";
export type { ScheduleFacts } from "./facts.js";
export type { Schedules, SchedulesEvents, StoredSchedule, UpsertedSchedule } from "./schedules.js";
