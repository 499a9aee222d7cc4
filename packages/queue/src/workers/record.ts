/** What a worker is doing. */
export type WorkerState = "running" | "paused" | "closing";

/** The facts of a worker, as its record stores them in JSON. */
export interface WorkerFacts {
  readonly host: string;
  readonly pid: number;
  readonly name: string;
  readonly concurrency: number;
  /** In epoch ms of the server's clock. */
  readonly since: number;
  readonly version: string;
  readonly state: WorkerState;
}

/** The maximum number of characters for the names of handlers, and the maximum number of jobs, in a record. */
const longestNames = 4_096;
export const mostJobs = 500;

/** The line for the names of handlers: a JSON array. If they are too long, the last element is the number of names that it leaves out. */
export const namesLine = (names: readonly string[]): string => {
  let room = longestNames;
  const shown = names.filter(({ length }) => (room -= length + 3) >= 0);
  return JSON.stringify(shown.length === names.length ? shown : [...shown, names.length - shown.length]);
};

/**
 * The record of a worker: a line of facts, the line of names, and a line for each running job, oldest first. A job's line is its member of
 * `leases` without the worker's id, a tab, and when its handler started. On the server, a line with the time of the record is before it.
 */
export const recordOf = (facts: WorkerFacts, names: string, jobs: readonly string[]): string =>
  [JSON.stringify(facts), names, ...jobs].join("\n");
