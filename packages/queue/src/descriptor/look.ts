import type { RedisLike } from "@kit/core";
import { parseRecord, type StoredError } from "../failure.js";
import { type QueueKeys, queueKeys } from "../keys.js";
import { decodePayload, parseBlob } from "../payload.js";
import { find, type Found, list, type Listed, overview, type Overview } from "./scripts.js";

/** States that can be listed. */
export type ListedState = "dead" | "waiting" | "prioritised" | "delayed" | "active";

/** Where the jobs of a state stand, and as what. */
const places: Readonly<Record<ListedState, readonly [place: keyof QueueKeys, kind: string]>> = {
  dead: ["dead", "ids"],
  waiting: ["waiting", "list"],
  prioritised: ["prioritised", "ids"],
  delayed: ["delayed", "entries"],
  active: ["leases", "leases"],
};

/** A job without its data. */
export interface JobFacts {
  readonly id: string;
  readonly name: string;
  readonly addedAt: string | null;
  readonly priority: number;
  readonly maxAttempts: number;
  readonly attempts: number;
  readonly crashes: number;
  readonly error: StoredError | null;
  /** When it died, is due, or its lease ends. */
  readonly at: string | null;
  readonly bytes: number;
}

/** One job; what `kit inspect job QUEUE ID --json` prints. */
export interface JobReport extends JobFacts {
  readonly queue: string;
  readonly state: Found["state"];
  /** Only where it was asked for; bytes as base64. */
  readonly data?: unknown;
}

const dated = (ms: number | null): string | null =>
  ms === null || !(Math.abs(ms) <= 8.64e15) ? null : new Date(ms).toISOString();

const factsOf = (id: string, at: number | null, blob: Buffer, bytes: number, record: string): JobFacts => {
  const { attempts, crashes, error } = parseRecord(record);
  const known = { id, attempts, crashes, error: error ?? null, at: dated(at), bytes };
  try {
    const { addedAt, header } = parseBlob(blob);
    const { name, priority, maxAttempts } = header;
    return { ...known, name, addedAt: dated(addedAt), priority, maxAttempts };
  } catch {
    return { ...known, name: "", addedAt: null, priority: 0, maxAttempts: 1 };
  }
};

const dataOf = (blob: Buffer): unknown => {
  try {
    const data = decodePayload(blob, parseBlob(blob));
    return Buffer.isBuffer(data) ? data.toString("base64") : data;
  } catch {
    return undefined;
  }
};

export const lookAtQueue = async (redis: RedisLike, prefix: string, name: string): Promise<Overview> =>
  await overview.run(redis, queueKeys(prefix, name), {});

export const lookAtJob = async (
  redis: RedisLike,
  prefix: string,
  queue: string,
  id: string,
  withData: boolean,
): Promise<JobReport> => {
  const { state, at, blob, record } = await find.run(redis, queueKeys(prefix, queue), { id });
  const bytes = state === "none" ? 0 : blob.length - blob.indexOf(10) - 1;
  return { queue, state, ...factsOf(id, at, blob, bytes, record), ...(withData ? { data: dataOf(blob) } : {}) };
};

/** @throws {RangeError} there is no such state. */
export const listedState = (text = "dead"): ListedState => {
  if (!Object.hasOwn(places, text))
    throw new RangeError(`Expected \`state\` to be one of ${Object.keys(places).join(", ")}, got ${text}`);
  return text as ListedState;
};

/** A page of at most 100 jobs of one state, in its order. */
export const listJobs = async (
  redis: RedisLike,
  prefix: string,
  queue: string,
  state: ListedState,
  start: number,
  count: number,
): Promise<JobFacts[]> => {
  const keys = queueKeys(prefix, queue);
  const [place, kind] = places[state];
  const isScored = state !== "prioritised";
  const page = await list.run(redis, { ...keys, place: keys[place] }, { kind, start, count });
  return page.map(({ id, at, header, bytes, record }: Listed) =>
    factsOf(id, isScored ? at : null, Buffer.from(`${header}\n`, "latin1"), bytes, record),
  );
};
