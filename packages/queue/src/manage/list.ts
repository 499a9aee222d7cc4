import type { RedisLike } from "@kit/core";
import { choice, custom, integer, resolve } from "@kit/core/toolkit";
import { encodedName } from "../add/names.js";
import { checkedAddress } from "../address.js";
import { parseRecord } from "../history/record.js";
import { listKept } from "../history/scripts/readers.js";
import type { QueueAddress, QueueKeys } from "../keys.js";
import { factsOfEnded, type JobFacts, jobFacts } from "./report.js";
import { list } from "./scripts.js";

/** States that can be listed. `waiting`, `prioritised` and `suspended` are the ready jobs: of priority 0, of others, and those whose names are stopped. */
export type ListedState = "dead" | "waiting" | "prioritised" | "suspended" | "delayed" | "active" | "completed";

/** For each state the key that has its jobs, and the form of their entries. */
const listedIn: Readonly<Record<Exclude<ListedState, "completed">, readonly [key: keyof QueueKeys, kind: string]>> = {
  dead: ["dead", "ids"],
  waiting: ["waiting", "list"],
  prioritised: ["prioritised", "ids"],
  suspended: ["suspended", "suspended"],
  delayed: ["delayed", "entries"],
  active: ["leases", "leases"],
};

const listRules = {
  state: choice([...Object.keys(listedIn), "completed"] as ListedState[], "dead"),
  from: choice(["start", "end"], "start"),
  name: custom((_name, job: string) => encodedName(job), ""),
  start: integer(0, undefined, 0),
  count: integer(1, 100, 20),
};

/** Jobs of one state. */
export interface JobPage {
  readonly jobs: readonly JobFacts[];
  /** The `start` of the next page; undefined: there is none. */
  readonly next: number | undefined;
}

/**
 * Reads a page of the jobs of one state, from either end of their order, without their data; at most 100 per call. `completed`: those of
 * which a record is kept, in the order of their ends. For them `bytes` is the size of the result.
 *
 * With `name` it reads only jobs of this name. One call looks at 1,000 jobs or 4 MiB at most, some milliseconds of the server. So a page may
 * have fewer jobs than `count`, or none: only `next` says whether more may follow. A page counts from its end of the list: when jobs are taken or
 * added there meanwhile, the next page may repeat some jobs or leave some out. From the end of `waiting` none is left out.
 *
 * @throws {TypeError | RangeError} an argument is not what it should be: there is no such state, or `count` is over 100.
 * @throws {KitUnavailableError} no server answered in time.
 *
 * @example
 * const { jobs, next } = await listJobs(redis, { queue: "mail" }, { state: "waiting", name: "invoice", from: "end" });
 */
export const listJobs = async (
  redis: RedisLike,
  address: QueueAddress,
  options: {
    /** @default "dead" */
    readonly state?: ListedState | undefined;
    /**
     * The end of the list at which the pages begin.
     *
     * @default "start"
     */
    readonly from?: "start" | "end" | undefined;
    /** @default jobs of all names */
    readonly name?: string | undefined;
    /**
     * How many to skip: the `next` of the page before.
     *
     * @default 0
     */
    readonly start?: number | undefined;
    /** @default 20 */
    readonly count?: number | undefined;
  } = {},
): Promise<JobPage> => {
  const { keys } = checkedAddress(address);
  const { state, ...page } = resolve("options", options, listRules);
  if (state === "completed") {
    const { next, page: ended } = await listKept.run(redis, keys, page);
    const jobs = ended.map(({ id, at, head, bytes }) =>
      factsOfEnded(id, at, parseRecord(Buffer.from(head, "latin1")), bytes),
    );
    return { jobs, next };
  }
  const [key, kind] = listedIn[state];
  const { next, page: found } = await list.run(redis, { ...keys, listed: keys[key] }, { kind, ...page });
  // Their scores are not instants.
  const isDated = state !== "prioritised" && state !== "suspended";
  const jobs = found.map(({ id, at, header, bytes, record }) =>
    jobFacts(id, isDated ? at : null, Buffer.from(`${header}\n`, "latin1"), bytes, record),
  );
  return { jobs, next };
};
