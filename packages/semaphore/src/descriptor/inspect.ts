import type { Connection } from "@kit/core";
import { countText, type Facts, type Inspector, secondsText } from "@kit/core/toolkit";
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
  // Without stored limits an inspection shows those of its own object, which mean nothing here.
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
    ...(tenant === null ? [] : [`of ${tenant}`]),
  ];
  return particulars.length === 0 ? holder : `${holder} (${particulars.join(", ")})`;
};

const limitText = ({ permits, permitsPerTenant, tenant, used, free }: SemaphoreReport): string => {
  if (permits === null || free === null) return "none stored for a week; whoever uses it next sets them";
  if (tenant !== undefined) {
    const own = permitsPerTenant === null ? "no limit of a tenant" : String(permitsPerTenant);
    return `${own}, ${String(used)} in use, ${String(free)} free of the ${String(permits)} of all`;
  }
  const use = `${String(permits)}, ${String(used)} in use`;
  if (used > permits) return `${use}: no grants until enough is released`;
  return permits === 0 ? `${use}: no grants` : `${use}, ${String(free)} free`;
};

const holderFacts = ({ holders, used }: SemaphoreReport): Facts => {
  if (holders.length === 0) return [["holder", "nobody"]];
  const shown = holders.reduce((sum, { weight }) => sum + weight, 0);
  return [
    ...holders.map((one) => ["holder", `${called(one)}, ends in ${secondsText(one.msLeft)} unless renewed`] as const),
    ...(used > shown ? [["holder", `others, with ${String(used - shown)} in use, that end later`] as const] : []),
  ];
};

const factsOf = (report: SemaphoreReport): Facts => {
  const { semaphore, tenant, permitsPerTenant, waiters, queue } = report;
  return [
    ["semaphore", semaphore],
    ...(tenant === undefined ? [] : [["tenant", tenant] as const]),
    ["permits", limitText(report)],
    ...(tenant === undefined && permitsPerTenant !== null
      ? [["tenants", `${String(permitsPerTenant)} each at most`] as const]
      : []),
    ...holderFacts(report),
    ["waiters", countText(waiters, queue.map(called))],
  ];
};

export const semaphoreInspector: Inspector = {
  thing: "semaphore",
  about: "its limits, who holds how much, and who waits",
  options: [{ name: "tenant", takes: "text", about: "one tenant of a group" }],
  look: async ({ redis, prefix, text }, name: string) => {
    const data = await reportOf(redis, prefix, name, text("tenant"));
    const { permits, used, waiters } = data;
    const summary = `${String(used)} of ${String(permits ?? 0)} in use, ${String(waiters)} waiting`;
    return { data, facts: factsOf(data), summary, isUnknown: permits === null };
  },
  listed: { things: "semaphores", keys: ["{NAME}:permits"], columns: ["permits", "holder", "waiters"] },
  keys: (prefix, name: string) => Object.values(semaphoreKeys(prefix, name)),
};
