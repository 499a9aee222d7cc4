import { made } from "../../lab/lies.mjs";

export const lies = {
  // As if the thread renewed nothing.
  "threads-renew-nothing": ({ createQueue }) => ({
    createQueue: made(createQueue, (queue) => ({
      work: (handlers, options) => queue.work(handlers, { ...options, heartbeat: "loop" }),
    })),
  }),
  "copies-are-not-awaited": ({ createQueue }) => ({
    createQueue: (client, name, options) => createQueue(client, name, { ...options, durable: undefined }),
  }),
};
