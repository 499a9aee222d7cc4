import type { RedisLike } from "@kit/core";
import { type ClientContext, dated, withContext } from "@kit/core/toolkit";
import { partsOf } from "../job/ids.js";
import { type QueueAddress, type QueueKeys, takenKeys } from "../job/keys.js";
import { takeIdWidth, workerWidth } from "../job/take-id.js";
import { checkedAddress } from "../store/address.js";
import { factsIn, namesIn, type ReadFacts } from "../workers/facts.js";
import { readWorkers, type StoredWorker, whoRuns, workerIds } from "../workers/scripts/readers.js";

/** The worker that has a job. */
export interface RunningWorker extends Pick<ReadFacts, "host" | "pid" | "name"> {
  readonly id: string;
}

/** A worker of a queue, in any process. A fact that its record does not have is null. Times are ISO text. */
export interface QueueWorker extends RunningWorker {
  readonly concurrency: number | null;
  /** `closing`: it waits for its running handlers. */
  readonly state: ReadFacts["state"];
  /** The names of its handlers. `*` is the handler of all other names. */
  readonly handles: readonly string[];
  /** Whether it has more handlers than `handles` shows. `handles` has up to about 4,000 characters. */
  readonly handlesMore: boolean;
  /** When it started. */
  readonly since: string | null;
  /** The version of `@kit/queue`. */
  readonly version: string | null;
  /** When it last took jobs or sent a heartbeat. */
  readonly seenAt: string;
  /** How many of its jobs that had started at its last heartbeat still run, up to 500. A worker with short jobs often shows 0. */
  readonly running: number;
  /** Which of these jobs has run for longest. */
  readonly longest: { readonly id: string; readonly startedAt: string } | null;
}

/** The workers of a queue. */
export interface WorkerPage {
  readonly workers: readonly QueueWorker[];
  /** Whether the queue has more than 1,000 workers, and these are some of them. */
  readonly isCut: boolean;
  /** The server's time in epoch ms. */
  readonly now: number;
}

/** How many workers one call reads, and how many in all. */
const some = 50;
const most = 1_000;
const madeId = new RegExp(`^[0-9A-Za-z]{${String(workerWidth)}}$`);

/**
 * Lists the workers of a queue, the oldest first: who they are, what they handle, and the job that each has run for longest.
 *
 * A worker is listed from its start until it closes. If it dies, it is listed for 30 s after its last take or heartbeat. The server needs a
 * few milliseconds for every 50 workers. It changes nothing.
 *
 * @throws {KitUnavailableError} no server answered in time.
 * @throws {TypeError | RangeError} `address` is invalid.
 *
 * @example
 * const { workers } = await listWorkers(redis, { queue: "mail" });
 */
export const listWorkers = async (redis: RedisLike, address: QueueAddress): Promise<WorkerPage> => {
  const { head, keys } = checkedAddress(address);
  return await withContext(redis, async (context) => {
    const all = await workerIds.run(context, keys, {});
    const ids = all.filter((id) => madeId.test(id));
    const workers: QueueWorker[] = [];
    let now = 0;
    for (let start = 0; start === 0 || start < ids.length; start += some) {
      const page = ids.slice(start, start + some);
      const taken = page.flatMap((id) => takenKeys(head, id));
      const found = await readWorkers.run(context, { ...keys, taken }, { ids: page });
      ({ now } = found);
      workers.push(...found.workers.map(workerOf));
    }
    const byAge = (one: QueueWorker, other: QueueWorker): number => (one.since ?? "").localeCompare(other.since ?? "");
    return { workers: workers.toSorted(byAge), isCut: all.length === most, now };
  });
};

const workerOf = ({ id, seenAt, facts, names, running, member, begunAt }: StoredWorker): QueueWorker => {
  const { since, ...own } = factsIn(facts);
  const startedAt = dated(Number(begunAt));
  return {
    ...{ id, ...own, ...namesIn(names), since: dated(since), seenAt: dated(seenAt) ?? "", running },
    longest: member === "" || startedAt === null ? null : { id: partsOf(member.slice(takeIdWidth)).id, startedAt },
  };
};

/** Reads who runs these active jobs, and since when. */
export const runsOf = async (
  context: ClientContext | RedisLike,
  keys: QueueKeys,
  members: readonly string[],
): Promise<readonly { readonly worker: RunningWorker; readonly startedAt: string | null }[]> => {
  if (members.length === 0) return [];
  const found = await whoRuns.run(context, keys, { members });
  return found.map(({ facts, begunAt }, index) => {
    const { host, pid, name } = factsIn(facts);
    const id = members[index]?.slice(0, workerWidth) ?? "";
    return { worker: { id, host, pid, name }, startedAt: begunAt === "" ? null : dated(Number(begunAt)) };
  });
};
