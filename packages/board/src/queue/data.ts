// The reports of @kit/queue's descriptor, as `kit … --json` prints them. These are its types only: the board never loads the package.
import type { GroupPage, JobPage, JobReport, Overview, QueueWorker } from "@kit/queue/manage";

export type JobError = NonNullable<JobReport["error"]>;
export type QueueData = Overview & {
  readonly schedules: number;
  readonly workers: readonly QueueWorker[];
  readonly waits?: Waits;
  /** The first 100 groups by name. */
  readonly shownGroups: GroupPage["groups"];
};
export type GroupsData = { readonly groups: GroupPage["groups"]; readonly next: string | null };
export type ListData = Pick<JobPage, "jobs"> & { readonly next: number | null };
export type { FlowReport as FlowData } from "@kit/queue/flows";
export type { LogPage as LogData } from "@kit/queue/manage";
export type Waits = readonly { readonly text: string; readonly until: string | null }[];
export type JobData = JobReport & { readonly waits?: Waits };
