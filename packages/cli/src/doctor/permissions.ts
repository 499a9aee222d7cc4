import { newToken } from "@kit/core/toolkit";
import { isRefusal, Refused, Silent } from "../node.js";
import type { Server } from "../server.js";
import { type Check, type Finding, ok, problem, warning } from "./check.js";

type Form = readonly [command: string, ...args: (string | number)[]];

/** What every package runs besides the commands on its keys. */
const ofCore: readonly Form[] = [["PING"], ["EVALSHA", "0".repeat(40), 0], ["EVAL", "return 1", 0], ["TIME"]];

interface Need {
  readonly name: string;
  readonly things: string;
  /** Each command on its keys, in a form that changes nothing: the key exists nowhere. */
  readonly forms: (key: string) => readonly Form[];
}

const ofBoth = (key: string): readonly Form[] => [
  ["EXISTS", key],
  ["PTTL", key],
  ["PEXPIRE", key, 1],
  ["HGET", key, "f"],
  ["HMGET", key, "f"],
  ["HDEL", key, "f"],
  ["HRANDFIELD", key, 1],
  ["ZADD", key, "XX", 0, "m"],
  ["ZCARD", key],
  ["ZRANGE", key, 0, 0],
  ["ZREM", key, "m"],
  ["ZSCORE", key, "m"],
];

const needs: readonly Need[] = [
  {
    name: "lock",
    things: "locks",
    forms: (key) => [["GET", key], ["SET", key, "", "XX", "PX", 1], ["DEL", key], ...ofBoth(key), ["ZRANK", key, "m"]],
  },
  {
    name: "semaphore",
    things: "semaphores",
    forms: (key) => [
      ["HKEYS", key],
      ["HLEN", key],
      ...ofBoth(key),
      ["ZLEXCOUNT", key, "-", "+"],
      ["ZRANGEBYLEX", key, "-", "+"],
      ["ZRANGEBYSCORE", key, 0, 0],
    ],
  },
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

/** What a package lacks; undefined: all, so that the user is not meant for it. */
const missingOf = async (server: Server, { name, forms }: Need): Promise<readonly string[] | undefined> => {
  const key = `${server.prefix}:${name}:{kit-doctor-${newToken()}}:key`;
  const tried = forms(key);
  const refused = await refusedOf(server, tried);
  return refused.length === tried.length ? undefined : [...refused, ...(await askedOf(server, onlyAsked(key)))];
};

export const permissions: Check = {
  id: "permissions",
  async look(server): Promise<readonly Finding[]> {
    const { prefix } = server;
    const channel = `${prefix}:inbox:kit-doctor-${newToken()}`;
    const fix = `Give the user the line of the packages' README: ~${prefix}:* &${prefix}:inbox:* and the commands; do not rename commands.`;
    const found: Finding[] = [];
    const core = await refusedOf(server, ofCore);
    if (core.length > 0) found.push(problem(`this user may not run ${core.join(", ")}: nothing of kit can work`, fix));
    const lacks: { readonly need: Need; readonly missing: readonly string[] | undefined }[] = [];
    for (const need of needs) lacks.push({ need, missing: await missingOf(server, need) });
    const meant = lacks.filter(({ missing }) => missing);
    for (const { need, missing = [] } of meant)
      if (missing.length > 0)
        found.push(
          problem(
            `this user may not run ${missing.join(", ")} on ${prefix}:${need.name}:*: ${need.things} cannot work`,
            fix,
          ),
        );
    if (meant.length === 0)
      found.push(
        problem(
          `this user may not touch ${needs.map(({ name }) => `${prefix}:${name}:*`).join(" or ")}: neither ${needs.map(({ things }) => things).join(" nor ")} can work`,
          fix,
        ),
      );
    const pushes = [
      ...(await refusedOf(server, [["PUBLISH", channel, ""]])),
      ...((await maySubscribe(server, channel)) ? [] : ["SUBSCRIBE"]),
    ];
    if (pushes.length > 0)
      found.push(warning(`this user may not run ${pushes.join(", ")} on ${prefix}:inbox:*: whoever waits polls`, fix));
    const helpful = await refusedOf(server, [
      ["INFO", "server"],
      ["TYPE", `${prefix}:${meant[0]?.need.name ?? "lock"}:{kit-doctor}:key`],
    ]);
    if (helpful.length > 0 && meant.length > 0)
      found.push(warning(`this user may not run ${helpful.join(", ")}: errors and answers say less`, fix));
    if (found.length > 0) return found;
    const all = ["core", ...meant.map(({ need }) => `the ${need.name}`)];
    return [ok(`this user may do all that ${all.slice(0, -1).join(", ")} and ${all.at(-1)} need`)];
  },
};
