import waitQueue from "./wait-queue.lua";

/** Lua that scripts of wait queues are joined with: the server's time, and messages to those who wait. */
export const waitQueueSource: string = waitQueue;
