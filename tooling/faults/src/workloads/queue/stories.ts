import type { DataLoss } from "../../records.js";
import type {
  AccessRecord,
  AddCall,
  AskRecord,
  ChangeCall,
  JobRecord,
  LogRecord,
  RunHistory,
  WorkerHistory,
} from "./history.js";

export type Begun = AccessRecord & { readonly worker: WorkerHistory; readonly after: readonly JobRecord[] };

/** All records of one job. */
export interface Story {
  readonly job: string;
  /** The job's runs in order, each with the later events at its worker. */
  readonly runs: readonly Begun[];
  readonly adds: readonly AddCall[];
  /** The calls that were to change the job; a worker that was killed may have settled fewer than it asked for. */
  readonly asked: readonly AskRecord[];
  readonly changes: readonly ChangeCall[];
  /** Its ends without a run. */
  readonly expired: readonly JobRecord[];
}

type Draft = { [K in keyof Story]: Story[K] extends readonly (infer One)[] ? One[] : Story[K] };

export const storiesOf = ({ workers }: RunHistory): Story[] => {
  const stories = new Map<string, Draft>();
  const storyOf = (job: string): Draft => {
    const known = stories.get(job);
    if (known) return known;
    const made: Draft = { job, runs: [], adds: [], asked: [], changes: [], expired: [] };
    stories.set(job, made);
    return made;
  };
  for (const worker of workers) {
    const open = new Map<string, JobRecord[]>();
    for (const record of worker.records) {
      if (record.kind === "call" && "jobs" in record)
        for (const { key } of record.jobs) storyOf(`${record.name} ${key}`).adds.push(record);
      else if (isChange(record)) storyOf(`${record.name} ${record.key}`).changes.push(record);
      else if (record.kind === "asked" && record.key !== undefined)
        storyOf(`${record.name} ${record.key}`).asked.push(record);
      else if (record.kind === "access") {
        const after: JobRecord[] = [];
        open.set(runOf(record), after);
        storyOf(`${record.name} ${record.key}`).runs.push({ ...record, worker, after });
      } else if (record.kind === "expired") storyOf(`${record.name} ${record.key}`).expired.push(record);
      else if (isOfJob(record)) open.get(runOf(record))?.push(record);
    }
  }
  return [...stories.values()].map(({ runs, ...story }) => ({ ...story, runs: runs.toSorted((a, b) => a.at - b.at) }));
};

const isChange = (record: LogRecord): record is ChangeCall => record.kind === "call" && "key" in record;
const jobKinds: readonly string[] = ["ran", "lost", "cancelled", "done", "dead"];
const isOfJob = (record: { readonly kind: string }): record is JobRecord => jobKinds.includes(record.kind);
const runOf = ({ name, key, attempt, crashes, snoozes }: AccessRecord | JobRecord): string =>
  [name, key, attempt, crashes, snoozes].join(" ");

export const saw = ({ after }: Begun, kind: JobRecord["kind"]): JobRecord | undefined =>
  after.find((one) => one.kind === kind);

/** An acknowledged write may be gone if its server then lost its last writes, or all data. */
export const mayBeLost = ({ losses }: { readonly losses: readonly DataLoss[] }, from: number, to: number): boolean =>
  losses.some(({ what, ...loss }) => from <= loss.to && (what !== "unreplicated" || to >= loss.from));
