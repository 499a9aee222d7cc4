import type { Connection } from "@kit/core";
import type { LockInspection } from "@kit/lock";
import {
  type Facts,
  type InspectOptions,
  keyFacts,
  packageBeside,
  type RawKey,
  rawKeys,
  seconds,
  waiterWords,
} from "./report.js";

/** A lock at one instant. */
export interface LockReport {
  readonly lock: string;
  readonly state: "free" | "held";
  readonly holder: string | null;
  /** When it was granted, by the server's clock; null when free, or not known. */
  readonly since: string | null;
  /** What is left of the lease; null when free, or when it has no end. */
  readonly msLeft: number | null;
  readonly fencingToken: string | null;
  readonly waiters: number;
  /** The labels of the first in line. */
  readonly queue: readonly string[];
  readonly keys?: readonly RawKey[];
}

/** A fencing token is the server's microseconds at the grant, unless its clock went back since an earlier one. */
const grantedAt = (fencingToken: string, nowMs: number): string | null => {
  const at = Number(BigInt(fencingToken) / 1_000n);
  return at <= nowMs ? new Date(at).toISOString() : null;
};

/**
 * Looks at a lock without touching it.
 *
 * @throws {Failure} the package is not installed.
 * @throws {KitError} what looking at it gave.
 */
export const inspectLock = async (
  redis: Connection,
  name: string,
  { prefix, keys: withKeys }: InspectOptions,
): Promise<LockReport> => {
  const { createLock } = await packageBeside("lock", () => import("@kit/lock"));
  const lock = createLock(redis, { prefix });
  let seen: LockInspection;
  try {
    seen = await lock.inspect(name);
  } finally {
    await lock.close();
  }
  const { state, holder, msLeft, fencingToken, waiters, queue } = seen;
  let since: string | null = null;
  if (state === "held" && fencingToken !== null) {
    const [seconds] = (await redis.call("TIME")) as [string];
    since = grantedAt(fencingToken, (Number(seconds) + 1) * 1_000);
  }
  const parts = ["lease", "fence", "queue", "waiters"];
  return {
    lock: name,
    state,
    holder,
    since,
    msLeft: msLeft === Infinity ? null : msLeft,
    fencingToken,
    waiters,
    queue: queue.map((waiter) => waiter.holder),
    ...(withKeys ? { keys: await rawKeys(redis, "lock", name, prefix, parts) } : {}),
  };
};

/** The report in words, as names and values. */
export const lockFacts = (report: LockReport): Facts => {
  const { lock, state, holder, since, msLeft, fencingToken, waiters, queue, keys } = report;
  const held: Facts =
    state === "free"
      ? [["holder", "nobody holds it"]]
      : [
          ["holder", holder ?? ""],
          ["since", since ?? "not known: the server's clock went back"],
          [
            "lease",
            msLeft === null ? "never ends: somebody took its expiry away" : `ends in ${seconds(msLeft)} unless renewed`,
          ],
        ];
  return [
    ["lock", lock],
    ...held,
    ["fence", fencingToken ?? "none for a week"],
    ["waiters", waiterWords(waiters, queue)],
    ...keyFacts(keys),
  ];
};
