import { KitError, type RedisLike } from "@kit/core";
import { attach } from "@kit/core/toolkit";
import type { QueueCommands } from "../store/commands.js";
import { cancelledChannel } from "../job/keys.js";
import type { JobLeases } from "./leases.js";

/**
 * Checks a lease as soon as its job is cancelled. A message is only a hint: the reply to the heartbeat decides, and the next heartbeat
 * finds a cancel whose message was lost. Listens on a connection of the caller's client instead of the worker's, so that workers share one
 * connection. Returns a function that stops this.
 */
export const followCancels = (
  redis: RedisLike,
  { context: { prefix }, head, outage }: QueueCommands,
  leases: JobLeases,
): (() => void) => {
  const shared = attach(redis, { prefix });
  const channel = cancelledChannel(head);
  const stop = shared.inbox.listen(channel, {
    message: (member) => leases.look(member),
    state: (state) => {
      if (state === "forbidden")
        outage.report(
          new KitError(
            "KIT_SERVER",
            `The worker learns of cancelled jobs only with its heartbeat. Let the ACL user subscribe to ${channel}`,
          ),
        );
    },
  });
  return () => {
    stop();
    shared.detach();
  };
};
