import type { RedisLike } from "./client.js";

interface Shared {
  readonly listeners: Set<() => void>;
  readonly notify: () => void;
}

/** For each client and event: the listeners, and the one listener of the client that calls them. */
const shared = new WeakMap<RedisLike, Map<string, Shared>>();

/**
 * Calls `listener` at an event of a client. However many are registered, the client has one listener of ours, since eleven would print
 * a warning. Returns a function that removes the listener.
 */
export const listenTo = (client: RedisLike, event: string, listener: () => void): (() => void) => {
  let byEvent = shared.get(client);
  if (!byEvent) shared.set(client, (byEvent = new Map()));
  let known = byEvent.get(event);
  if (!known) {
    const listeners = new Set<() => void>();
    const notify = (): void => {
      for (const each of [...listeners]) each();
    };
    byEvent.set(event, (known = { listeners, notify }));
    client.on(event, notify);
  }
  const { listeners, notify } = known;
  // The same function may be registered twice.
  const own = (): void => listener();
  listeners.add(own);
  return () => {
    if (!listeners.delete(own) || listeners.size > 0) return;
    client.off(event, notify);
    byEvent.delete(event);
  };
};
