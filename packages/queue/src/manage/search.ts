import type { ClientContext } from "@kit/core/toolkit";
import type { QueueKeys } from "../job/keys.js";
import { takeIdWidth } from "../job/take-id.js";
import { find, type Found, overview, scan } from "./scripts.js";

/** The entries that a quick search reads. */
const quickEntries = 8_000;

/** Where a job can be whose id does not show it. A job of a group is not in `waiting`. */
const listsOf = (entry: string): readonly ("leases" | "waiting" | "suspended" | "grouped")[] =>
  /^!-?\d+@/.test(entry) ? ["leases", "grouped", "suspended"] : ["leases", "waiting", "suspended"];

/**
 * Finds a job. If its id does not show where it is, searches the leases and the other ready jobs, up to twice. A quick search reads the
 * leases only: if no job of the queue is lost, a job without a lease is ready. It also assumes that after 8,000 entries.
 */
export const located = async (
  context: ClientContext,
  keys: QueueKeys,
  id: string,
  isQuick = false,
): Promise<Found & { readonly member?: string }> => {
  let isWhole = false;
  let read = 0;
  for (let searches = 0; ; searches++) {
    const found = await find.run(context, keys, { id });
    if (found.state !== "lost" || searches === 2) return found;
    if (isWhole) return { ...found, state: "ready" };
    if (isQuick) isWhole = (await overview.run(context, keys, {})).lost === 0;
    for (const from of isWhole ? (["leases"] as const) : listsOf(found.entry))
      for await (const page of pagesOf(context, keys, from)) {
        const held = page.find(([entry]) => entry === found.entry);
        if (held) {
          const [, at, member] = held;
          return from === "leases" ? { ...found, state: "active", at, member } : { ...found, state: "ready", at };
        }
        read += page.length;
        if (isQuick && read >= quickEntries) return { ...found, state: "ready" };
      }
  }
};

/** Reads all entries, page by page. An active job has its member of `leases` as well. */
export async function* pagesOf(
  context: ClientContext,
  keys: QueueKeys,
  from: "jobs" | "leases" | "waiting" | "suspended" | "grouped",
): AsyncGenerator<readonly (readonly [entry: string, at: number | null, member: string])[]> {
  let cursor = "0";
  do {
    const page = await scan.run(context, keys, { from, cursor });
    ({ cursor } = page);
    yield page.entries.map(([text, at]) => [from === "leases" ? text.slice(takeIdWidth) : text, at, text]);
  } while (cursor !== "0");
}
