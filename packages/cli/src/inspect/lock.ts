import { type Connection, keyspace } from "@kit/core";
import type { LockInspection } from "@kit/lock";
import { exitCodes, Failure } from "../exit-codes.js";

/** A key as it stands, without its value: that may be the proof of holding. */
interface RawKey {
  readonly key: string;
  readonly type: string;
  /** What is left of its life; null: it has no end. */
  readonly msLeft: number | null;
}

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

const lockPackage = async (): Promise<typeof import("@kit/lock")> => {
  try {
    return await import("@kit/lock");
  } catch (error) {
    if ((error as { code?: unknown }).code !== "ERR_MODULE_NOT_FOUND") throw error;
    throw new Failure("kit inspect lock needs @kit/lock beside it: npm install @kit/lock", exitCodes.usage);
  }
};

/** A fencing token is the server's microseconds at the grant, unless its clock went back since an earlier one. */
const grantedAt = (fencingToken: string, nowMs: number): string | null => {
  const at = Number(BigInt(fencingToken) / 1_000n);
  return at <= nowMs ? new Date(at).toISOString() : null;
};

const rawKeys = async (redis: Connection, name: string, prefix: string): Promise<readonly RawKey[]> => {
  const { key } = keyspace("lock", prefix);
  const looks = ["lease", "fence", "queue", "waiters"].map(async (part): Promise<RawKey> => {
    const full = key(name, part);
    const [type, life] = await Promise.all([redis.call("TYPE", full), redis.call("PTTL", full)]);
    return { key: full, type: String(type), msLeft: Number(life) < 0 ? null : Number(life) };
  });
  return (await Promise.all(looks)).filter(({ type }) => type !== "none");
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
  prefix: string,
  withKeys: boolean,
): Promise<LockReport> => {
  const { createLock } = await lockPackage();
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
  return {
    lock: name,
    state,
    holder,
    since,
    msLeft: msLeft === Infinity ? null : msLeft,
    fencingToken,
    waiters,
    queue: queue.map((waiter) => waiter.holder),
    ...(withKeys ? { keys: await rawKeys(redis, name, prefix) } : {}),
  };
};

const seconds = (ms: number): string =>
  ms < 10_000 ? `${(ms / 1_000).toFixed(1)} s` : `${String(Math.round(ms / 1_000))} s`;

const waitersOf = ({ waiters, queue }: LockReport): string => {
  if (waiters === 0) return "nobody";
  const names = queue.join(", ");
  return `${String(waiters)}: ${names}${waiters > queue.length ? ", …" : ""}`;
};

/** The report in words, as names and values. */
export const lockFacts = (report: LockReport): readonly (readonly [string, string])[] => {
  const { lock, state, holder, since, msLeft, fencingToken, keys } = report;
  const held: (readonly [string, string])[] =
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
    ["waiters", waitersOf(report)],
    ...(keys ?? []).map(
      ({ key, type, msLeft: left }) =>
        ["key", `${key}  ${type}, ${left === null ? "no expiry" : `expires in ${seconds(left)}`}`] as const,
    ),
    ...(keys?.length === 0 ? [["key", "none"] as const] : []),
  ];
};
