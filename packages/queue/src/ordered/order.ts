import type { Worker } from "../work/worker.js";

/** A queue that is served. */
export interface Served {
  readonly worker: Worker;
  readonly weight: number;
  /** How many jobs of earlier queues have started since this queue had a turn or was empty. */
  passedOver: number;
  /** The queue with the most credit gets the next free handler. */
  credit: number;
  /** How many free handlers are for this queue. */
  granted: number;
}

/** Decides which queue gets the next free handler. */
export interface Order {
  /** How many jobs the queue at `rank` can start now. `free`: how many handlers are free. */
  free(served: readonly Served[], rank: number, free: number): number;
  /** The queue at `rank` has started a job. */
  began(served: readonly Served[], rank: number): void;
}
