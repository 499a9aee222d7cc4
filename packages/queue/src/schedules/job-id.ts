/** The id of the job that a run adds. */
export const jobIdOf = (schedule: string, runAt: number): string => `${schedule}@${String(runAt)}`;

/** The run that added a job. */
export interface ScheduledRun {
  /** The id of the schedule. */
  readonly schedule: string;
  /** The instant of the run, epoch ms: what the job is about, however late it runs. */
  readonly runAt: number;
}

/**
 * Reads from the id of a job which run of a schedule added it; undefined if its id is not of that form.
 *
 * @example
 * const day = new Date(runOf(job.id)?.runAt ?? job.addedAt);
 */
export const runOf = (jobId: string): ScheduledRun | undefined => {
  const [, schedule, runAt] = /^(.+)@(\d+)$/s.exec(jobId) ?? [];
  return schedule === undefined ? undefined : { schedule, runAt: Number(runAt) };
};
