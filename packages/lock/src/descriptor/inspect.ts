import type { Connection } from "@kit/core";
import { countText, dated, type Facts, type Inspector, secondsText } from "@kit/core/toolkit";
import { createLock, type LockInspection } from "../index.js";
import { lockKeys, quorumKey, readWriteKeys } from "../keys.js";
import { quorumFacts, type QuorumReport, quorumReportOf, quorumText } from "./quorum.js";
import { readWriteFacts, type ReadWriteReport, readWriteReportOf, readWriteText } from "./read-write.js";

/** A lock at one instant; what `kit inspect lock NAME --json` prints. */
interface LockReport {
  readonly lock: string;
  readonly state: "free" | "held";
  readonly holder: string | null;
  /** When it was granted, by the server's clock; null when the lock is free, or the time is unknown. */
  readonly since: string | null;
  /** Milliseconds left of the lease; null when the lock is free, or the lease has no end. */
  readonly msLeft: number | null;
  readonly fencingToken: string | null;
  readonly waiters: number;
  /** The labels of the first waiters. */
  readonly queue: readonly string[];
  /** The read/write lock of the same name; only while it is held or waited for. */
  readonly readWrite?: ReadWriteReport;
  /** This server's part of the quorum lock of the same name; only while it has one. */
  readonly quorum?: QuorumReport;
}

/** A fencing token is the server's microseconds at the grant, unless its clock has gone back since an earlier one. */
const grantedAt = (fencingToken: string, nowMs: number): string | null => {
  const at = Number(BigInt(fencingToken) / 1_000n);
  return at <= nowMs ? dated(at) : null;
};

const reportOf = async (
  redis: Connection,
  name: string,
  seen: LockInspection,
  readWrite: ReadWriteReport | undefined,
  quorum: QuorumReport | undefined,
): Promise<LockReport> => {
  const { state, holder, msLeft, fencingToken, waiters, queue } = seen;
  let since: string | null = null;
  if (state === "held" && fencingToken !== null) {
    const [seconds] = (await redis.call("TIME")) as [string];
    since = grantedAt(fencingToken, (Number(seconds) + 1) * 1_000);
  }
  return {
    lock: name,
    state,
    holder,
    since,
    msLeft: msLeft === Infinity ? null : msLeft,
    fencingToken,
    waiters,
    queue: queue.map((waiter) => waiter.holder),
    ...(readWrite ? { readWrite } : {}),
    ...(quorum ? { quorum } : {}),
  };
};

/** When a lease ends; null means never. */
export const leaseText = (msLeft: number | null): string =>
  msLeft === null ? "never expires: its expiry was removed" : `expires in ${secondsText(msLeft)} unless renewed`;

const isUsed = ({ state, waiters }: LockReport): boolean => state === "held" || waiters > 0;

const summaryOf = (report: LockReport): string => {
  const { state, holder, msLeft, waiters, readWrite, quorum } = report;
  if (readWrite && !isUsed(report)) return readWriteText(readWrite);
  if (quorum && !isUsed(report)) return quorumText(quorum);
  return state === "free" ? "free" : `held by ${holder ?? ""}, ${leaseText(msLeft)}, ${String(waiters)} waiting`;
};

const lockFacts = ({ state, holder, since, msLeft, fencingToken, waiters, queue }: LockReport): Facts => {
  const held: Facts =
    state === "free"
      ? [["holder", "none"]]
      : [
          ["holder", holder ?? ""],
          ["since", since ?? "unknown: the server's clock moved backward"],
          ["lease", leaseText(msLeft)],
        ];
  const none = state === "free" ? "none: not acquired in the last week. To list locks: kit list locks" : "none stored";
  return [...held, ["fencing token", fencingToken ?? none], ["waiters", countText(waiters, queue)]];
};

/** Locks of different kinds with the same name are different locks. */
const factsOf = (report: LockReport): Facts => {
  const { lock, readWrite, quorum } = report;
  return [
    ["lock", lock],
    ...((readWrite ?? quorum) && !isUsed(report) ? [] : lockFacts(report)),
    ...(readWrite ? readWriteFacts(readWrite) : []),
    ...(quorum ? quorumFacts(quorum) : []),
  ];
};

export const lockInspector: Inspector = {
  thing: "lock",
  about: "a lock: holder, lease, fencing token and waiters",
  look: async ({ redis, prefix }, name: string) => {
    const lock = createLock(redis, { prefix });
    try {
      const readWrite = await readWriteReportOf(redis, prefix, name);
      const quorum = await quorumReportOf(redis, prefix, name);
      const data = await reportOf(redis, name, await lock.inspect(name), readWrite, quorum);
      return { data, facts: factsOf(data), summary: summaryOf(data) };
    } finally {
      await lock.close();
    }
  },
  cost: 4,
  listed: {
    things: "locks",
    keys: ["{NAME}:lease", "{NAME}:rw-leases", "{NAME}:quorum"],
    columns: ["holder", "since", "lease", "waiters"],
  },
  keys: (prefix, name: string) => [
    ...Object.values(lockKeys(prefix)(name)),
    ...Object.values(readWriteKeys(prefix)(name)),
    quorumKey(prefix)(name),
  ],
};
