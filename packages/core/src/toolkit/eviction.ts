import { type ClientContext, defineScript, type Script } from "../kernel/index.js";
import source from "./eviction.lua";

export const eviction: Script<readonly ["key"], readonly [], string> = defineScript({
  name: "core.eviction",
  source,
  keys: ["key"],
  args: [],
  readonly: true,
  reply: String,
});

/**
 * The `maxmemory-policy` of the server that has `key`, where that server may drop keys: `allkeys-…` any, `volatile-…` those with
 * an expiry. Undefined where it drops none. On a Cluster the node that serves the key now is the one that answers. To be asked
 * again when the connection was lost: another server may have the key then.
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
