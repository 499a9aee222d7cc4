import type { ClientContext } from "@kit/core/toolkit";
import type { QueueKeys } from "../job/keys.js";
import { takeIdWidth } from "../job/take-id.js";
import { find, type Found, scan } from "./scripts.js";

/** Where a job can be whose id does not show it. A job of a group is not in `waiting`. */
const listsOf = (entry: string): readonly ("leases" | "waiting" | "suspended" | "grouped")[] =>
  /^!-?\d+@/.test(entry) ? ["leases", "grouped", "suspended"] : ["leases", "waiting", "suspended"];

/**
 * Finds a job. If its id does not show where it is, searches the leases and the other ready jobs, up to twice. After `maxPages` it assumes
 * that the job is ready.
 */
export const located = async (
  context: ClientContext,
  keys: QueueKeys,
  id: string,
  maxPages = Infinity,
): Promise<Found & { readonly member?: string }> => {
  let pages = 0;
  for (let searches = 0; ; searches++) {
    const found = await find.run(context, keys, { id });
    if (found.state !== "lost" || searches === 2) return found;
    for (const from of listsOf(found.entry))
      for await (const page of pagesOf(context, keys, from)) {
        if (pages++ === maxPages) return { ...found, state: "ready" };
        const held = page.find(([entry]) => entry === found.entry);
        if (!held) continue;
        const [, at, member] = held;
        return from === "leases" ? { ...found, state: "active", at, member } : { ...found, state: "ready", at };
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
