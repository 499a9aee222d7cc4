import type { RedisLike } from "@kit/core";
import {
  choice,
  Deadline,
  integer,
  inTime,
  isReplyError,
  noAnswer,
  resolve,
  type RulesOf,
  reading,
  serverError,
  signal,
  withContext,
} from "@kit/core/toolkit";
import { type Popped, popIfScript } from "./script.js";

export type { Popped } from "./script.js";

/** The options of `popIf()`. */
export interface PopIfOptions {
  /**
   * How long the call can take, in milliseconds. After that it rejects.
   *
   * @default 2000
   */
  readonly deadlineMs?: number | undefined;
  /** Rejects the call with `signal.reason`. A command that was already sent may still take effect. */
  readonly signal?: AbortSignal | undefined;
}

const popIfRules = { deadlineMs: integer(1, undefined, 2_000), signal } satisfies RulesOf<PopIfOptions>;
const ends = choice(["low", "high"]);

/**
 * Removes one member from a sorted set. `"low"`: the member of lowest score, if its score is at most `bound`. `"high"`: the member of
 * highest score, if its score is at least `bound`. Resolves with the member. If nothing was removed, it resolves with null, and nothing is
 * written to the AOF or to replicas.
 *
 * **At most once**: if the reply is lost or the caller dies, the member is gone. For jobs use the queue, which removes a job only when it
 * is done.
 *
 * @param bound a score. By default the server's time in epoch ms.
 * @throws {KitUnknownOutcomeError} the reply was lost. A member may have been removed.
 * @throws {KitUnavailableError | KitKeyTypeError} nothing was removed.
 * @throws {TypeError | RangeError} an argument is invalid.
 *
 * @example
 * const due = await popIf(redis, "reminders", "low");
 */
export const popIf = async (
  redis: RedisLike,
  key: string,
  end: "low" | "high",
  bound?: number,
  options: PopIfOptions = {},
): Promise<Popped | null> => {
  if (typeof key !== "string" || key === "") throw new TypeError("Expected `key` to be a non-empty string");
  ends.check("end", end);
  if (bound !== undefined && (typeof bound !== "number" || Number.isNaN(bound)))
    throw new RangeError("Expected `bound` to be a number");
  const resolved = resolve("options", options, popIfRules);
  const limit = bound === undefined ? "" : String(bound).replace("Infinity", "inf");
  return await popIfScript.run(redis, { members: key }, { from: end, bound: limit }, resolved);
};

/**
 * `popIf` as a library of Redis Functions, for callers in any language: `FCALL kit_pop_if 1 key low ""`. Requires Redis 7 or later. It only
 * removes, so it also works on a server at its memory limit.
 */
export const popIfLibrary: string = `#!lua name=kit_pop_if
local function pop(KEYS, ARGV)
${popIfScript.source}
end
redis.register_function{function_name='kit_pop_if', callback=pop, flags={'allow-oom'}}
`;

interface Node {
  call(...command: string[]): Promise<unknown>;
}

const mastersOf = (client: object): readonly Node[] =>
  "nodes" in client ? (client as { nodes(role: "master"): Node[] }).nodes("master") : [client as Node];

/**
 * Loads {@link popIfLibrary} on the server, or on every master of a Cluster, and replaces an earlier version. Redis stores and replicates
 * it with the data, so it survives restarts and failovers. Load it again when a master joins the Cluster, unless
 * `redis-cli --cluster add-node` copied it. You can safely load it again.
 *
 * @throws {KitUnavailableError} a server did not answer in time. Some masters may have the library.
 * @throws {KitError} a server refused: it is older than Redis 7, or the user lacks the permission.
 * @throws {TypeError | RangeError} an option is invalid.
 */
export const loadPopIf = async (redis: RedisLike, options: PopIfOptions = {}): Promise<void> => {
  const { deadlineMs, signal: ended } = resolve("options", options, popIfRules);
  const call = reading("FUNCTION LOAD", Deadline.in(deadlineMs), ended);
  await withContext(redis, async ({ client, executor }) => {
    // Before that, a Cluster client has no list of masters.
    await executor.ready(call);
    const load = async (node: Node): Promise<unknown> =>
      await node.call("FUNCTION", "LOAD", "REPLACE", popIfLibrary).catch((error: unknown) => {
        throw isReplyError(error) ? serverError(error, "FUNCTION LOAD") : error;
      });
    const late = (): Error => noAnswer(client, "FUNCTION LOAD was not done");
    await inTime(Promise.all(mastersOf(client).map(load)), call, late);
  });
};
