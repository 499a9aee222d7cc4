import type { ClientContext } from "@kit/core/toolkit";
import type { QueueKeys } from "../job/keys.js";
import { find, type Found, scan } from "./scripts.js";

/** Finds a job. If its id does not show where it is, searches the leases and the other ready jobs, up to twice. */
export const located = async (context: ClientContext, keys: QueueKeys, id: string): Promise<Found> => {
  for (let searches = 0; ; searches++) {
    const found = await find.run(context, keys, { id });
    if (found.state !== "lost" || searches === 2) return found;
    for (const from of ["leases", "waiting", "suspended"] as const)
      for await (const page of pagesOf(context, keys, from)) {
        const held = page.find(([entry]) => entry === found.entry);
        if (held) return { ...found, state: from === "leases" ? "active" : "ready", at: held[1] };
      }
  }
};

/** Reads all entries, page by page. */
export async function* pagesOf(
  context: ClientContext,
  keys: QueueKeys,
  from: "jobs" | "leases" | "waiting" | "suspended",
): AsyncGenerator<Awaited<ReturnType<typeof scan.run>>["entries"]> {
  let cursor = "0";
  do {
    const page = await scan.run(context, keys, { from, cursor });
    ({ cursor } = page);
    yield page.entries;
  } while (cursor !== "0");
}
