import { KitError, type RedisLike } from "@kit/core";
import type { QueueCommands } from "../store/commands.js";
import { heartbeat } from "../store/scripts/index.js";
import type { ThreadOptions } from "../thread/options.js";
import type { JobLeases } from "./leases.js";
import type { WorkSettings } from "./options.js";

/** Lets the heartbeat thread renew the leases. Its module is loaded only here, because other workers don't need it. */
export const startThread = async (
  { outage, keys }: QueueCommands,
  leases: JobLeases,
  settings: WorkSettings,
  redis: RedisLike,
  thread: ThreadOptions | Error,
): Promise<void> => {
  try {
    if (thread instanceof Error) throw thread;
    const { mirrorTo } = await import("../thread/index.js");
    mirrorTo(leases, { redis, thread, keys, outage, source: heartbeat.source, ...settings });
  } catch (cause) {
    const message = `The heartbeat thread cannot start: ${(cause as Error).message}`;
    outage.report(new KitError("KIT_QUEUE_HEARTBEAT", message, { cause }));
  }
};
