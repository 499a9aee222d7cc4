import type { RedisLike } from "@kit/core";
import type { Wakeups } from "./waiter.js";

/** Decides when one of several workers with shared handlers can start a job. */
export interface Turn {
  /** How many jobs the worker can start now. */
  free(): number;
  /** The worker has started a job. */
  began(): void;
  /** One of the worker's handlers is free, or its queue is known to be empty. */
  changed(): void;
  /** The worker is closed. */
  closed(): void;
  /** The client for the worker's commands. By default, the worker opens its own. */
  readonly client?: RedisLike | undefined;
  /** The shared connection on which the worker waits for work. By default, it opens its own. */
  readonly wakeups?: Wakeups | undefined;
  /** The clock of its handlers' time limits; Node's timers by default. */
  readonly timers?: Timers | undefined;
}

/** Calls `run` after this many milliseconds; returns a function that cancels it. */
export type Timers = (run: () => void, ms: number) => () => void;

export const realTimers: Timers = (run, ms) => {
  const timer = setTimeout(run, Math.min(ms, 2 ** 31 - 1));
  return () => clearTimeout(timer);
};
