// The reports of @kit/queue's descriptor, as `kit … --json` prints them. These are its types only: the board never loads the package.
import type { FlowReport } from "@kit/queue/flows";
import type { JobPage, JobReport, LogPage, Overview, WorkerPage } from "@kit/queue/manage";
import type { ScheduleFacts } from "@kit/queue/schedules";

export type { JobFacts as JobRow } from "@kit/queue/manage";
export type JobError = NonNullable<JobReport["error"]>;
export type QueueData = Overview & { readonly schedules: number };
export type ListData = Pick<JobPage, "jobs"> & { readonly next: number | null };
export type WorkersData = WorkerPage;
export type SchedulesData = { readonly schedules: readonly ScheduleFacts[] };
export type LogData = LogPage;
export type FlowData = FlowReport;
export type JobData = JobReport & {
  readonly waits?: readonly { readonly text: string; readonly until: string | null }[];
};
