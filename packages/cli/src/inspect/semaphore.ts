import { type Connection, keyspace } from "@kit/core";
import type { Claimant, SemaphoreInspection } from "@kit/semaphore";
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

/** A semaphore at one instant. */
export interface SemaphoreReport extends Omit<SemaphoreInspection, "permits" | "free"> {
  readonly semaphore: string;
  /** Whose use it is; only where one was asked for. */
  readonly tenant?: string;
  /** The limit; null, and then so is `free`: none is stored, since nobody has used it for a week. */
  readonly permits: number | null;
  readonly free: number | null;
  readonly keys?: readonly RawKey[];
}

/**
 * Looks at a semaphore without touching it.
 *
 * @throws {Failure} the package is not installed.
 * @throws {KitError} what looking at it gave.
 */
export const inspectSemaphore = async (
  redis: Connection,
  name: string,
  { prefix, keys: withKeys, tenant }: InspectOptions,
): Promise<SemaphoreReport> => {
  const { createSemaphore } = await packageBeside("semaphore", () => import("@kit/semaphore"));
  const { key } = keyspace("semaphore", prefix);
  // Where no limits are stored the inspection shows those of the object, which here are nobody's.
  const isKnown = (await redis.call("EXISTS", key(name, "meta"))) === 1;
  const semaphore = createSemaphore(redis, name, { permits: 1, prefix });
  let seen: SemaphoreInspection;
  try {
    seen = await semaphore.inspect({ tenant });
  } finally {
    await semaphore.close();
  }
  const parts = ["permits", "meta", "line", "heads", "waiters"];
  return {
    semaphore: name,
    ...(tenant === undefined ? {} : { tenant }),
    ...seen,
    ...(isKnown ? {} : { permits: null, free: null }),
    ...(withKeys ? { keys: await rawKeys(redis, "semaphore", name, prefix, parts) } : {}),
  };
};

const called = ({ holder, weight, tenant }: Claimant): string => {
  const particulars = [
    ...(weight === 1 ? [] : [`weight ${String(weight)}`]),
    ...(tenant === null ? [] : [`of ${tenant}`]),
  ];
  return particulars.length === 0 ? holder : `${holder} (${particulars.join(", ")})`;
};

const limitWords = ({ permits, permitsPerTenant, tenant, used, free }: SemaphoreReport): string => {
  if (permits === null || free === null) return "none stored for a week; whoever uses it next sets them";
  if (tenant !== undefined) {
    const own = permitsPerTenant === null ? "no limit of a tenant" : String(permitsPerTenant);
    return `${own}, ${String(used)} in use, ${String(free)} free of the ${String(permits)} of all`;
  }
  const use = `${String(permits)}, ${String(used)} in use`;
  if (used > permits) return `${use}: nobody comes in until enough is given back`;
  return permits === 0 ? `${use}: nobody comes in` : `${use}, ${String(free)} free`;
};

const holderFacts = ({ holders, used }: SemaphoreReport): Facts => {
  if (holders.length === 0) return [["holder", "nobody"]];
  const shown = holders.reduce((sum, { weight }) => sum + weight, 0);
  return [
    ...holders.map((one) => ["holder", `${called(one)}, ends in ${seconds(one.msLeft)} unless renewed`] as const),
    ...(used > shown ? [["holder", `others, with ${String(used - shown)} in use, that end later`] as const] : []),
  ];
};

/** The report in words, as names and values. */
export const semaphoreFacts = (report: SemaphoreReport): Facts => {
  const { semaphore, tenant, permitsPerTenant, waiters, queue, keys } = report;
  return [
    ["semaphore", semaphore],
    ...(tenant === undefined ? [] : [["tenant", tenant] as const]),
    ["permits", limitWords(report)],
    ...(tenant === undefined && permitsPerTenant !== null
      ? [["tenants", `${String(permitsPerTenant)} each at most`] as const]
      : []),
    ...holderFacts(report),
    ["waiters", waiterWords(waiters, queue.map(called))],
    ...keyFacts(keys),
  ];
};
