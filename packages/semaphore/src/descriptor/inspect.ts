import type { Connection } from "@kit/core";
import { counted, countText, type Facts, type Inspector, secondsText } from "@kit/core/toolkit";
import { createSemaphore, type HolderOrWaiter, type SemaphoreInspection } from "../index.js";
import { semaphoreKeys } from "../keys.js";

/** A semaphore at one instant; what `kit inspect semaphore NAME --json` prints. */
interface SemaphoreReport extends Omit<SemaphoreInspection, "permits" | "free"> {
  readonly semaphore: string;
  /** The tenant that this report covers; only if one was given. */
  readonly tenant?: string;
  /** The limit. It is null, like `free`, if no limit is stored because the semaphore was not used for a week. */
  readonly permits: number | null;
  readonly free: number | null;
}

const reportOf = async (
  redis: Connection,
  prefix: string,
  name: string,
  tenant: string | undefined,
): Promise<SemaphoreReport> => {
  // If no limits are stored, `inspect()` returns those of this object. The program's own can differ.
  const isKnown = (await redis.call("EXISTS", semaphoreKeys(prefix, name).meta)) === 1;
  const semaphore = createSemaphore(redis, name, { permits: 1, prefix });
  try {
    return {
      semaphore: name,
      ...(tenant === undefined ? {} : { tenant }),
      ...(await semaphore.inspect({ tenant })),
      ...(isKnown ? {} : { permits: null, free: null }),
    };
  } finally {
    await semaphore.close();
  }
};

const called = ({ holder, weight, tenant }: HolderOrWaiter): string => {
  const particulars = [
    ...(weight === 1 ? [] : [`weight ${String(weight)}`]),
    ...(tenant === null ? [] : [`tenant ${tenant}`]),
  ];
  return particulars.length === 0 ? holder : `${holder} (${particulars.join(", ")})`;
};

const limitText = ({ permits, permitsPerTenant, tenant, used, free }: SemaphoreReport): string => {
  if (permits === null || free === null) return "none stored: not used for a week. The next use sets them";
  if (tenant !== undefined) {
    const own = permitsPerTenant === null ? "no tenant limit" : String(permitsPerTenant);
    return `${own}, ${String(used)} in use, ${String(free)} of all ${String(permits)} permits free`;
  }
  const use = `${String(permits)}, ${String(used)} in use`;
  if (used > permits) return `${use}: no grants until enough permits are released`;
  return permits === 0 ? `${use}: no grants` : `${use}, ${String(free)} free`;
};

const holderFacts = ({ holders, used }: SemaphoreReport): Facts => {
  if (holders.length === 0) return [["holder", "none"]];
  const shown = holders.reduce((sum, { weight }) => sum + weight, 0);
  return [
    ...holders.map(
      (one) => ["holder", `${called(one)}, expires in ${secondsText(one.msLeft)} unless renewed`] as const,
    ),
    ...(used > shown
      ? [["holder", `others with ${counted(used - shown, "permit")}, which expire later`] as const]
      : []),
  ];
};

const factsOf = (report: SemaphoreReport): Facts => {
  const { semaphore, tenant, permitsPerTenant, waiters, queue } = report;
  return [
    ["semaphore", semaphore],
    ...(tenant === undefined ? [] : [["tenant", tenant] as const]),
    ["permits", limitText(report)],
    ...(tenant === undefined && permitsPerTenant !== null
      ? [["tenants", `up to ${counted(permitsPerTenant, "permit")} each`] as const]
      : []),
    ...holderFacts(report),
    ["waiters", countText(waiters, queue.map(called))],
  ];
};

export const semaphoreInspector: Inspector = {
  thing: "semaphore",
  about: "a semaphore: limits, holders and waiters",
  options: [{ name: "tenant", takes: "text", about: "show one tenant of a group" }],
  look: async ({ redis, prefix, text }, name: string) => {
    const data = await reportOf(redis, prefix, name, text("tenant"));
    const { permits, used, waiters } = data;
    const summary = `${String(used)} of ${String(permits ?? 0)} in use, ${String(waiters)} waiting`;
    return { data, facts: factsOf(data), summary, isUnknown: permits === null };
  },
  cost: 3,
  listed: { things: "semaphores", keys: ["{NAME}:permits"], columns: ["permits", "holder", "waiters"] },
  keys: (prefix, name: string) => Object.values(semaphoreKeys(prefix, name)),
};
