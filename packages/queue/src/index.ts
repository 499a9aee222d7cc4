export { createQueue } from "./queue.js";
export {
  CallTimeoutError,
  JobBackoffError,
  JobRefusedError,
  JobCancelledError,
  JobExpiredError,
  JobFailedError,
  JobLeaseLostError,
  JobOutcomeLostError,
  JobPayloadError,
  JobResultError,
  JobTimeoutError,
  QueueEvictionError,
  QueueFullError,
  RateLimitError,
  SnoozeError,
  UnrecoverableError,
} from "./errors.js";

export type { Backoff } from "./add/backoff.js";
export type { Unique } from "./add/unique.js";
export type { QueueErrorCode } from "./errors.js";
export type { StoredError } from "./failure.js";
export type {
  AnyJob,
  AnyJobs,
  BackoffFunction,
  CalledResult,
  Handler,
  Handlers,
  JobData,
  JobName,
  JobResult,
  JobSchemas,
  JobTypes,
  Jsonified,
  Received,
} from "./work/handlers.js";
export type { Job } from "./work/job.js";
export type { DeadLetter } from "./manage/letters.js";
export type {
  AddedOnce,
  AddOnceOptions,
  AddOptions,
  CallOptions,
  DeadLetterBounds,
  DeadLetterOptions,
  DurableOption,
  HeldState,
  History,
  QueueOptions,
  WorkOptions,
} from "./options.js";
export type { JobToAdd, Queue, QueueEvents } from "./queue.js";
export type { WorkerEvents } from "./work/events.js";
export type { WorkerOf as Worker } from "./work/worker.js";
export type { CloseOptions } from "@kit/core/toolkit";
