import type { RedisLike } from "./client.js";

/** The listeners for one event of a client, and the shared listener that calls them. */
type Shared = readonly [listeners: Set<() => void>, notify: () => void];

const shared = new WeakMap<RedisLike, Map<string, Shared>>();

/**
 * Calls `listener` at an event of a client. Pass a different function in each call. All of them share one listener on the client,
 * because eleven would print a warning. Returns a function that removes it.
 */
export const listenTo = (client: RedisLike, event: string, listener: () => void): (() => void) => {
  const byEvent = shared.get(client) ?? new Map<string, Shared>();
  shared.set(client, byEvent);
  const known = byEvent.get(event) ?? first(client, event);
  byEvent.set(event, known);
  const [listeners, notify] = known;
  listeners.add(listener);
  return () => {
    if (!listeners.delete(listener) || listeners.size > 0) return;
    client.off(event, notify);
    byEvent.delete(event);
  };
};

/** Adds listeners to one client, by event. Returns a function that removes them. */
export const addListeners = (
  client: RedisLike,
  listeners: Readonly<Record<string, (value: unknown) => void>>,
): (() => void) => {
  const all = Object.entries(listeners);
  for (const [event, listener] of all) client.on(event, listener);
  return () => all.forEach(([event, listener]) => client.off(event, listener));
};

const first = (client: RedisLike, event: string): Shared => {
  const listeners = new Set<() => void>();
  const notify = (): void => listeners.forEach((each) => each());
  client.on(event, notify);
  return [listeners, notify];
};
