import renewal from "./renewal.lua";
import waitQueue from "./wait-queue.lua";

/** The Lua library of wait queues: the server's time, messages to waiters, and dead waiters. */
export const waitQueueSource: string = waitQueue;

/** The Lua library that extends leases in sorted sets. */
export const renewalSource: string = renewal;
