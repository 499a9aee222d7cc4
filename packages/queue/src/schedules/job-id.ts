/** The id of the job that a run adds. */
export const jobIdOf = (schedule: string, runAt: number): string => `${schedule}@${String(runAt)}`;

/** The run that added a job. */
export interface ScheduledRun {
  /** The id of the schedule. */
  readonly schedule: string;
  /** The time of the run, in epoch ms. It is the scheduled time, even if the job runs late. */
  readonly runAt: number;
}

/**
 * Reads from a job's id which run of a schedule added the job. Undefined if the id has a different form.
 *
 * @example
 * const day = new Date(runOf(job.id)?.runAt ?? job.addedAt);
 */
export const runOf = (jobId: string): ScheduledRun | undefined => {
  const [, schedule, runAt] = /^(.+)@(\d+)$/s.exec(jobId) ?? [];
  return schedule === undefined ? undefined : { schedule, runAt: Number(runAt) };
};
