import { asKitError } from "@kit/core/toolkit";
import type { WorkerNow } from "../presence/index.js";
import type { QueueCommands } from "../store/commands.js";
import { wallMs } from "../store/wall.js";
import type { JobLeases } from "./leases.js";

/** Shows a worker to other processes. The module is loaded only here, because programs that only add jobs don't need it. */
export const appear = async (
  commands: QueueCommands,
  leases: JobLeases,
  handled: readonly string[],
  now: () => WorkerNow,
): Promise<void> => {
  const since = Math.round(wallMs() + commands.offsetMs);
  try {
    const { Presence } = await import("../presence/index.js");
    if (!commands.life.isClosed) leases.presence = new Presence(commands, leases, handled, since, now);
  } catch (error) {
    commands.outage.report(asKitError(error, "Showing the worker"));
  }
};
