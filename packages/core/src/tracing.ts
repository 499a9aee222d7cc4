import { tracingChannel, type TracingChannel } from "node:diagnostics_channel";

const channels = new Map<string, TracingChannel<object, object>>();

/**
 * Runs `operation` inside the diagnostics channel `kit:<name>`, whose `start`, `end`, `asyncStart`, `asyncEnd` and
 * `error` events carry `context()`. Costs one look-up while nobody listens.
 */
export const traced = <T>(name: string, context: () => object, operation: () => Promise<T>): Promise<T> => {
  let channel = channels.get(name);
  if (!channel) channels.set(name, (channel = tracingChannel<object, object>(`kit:${name}`)));
  return channel.hasSubscribers ? channel.tracePromise(operation, context()) : operation();
};
