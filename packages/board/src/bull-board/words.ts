import type * as board from "@bull-board/api/typings/app";
import { type AddOptions, JobPayloadError, type StoredError } from "@kit/queue";
import type { CleanedState, JobReport, ListedState, Overview } from "@kit/queue/manage";

/** Where kit lists the jobs of a status, the end from which the board shows them, and where kit counts them. */
export type Listing = readonly [state: ListedState, from: "start" | "end", count?: keyof Overview];

export const listings = {
  active: ["active", "start", "active"],
  waiting: ["waiting", "end", "waiting"],
  "waiting-children": ["waiting-for-children", "start", "waitingForChildren"],
  prioritized: ["prioritised", "start", "prioritised"],
  completed: ["completed", "end", "kept"],
  failed: ["dead", "end", "dead"],
  delayed: ["delayed", "start", "delayed"],
  paused: ["suspended", "start", "suspended"],
} as const satisfies Readonly<Record<board.JobStatus, Listing>>;

/** The statuses of jobs that the board can clean, and the states of kit. */
export const cleanable: Readonly<Record<string, CleanedState>> = {
  ...{ completed: "completed", failed: "dead", delayed: "delayed", wait: "waiting", prioritized: "prioritised" },
};

const states: Readonly<Record<JobReport["state"], board.JobState>> = {
  ...{ ready: "waiting", delayed: "delayed", "waiting-for-children": "waiting-children", active: "active" },
  ...{ dead: "failed", completed: "completed", lost: "stuck", none: "unknown" },
};

export const stateOf = ({ state, priority }: JobReport): board.JobState =>
  state === "ready" && priority !== 0 ? "prioritized" : states[state];

/** An error that bull-board replies with: its message, and this status. */
export const refused = (message: string): Error => Object.assign(new Error(message), { statusCode: 400 });

/** Refuses what a visitor has entered, if kit rejects it. */
export const asked = async <T>(call: Promise<T>): Promise<T> =>
  await call.catch((error: unknown) => {
    const isRejected = [TypeError, RangeError, JobPayloadError].some((one) => error instanceof one);
    throw isRejected ? refused((error as Error).message) : error;
  });

/** The start of the texts that the board shows in place of data. */
const inPlaceOfData = "kit: ";
export const notRead = `${inPlaceOfData}open the job to see its data`;
export const notKept = `${inPlaceOfData}the data of completed jobs is not kept`;

/** Bytes arrive here as base64, which is longer than what is stored. JSON is as long as what is stored. */
export const shownData = (data: unknown, bytes: number): unknown =>
  typeof data === "string" && Buffer.byteLength(JSON.stringify(data)) !== bytes
    ? `${inPlaceOfData}${String(bytes)} bytes in base64: ${data}`
    : data;

/** The board puts the text that it shows into its forms. Refuses text that only describes the data of the job. */
export const enteredData = (data: unknown): unknown => {
  if (typeof data === "string" && data.startsWith(inPlaceOfData))
    throw refused(`This text is not the data of the job. Copy the data from the job's page: ${data.slice(0, 50)}`);
  return data;
};

/** The options of a new job. All others have the names of kit; `queue.add()` rejects those that it does not have. */
export const addOptions = ({ attempts, delay, ...others }: board.QueueJobOptions): AddOptions => ({
  ...{ maxAttempts: attempts, delayMs: delay },
  ...others,
});

/** The stack of an error, and of its causes. */
export const stackOf = ({ name, message, stack, cause, errors = [] }: StoredError): string => {
  const causes = [...errors, ...(cause ? [cause] : [])].map((one) => `caused by ${stackOf(one)}`);
  return [stack ?? `${name}: ${message}`, ...causes].join("\n");
};

/** Epoch ms of an ISO text. */
export const msOf = (at: string | null | undefined): number | null => (at ? Date.parse(at) : null);
