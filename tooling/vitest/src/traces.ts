import { tracingChannel } from "node:diagnostics_channel";

const kinds = ["start", "end", "asyncStart", "asyncEnd", "error"] as const;

/** The events of a diagnostics channel, in order. */
export type Trace = readonly [kind: string, context: Record<string, unknown>];

/** Records the messages of a channel, until the test ends. */
export const recordTraces = (
  redis: { defer(close: () => unknown): void },
  channelName: string,
): { readonly events: readonly Trace[] } => {
  const events: Trace[] = [];
  const channel = tracingChannel<object, object>(channelName);
  const subscribers = Object.fromEntries(
    kinds.map((kind) => [kind, (context: object) => events.push([kind, { ...context }])]),
  ) as unknown as Parameters<typeof channel.subscribe>[0];
  channel.subscribe(subscribers);
  redis.defer(() => channel.unsubscribe(subscribers));
  return { events };
};
