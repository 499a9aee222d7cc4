import { newToken } from "@kit/core";
import { isRefusal, Refused, Silent } from "../node.js";
import type { Server } from "../server.js";
import { type Check, type Finding, ok, problem, warning } from "./check.js";

type Form = readonly [command: string, ...args: (string | number)[]];

/** Each command that core and the lock run, in a form that changes nothing: the key exists nowhere. */
const essential = (key: string): readonly Form[] => [
  ["PING"],
  ["EVALSHA", "0".repeat(40), 0],
  ["EVAL", "return 1", 0],
  ["TIME"],
  ["GET", key],
  ["SET", key, "", "XX", "PX", 1],
  ["DEL", key],
  ["EXISTS", key],
  ["PTTL", key],
  ["PEXPIRE", key, 1],
  ["HGET", key, "f"],
  ["HMGET", key, "f"],
  ["HDEL", key, "f"],
  ["ZADD", key, "XX", 0, "m"],
  ["ZCARD", key],
  ["ZRANGE", key, 0, 0],
  ["ZRANK", key, "m"],
  ["ZREM", key, "m"],
  ["ZSCORE", key, "m"],
];

/** These have no form that changes nothing, so the server is asked about them, where it may be. */
const onlyAsked = (key: string): readonly Form[] => [
  ["HSET", key, "f", ""],
  ["HINCRBY", key, "f", 0],
];

const isRefused = (error: unknown): boolean =>
  error instanceof Refused || (error instanceof Error && isRefusal(error.message));

/** Which of the forms the server refuses; other errors do not matter here. */
const refusedOf = async ({ nodes: [node] }: Server, forms: readonly Form[]): Promise<readonly string[]> => {
  // A Cluster's node looks at the permission before it says whose slot it is.
  const results = await Promise.allSettled(forms.map(([command, ...args]) => node.call(command, ...args)));
  for (const result of results)
    if (result.status === "rejected" && result.reason instanceof Silent) throw result.reason;
  return forms.flatMap(([command], index) => {
    const result = results[index];
    return result?.status === "rejected" && isRefused(result.reason) ? [command] : [];
  });
};

const askedOf = async ({ nodes: [node] }: Server, forms: readonly Form[]): Promise<readonly string[]> => {
  try {
    const user = String(await node.call("ACL", "WHOAMI"));
    const replies = await Promise.all(
      forms.map(([command, ...args]) => node.call("ACL", "DRYRUN", user, command, ...args)),
    );
    return forms.flatMap(([command], index) => (replies[index] === "OK" ? [] : [command]));
  } catch (error) {
    if (error instanceof Silent) throw error;
    // Before 7.0 there is no such question, and it takes a right of its own.
    return [];
  }
};

const maySubscribe = async ({ nodes: [node] }: Server, channel: string): Promise<boolean> => {
  const connection = node.another();
  try {
    await connection.connect();
    await connection.subscribe(channel);
    return true;
  } catch (error) {
    return !isRefused(error);
  } finally {
    connection.disconnect();
  }
};

export const permissions: Check = {
  id: "permissions",
  async look(server): Promise<readonly Finding[]> {
    const { prefix } = server;
    const key = `${prefix}:lock:{kit-doctor-${newToken()}}:lease`;
    const channel = `${prefix}:inbox:kit-doctor-${newToken()}`;
    const missing = [...(await refusedOf(server, essential(key))), ...(await askedOf(server, onlyAsked(key)))];
    const helpful = await refusedOf(server, [
      ["INFO", "server"],
      ["TYPE", key],
    ]);
    const pushes = [
      ...(await refusedOf(server, [["PUBLISH", channel, ""]])),
      ...((await maySubscribe(server, channel)) ? [] : ["SUBSCRIBE"]),
    ];
    const fix = `Give the user the line of the packages' README: ~${prefix}:* &${prefix}:inbox:* and the commands; do not rename commands.`;
    const found: Finding[] = [];
    if (missing.length > 0)
      found.push(problem(`this user may not run ${missing.join(", ")} on ${prefix}:lock:*: locks cannot work`, fix));
    if (pushes.length > 0)
      found.push(warning(`this user may not run ${pushes.join(", ")} on ${prefix}:inbox:*: whoever waits polls`, fix));
    if (helpful.length > 0)
      found.push(warning(`this user may not run ${helpful.join(", ")}: errors and answers say less`, fix));
    return found.length > 0 ? found : [ok("this user may do all that core and the lock need")];
  },
};
