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
} from "./job/errors.js";

export type { Backoff } from "./job/backoff.js";
export type { Unique } from "./job/unique.js";
export type { QueueErrorCode } from "./job/errors.js";
export type { StoredError } from "./job/failure.js";
export type {
  AnyHandler,
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
} from "./job/types.js";
export type { Job } from "./job/job.js";
export type { DeadLetter } from "./dead/facts.js";
export type { AddedOnce, HeldState } from "./job/added.js";
export type { AddOnceOptions, AddOptions } from "./add/options.js";
export type { CallOptions } from "./call/options.js";
export type { DeadLetterBounds, DurableOption, History, QueueOptions } from "./store/options.js";
export type { DeadLetterOptions } from "./dead/options.js";
export type { WorkOptions } from "./work/options.js";
export type { QueueHealth, WorkerHealth } from "./presence/index.js";
export type { JobToAdd, Queue, QueueEvents } from "./queue.js";
export type { WorkerEvents } from "./work/events.js";
export type { WorkerOf as Worker } from "./work/worker.js";
export type { CloseOptions } from "@kit/core/toolkit";
