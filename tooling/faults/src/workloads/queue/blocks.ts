import { type Judge, stallsOf } from "../../common-invariants.js";
import type { AccessRecord, BlockRecord, LogRecord, RunHistory, WorkerHistory } from "./history.js";
import { isHarmless } from "./history.js";
import { saw, type Story } from "./stories.js";

/** How long a thread may take to load ioredis and to connect, from the first job of its worker on. */
const threadStartMs = 1_000;

const isBlock = (record: LogRecord): record is BlockRecord => record.kind === "blocked" && "maxBlockedMs" in record;

/**
 * `renewed`: the jobs whose handlers run at a worker with a heartbeat thread do not begin again while its loop is blocked, for at most
 * `maxBlockedMs`.
 */
export const checkBlocks = (run: RunHistory, stories: readonly Story[], judge: Judge<"renewed">): void => {
  for (const worker of run.workers)
    for (const block of worker.records.filter(isBlock)) {
      if (isStarting(worker, block) || mayLoseLeases(run, worker, block)) continue;
      const { from } = block;
      const until = Math.min(block.to, from + block.maxBlockedMs);
      for (const { job, runs } of stories) {
        const own = runs.findLast((one) => one.worker === worker && one.at <= from);
        if (!own || (saw(own, "ran")?.at ?? Infinity) < until) continue;
        const next = runs[runs.indexOf(own) + 1];
        const lostAt = Math.min(saw(own, "lost")?.at ?? Infinity, next?.at ?? Infinity);
        if (lostAt <= from) continue;
        const afterMs = ((next?.at ?? 0) - from).toFixed(0);
        judge("renewed", next && next.at < until && `${job} began again ${afterMs} ms after its loop was blocked`);
      }
    }
};

/** Its thread has not connected yet: until then the loop alone renews. */
const isStarting = (worker: WorkerHistory, { from }: BlockRecord): boolean => {
  const began = worker.records.find((record): record is AccessRecord => record.kind === "access");
  return began === undefined || from - began.at < threadStartMs;
};

/** Faults of other workers, and of the loop itself. */
const isElsewhere = (kind: string): boolean =>
  ["event loop blocked", "worker killed", "worker told to go", "clients' clock jumps"].includes(kind);

/**
 * A fault of the server may have ended leases, or a stall: of the loop before the block, or of the whole process. Heartbeats come after each
 * 0.3 leases.
 */
const mayLoseLeases = (
  { outages, leaseMs, isShifted }: RunHistory,
  worker: WorkerHistory,
  { from, to, stoppedMs }: BlockRecord,
): boolean =>
  isShifted ||
  stoppedMs > leaseMs * 0.3 ||
  stallsOf(worker).some((one) => Math.min(one.to, from) - one.from > leaseMs * 0.3 && one.to > from - leaseMs) ||
  outages.some((one) => !isHarmless(one.kind) && !isElsewhere(one.kind) && one.from <= to && one.to >= from - leaseMs);
