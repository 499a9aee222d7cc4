import type { Connection } from "@kit/core";
import { countText, type Facts, secondsText } from "@kit/core/toolkit";
import { createReadWriteLock, type ReadWriteInspection } from "../read-write/index.js";

/** The read/write lock of a name, while it is held or waited for. */
export type ReadWriteReport = ReadWriteInspection;

/** Reads the read/write lock of a name. Undefined if it has no holder and no waiter. */
export const readWriteReportOf = async (
  redis: Connection,
  prefix: string,
  name: string,
): Promise<ReadWriteReport | undefined> => {
  const lock = createReadWriteLock(redis, { prefix });
  try {
    const report = await lock.inspect(name);
    return report.holding + report.waiters === 0 ? undefined : report;
  } finally {
    await lock.close();
  }
};

/** Describes the state in words. */
export const readWriteText = ({ state, holding, waiters }: ReadWriteReport): string => {
  const who = state === "write" ? "held by a writer" : `held by ${String(holding)} reader${holding === 1 ? "" : "s"}`;
  return `${holding === 0 ? "free" : who}, ${String(waiters)} waiting`;
};

export const readWriteFacts = (report: ReadWriteReport): Facts => {
  const { holding, holders, fencingToken, waiters, queue } = report;
  const more = holding - holders.length;
  return [
    ["read/write", readWriteText(report)],
    ...holders.map(
      ({ holder, msLeft }) => ["holder", `${holder}, expires in ${secondsText(msLeft)} unless renewed`] as const,
    ),
    ...(more > 0 ? [["holder", `${String(more)} more that expire sooner`] as const] : []),
    ["fencing token", fencingToken ?? "none stored"],
    [
      "waiters",
      countText(
        waiters,
        queue.map(({ holder, mode }) => `${holder} (${mode}s)`),
      ),
    ],
  ];
};
