import { KitClosedError, type KitError } from "@kit/core";
import { Deadline, reading } from "@kit/core/toolkit";
import type { QueueCommands } from "../store/commands.js";

/** The health of a worker. Durations are in milliseconds. */
export interface WorkerHealth {
  /**
   * False if a restart of the process helps: the client has ended, or for more than a minute the worker wanted jobs and got neither a reply
   * nor an error. True during an outage, from which the worker recovers without a restart. Use it for a liveness probe.
   */
  readonly isAlive: boolean;
  /** Whether the worker takes jobs: it is connected, no call fails, and it is neither paused nor closing. Use it for a readiness probe. */
  readonly isReady: boolean;
  /** Whether the server with this queue answered a read of this call, on the worker's connection. */
  readonly isConnected: boolean;
  readonly isPaused: boolean;
  /** How many handlers are running. */
  readonly running: number;
  /** How long ago the server last answered a step, which takes and ends jobs. An idle worker sends one every 15 s. Null before the first. */
  readonly sinceStepMs: number | null;
  /**
   * How long ago the server last answered a heartbeat. The worker sends one every 0.3 of `leaseMs` while jobs run, and sometimes without
   * jobs. Null before the first.
   */
  readonly sinceHeartbeatMs: number | null;
  /** How long the server has been silent: the time since the last reply to a step or a heartbeat. Null before the first. */
  readonly silentMs: number | null;
  /** How late the worker's timers are. For a few seconds after the event loop was blocked, this is about how long it was blocked. */
  readonly behindMs: number;
  /** The first error of the current outage, or why the worker has closed. */
  readonly error: KitError | undefined;
}

/** The health of a queue object and its workers. */
export interface QueueHealth {
  /** False if a restart of the process helps: its client has ended, or one of its workers is not alive. For a liveness probe. */
  readonly isAlive: boolean;
  /** Whether this object is open and connected, and all its workers are ready. For a readiness probe. */
  readonly isReady: boolean;
  /** Whether the server with this queue answered a read of this call, on the connection that adds jobs. */
  readonly isConnected: boolean;
  /** The workers of this object that are not closed. */
  readonly workers: readonly WorkerHealth[];
}

/** What a worker knows of its health. Instants are of our own clock, in milliseconds. */
export interface Vitals {
  /** The queue is open, and the worker is neither paused nor closing. */
  readonly isTaking: boolean;
  readonly isPaused: boolean;
  readonly running: number;
  /** For many looks it wanted jobs, no call failed, and none got a reply. */
  readonly isStuck: boolean;
  /** When the server last answered. 0: never. */
  readonly stepAt: number;
  readonly heartbeatAt: number;
  /** How late its timers are. */
  readonly behindMs: number;
}

/** A worker that has not opened its queue yet. */
const unopened: Vitals = {
  ...{ isTaking: false, isPaused: false, running: 0, isStuck: false, stepAt: 0, heartbeatAt: 0, behindMs: 0 },
};

/** Whether the server with the queue answers a read in time. */
const isAnswered = ({ context, keys, deadlineMs }: QueueCommands): Promise<boolean> =>
  context.executor.run("EXISTS", [keys.meta], reading("Checking the health", Deadline.in(deadlineMs))).then(
    () => true,
    () => false,
  );

/** Resolves within `deadlineMs`. Never rejects. */
export const workerHealth = async (
  commands: QueueCommands,
  { isTaking, isPaused, running, isStuck, stepAt, heartbeatAt, behindMs }: Vitals = unopened,
): Promise<WorkerHealth> => {
  const isConnected = await isAnswered(commands);
  const now = performance.now();
  const { isEnded } = commands.context.executor;
  const error = isEnded ? new KitClosedError("The client of the queue") : commands.outage.failure;
  const since = (at: number): number | null => (at === 0 ? null : now - at);
  return {
    isAlive: !isEnded && !isStuck,
    isReady: isConnected && isTaking && !error,
    ...{ isConnected, isPaused, running, behindMs, error },
    sinceStepMs: since(stepAt),
    sinceHeartbeatMs: since(heartbeatAt),
    silentMs: since(Math.max(stepAt, heartbeatAt)),
  };
};

/** Resolves within `deadlineMs`. Never rejects. */
export const queueHealth = async (
  commands: QueueCommands,
  open: Iterable<{ health(): Promise<WorkerHealth> }>,
  isClosed: boolean,
): Promise<QueueHealth> => {
  const checks = Promise.all(Array.from(open, (worker) => worker.health()));
  const [isConnected, workers] = await Promise.all([isAnswered(commands), checks]);
  return {
    isAlive: !commands.context.executor.isEnded && workers.every(({ isAlive }) => isAlive),
    isReady: isConnected && !isClosed && workers.every(({ isReady }) => isReady),
    ...{ isConnected, workers },
  };
};
