import { KitError, type RedisLike } from "@kit/core";
import { attach } from "@kit/core/toolkit";
import type { QueueCommands } from "../commands.js";
import { cancelledChannel } from "../keys.js";
import type { JobLeases } from "./leases.js";

/**
 * Looks at a lease as soon as its job is cancelled. A message is a hint: the reply to the heartbeat decides, and the next one finds what
 * a lost message did not tell. Listens beside the caller's client, not beside the connection of the worker, so that workers share one
 * connection. Returns a function that ends this.
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
          new KitError("KIT_SERVER", `No push of cancelled jobs: the user may not subscribe to ${channel}`),
        );
    },
  });
  return () => {
    stop();
    shared.detach();
  };
};
