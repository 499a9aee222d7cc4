import { boolean, choice, custom, integer, resolve, type Resolved, type RulesOf, text } from "@kit/core/toolkit";
import { type Backoff, milliseconds, type ResolvedBackoff } from "../job/backoff.js";
import { jobRules } from "../job/options.js";
import type { BackoffFunction } from "../job/types.js";

const dayMs = 86_400_000;

/** Options of a worker. */
export interface WorkOptions {
  /**
   * The name of the worker in lists of workers. Several workers can have the same name.
   *
   * @default none
   */
  readonly name?: string | undefined;
  /**
   * How many handlers run at a time.
   *
   * @default 1
   */
  readonly concurrency?: number | undefined;
  /**
   * How long the worker can be silent before its jobs go to other workers, in milliseconds: 200 to 86,400,000 (a day). The worker sends a
   * heartbeat every 0.3 of this time.
   *
   * @default 10000
   */
  readonly leaseMs?: number | undefined;
  /**
   * Which thread renews the leases.
   *
   * - `"loop"`: the main loop. If a handler blocks the loop for longer than `leaseMs`, the worker loses its jobs.
   * - `"thread"`: the main loop, and a heartbeat thread while the loop is blocked, for up to `maxBlockedMs`. All workers of the process
   *   share one thread. Workers with the same client share one connection, or with a Cluster one per node.
   * - `"auto"`: as `"thread"` if the thread can connect as the client does, otherwise as `"loop"`.
   *
   * @default "loop"
   */
  readonly heartbeat?: "auto" | "thread" | "loop" | undefined;
  /**
   * With a heartbeat thread: how long the main loop can be blocked, in milliseconds, 200 to 86,400,000 (a day). After that the worker's
   * jobs go to other workers.
   *
   * @default 300000
   */
  readonly maxBlockedMs?: number | undefined;
  /**
   * How the handler of a cancelled job is notified.
   *
   * - `"heartbeat"`: with the worker's next heartbeat, within 0.6 of `leaseMs`.
   * - `"push"`: by a message, within a few milliseconds. This uses one more connection, which all objects with the same client and prefix
   *   share. If the message is lost, the next heartbeat notifies the handler.
   *
   * @default "heartbeat"
   */
  readonly cancelBy?: "heartbeat" | "push" | undefined;
  /**
   * The number of crashes after which a job becomes a dead letter. A crash: the job's worker died, or did not renew the lease although
   * other workers reached the queue. After an outage, workers have 0.35 of `leaseMs` to renew their leases. Use the same number for all
   * workers of a queue.
   *
   * @default 3
   */
  readonly maxCrashes?: number | undefined;
  /**
   * Takes a job only when a handler is free for it. By default, while no other worker is idle, the worker takes jobs ahead: up to 50 ms of
   * work.
   *
   * @default false
   */
  readonly strict?: boolean | undefined;
  /**
   * When a handler that has finished a job can start the next one.
   *
   * - `"batched"`: immediately. The result travels with the worker's next call. If the worker crashes before that call, the jobs in it run
   *   again.
   * - `"each"`: once the server has recorded the result. While a `backoff` function decides about a failed job, the next job can start.
   *
   * @default "batched"
   */
  readonly ack?: "batched" | "each" | undefined;
  /**
   * How long a failed job waits for its next attempt, if it was added without `backoff`. A function can return -1 to make the job a dead
   * letter.
   */
  readonly backoff?: Backoff | BackoffFunction | undefined;
  /**
   * How often handlers can snooze a job with a SnoozeError, counted over all its attempts. Each further snooze is a failed attempt, so a
   * job that is always snoozed ends after `maxAttempts`. With 0 every snooze is a failed attempt.
   *
   * @default 100
   */
  readonly maxSnoozes?: number | undefined;
  /**
   * How long a handler can keep running after `close()` has aborted its signal, in milliseconds: 0 to 86,400,000 (a day). During this time
   * its job stays leased. Then the worker hands the job back, and another worker can run it while the handler still runs.
   *
   * @default 5000
   */
  readonly abortGraceMs?: number | undefined;
}

export const workRules = {
  name: text(128, ""),
  concurrency: integer(1, 10_000, 1),
  leaseMs: milliseconds(200, dayMs, 10_000),
  heartbeat: choice(["auto", "thread", "loop"], "loop"),
  maxBlockedMs: milliseconds(200, dayMs, 300_000),
  cancelBy: choice(["heartbeat", "push"], "heartbeat"),
  maxCrashes: integer(1, 1_000_000, 3),
  strict: boolean(false),
  ack: choice(["batched", "each"], "batched"),
  backoff: custom((name, backoff: Backoff | BackoffFunction): ResolvedBackoff | BackoffFunction | undefined =>
    typeof backoff === "function" ? backoff : jobRules.backoff.check(name, backoff),
  ),
  maxSnoozes: integer(0, 1_000_000, 100),
  abortGraceMs: milliseconds(0, dayMs, 5_000),
} satisfies RulesOf<WorkOptions>;

export interface WorkSettings extends Omit<Resolved<typeof workRules>, "concurrency" | "ack"> {
  concurrency: number;
  readonly ackEach: boolean;
}

/** @throws {TypeError | RangeError} an option is invalid. */
export const workSettings = (options: WorkOptions): WorkSettings => {
  const { ack, ...settings } = resolve("options", options, workRules);
  return { ...settings, ackEach: ack === "each" };
};
