export { createOrderedWorker } from "./ordered.js";
export { createQueue } from "./queue.js";
export {
  CallTimeoutError,
  JobBackoffError,
  JobFailedError,
  JobLeaseLostError,
  JobOutcomeLostError,
  JobPayloadError,
  JobTimeoutError,
  QueueEvictionError,
  QueueFullError,
  UnrecoverableError,
} from "./errors.js";

export type { Backoff, BackoffFunction } from "./backoff.js";
export type { QueueErrorCode } from "./errors.js";
export type { StoredError } from "./failure.js";
export type {
  AnyJob,
  AnyJobs,
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
} from "./handlers.js";
export type { Job } from "./job.js";
export type { DeadLetter } from "./letters.js";
export type {
  AddedOnce,
  AddOnceOptions,
  AddOptions,
  CallOptions,
  DeadLetterBounds,
  DeadLetterOptions,
  DurableOption,
  HeldState,
  QueueOptions,
  WorkOptions,
} from "./options.js";
export type { OrderedOptions, OrderedWorker } from "./ordered.js";
export type { JobToAdd, Queue, QueueEvents } from "./queue.js";
export type { WorkerEvents, WorkerOf as Worker } from "./worker.js";
export type { CloseOptions } from "@kit/core/toolkit";
