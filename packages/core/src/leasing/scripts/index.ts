import waitQueue from "./wait-queue.lua";

/** The Lua library of wait queues: the server's time, messages to waiters, and which of them are dead. */
export const waitQueueSource: string = waitQueue;
