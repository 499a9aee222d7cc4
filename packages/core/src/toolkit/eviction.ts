import { type ClientContext, defineScript, type ServerClock } from "../kernel/index.js";
import source from "./eviction.lua";

export const eviction = defineScript({
  name: "core.eviction",
  source,
  keys: ["key"],
  args: [],
  readonly: true,
  reply: String,
});

/**
 * The `maxmemory-policy` of the server that has `key`, if that server may drop keys: any key with `allkeys-…`, keys with an expiry
 * with `volatile-…`. Undefined if it drops none. On a Cluster the node that serves the key replies. Ask again after a lost
 * connection, because another server may have the key then.
 *
 * @throws {KitError} `KIT_NO_PERMISSION`: the user may not run INFO. Every error of a command.
 */
export const evictionPolicy = async (
  context: ClientContext,
  key: string,
  deadlineMs: number,
): Promise<string | undefined> => {
  const policy = await eviction.run(context, { key }, {}, { deadlineMs });
  return policy === "noeviction" ? undefined : policy;
};

/** The replies of the currently connected servers. A context makes new clocks after each lost connection. */
const answers = new WeakMap<ServerClock, Promise<string | undefined>>();
const deadlineMs = 2_000;

/**
 * For an object that emits `evictable`. Returns a function that the object's commands call with each key in use. It asks the key's
 * server for its policy in the background, but only while `isWanted()`. It asks once per connection, for all objects of the
 * context.
 *
 * It calls `onEvictable` once for each policy under which a server may drop keys. A server that refuses to reply counts as a server
 * that drops none.
 */
export const watchEviction = (
  context: ClientContext,
  isWanted: () => boolean,
  onEvictable: (policy: string) => void,
): ((key: string) => void) => {
  const seen = new WeakSet<ServerClock>();
  const policies = new Set<string>();
  return (key) => {
    if (!isWanted()) return;
    const server = context.clockOf(key);
    if (seen.has(server)) return;
    seen.add(server);
    let answer = answers.get(server);
    if (!answer) answers.set(server, (answer = evictionPolicy(context, key, deadlineMs)));
    answer.then(
      (policy) => {
        if (policy === undefined || policies.has(policy)) return;
        policies.add(policy);
        onEvictable(policy);
      },
      () => undefined,
    );
  };
};
