import type { Hub } from "./hub.js";
import * as scripts from "./scripts/index.js";

/** Unlinks chunks that no consumer needs, and all others that are still listed. A crash before leaves them listed. */
export const freeChunks = async (hub: Hub, listed: readonly string[]): Promise<void> => {
  const { context, keys, deadlineMs } = hub;
  for (let parts = listed; parts.length > 0;) {
    const unneeded = parts.map((part) => keys.chunk(part));
    const operands = { channel: keys.channel, free: keys.free, unneeded };
    parts = await scripts.free.run(context, operands, { events: keys.events, parts }, { deadlineMs });
  }
};
