import type { RedisLike } from "@kit/core";
import { choice, custom, integer, resolve } from "@kit/core/toolkit";
import { encodedGroup, encodedName } from "../job/names.js";
import { checkedAddress } from "../store/address.js";
import { parseRecord } from "../history/record.js";
import { listKept } from "../history/scripts/readers.js";
import type { QueueAddress, QueueKeys } from "../job/keys.js";
import { factsOfEnded, type JobFacts, jobFacts } from "./report.js";
import { list } from "./scripts.js";
import { runsOf } from "./workers.js";

/**
 * States that you can list. Ready jobs are `waiting` (priority 0), `prioritised` (other priorities), `grouped` (they have a group) or
 * `suspended` (their name is stopped).
 */
export type ListedState =
  | "dead"
  | "waiting"
  | "prioritised"
  | "grouped"
  | "suspended"
  | "delayed"
  | "waiting-for-children"
  | "active"
  | "completed";

/** For each state the key that has its jobs, and the kind of their entries. */
const listedIn: Readonly<Record<Exclude<ListedState, "completed">, readonly [key: keyof QueueKeys, kind: string]>> = {
  dead: ["dead", "ids"],
  waiting: ["waiting", "list"],
  prioritised: ["prioritised", "ids"],
  grouped: ["grouped", "grouped"],
  suspended: ["suspended", "suspended"],
  delayed: ["delayed", "entries"],
  "waiting-for-children": ["delayed", "parents"],
  active: ["leases", "leases"],
};

const listRules = {
  state: choice([...Object.keys(listedIn), "completed"] as ListedState[], "dead"),
  from: choice(["start", "end"], "start"),
  name: custom((_name, job: string) => encodedName(job), ""),
  group: custom(encodedGroup, ""),
  start: integer(0, undefined, 0),
  count: integer(1, 100, 20),
};

/** Jobs of one state. */
export interface JobPage {
  readonly jobs: readonly JobFacts[];
  /** The `start` of the next page. Undefined if this is the last page. */
  readonly next: number | undefined;
}

/**
 * Reads a page of the jobs of one state, from either end of their order, without their data. A page has up to 100 jobs. `completed` lists
 * the jobs that have a record, in the order in which they ended. Their `bytes` is the size of the result. For `active` jobs another call
 * reads who runs them, and since when.
 *
 * With `name` it reads only jobs of this name. One call looks at up to 1,000 jobs or 4 MiB, which takes the server a few milliseconds. A
 * page can therefore have fewer jobs than `count`, or none. Check `next` to see whether more can follow. A page counts from its end of the
 * list: if jobs are taken or added there between calls, the next page can repeat or miss some jobs. From the end of `waiting`, pages miss
 * no job.
 *
 * @throws {TypeError | RangeError} an argument is invalid: for example an unknown state, or a `count` over 100.
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
     * The end of the list from which pages start.
     *
     * @default "start"
     */
    readonly from?: "start" | "end" | undefined;
    /** @default jobs of all names */
    readonly name?: string | undefined;
    /**
     * Only jobs of this group. The state `grouped` is read directly, other states are searched as with `name`.
     *
     * @default jobs of all groups, and jobs without a group
     */
    readonly group?: string | undefined;
    /**
     * How many jobs to skip: the `next` of the previous page.
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
    if (page.group !== "") throw new TypeError('Expected no `group` with state "completed"');
    const { next, page: ended } = await listKept.run(redis, keys, page);
    const jobs = ended.map(({ id, at, head, bytes }) =>
      factsOfEnded(id, at, parseRecord(Buffer.from(head, "latin1")), bytes),
    );
    return { jobs, next };
  }
  const [key, kind] = listedIn[state];
  const { next, page: found } = await list.run(redis, { ...keys, listed: keys[key] }, { kind, ...page });
  const members = state === "active" ? found.map(({ member }) => member) : [];
  const runs = await runsOf(redis, keys, members);
  // Their scores are not instants.
  const isDated = state !== "prioritised" && state !== "suspended" && state !== "grouped";
  const jobs = found.map(({ id, at, header, bytes, record }, index) => ({
    ...jobFacts(id, isDated ? at : null, Buffer.from(`${header}\n`, "latin1"), bytes, record),
    ...runs[index],
  }));
  return { jobs, next };
};
