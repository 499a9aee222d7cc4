import type { LogConnection } from "../connection.js";
import { resultError } from "../errors.js";
import * as scripts from "../scripts/index.js";

/** Where a job, or a consumer of a channel, stores its results. */
export interface ResultPlace {
  /** The key that records all keys with results. */
  readonly owner: string;
  /** The key of the pieces of large commits. */
  readonly pending: string;
  readonly resultKey: (name: string) => string;
}

/** Applies the results of large commits that are not applied yet, from this process or a dead one. */
export const applyPending = async (
  connection: LogConnection,
  { owner, pending, resultKey }: ResultPlace,
  signal: AbortSignal,
): Promise<void> => {
  const read = async (command: string, ...args: readonly string[]): Promise<string | null> =>
    (await connection.persist(() => connection.read(command, [pending, ...args], { signal }), signal)) as string | null;
  for (;;) {
    const piece = await read("HRANDFIELD");
    if (piece === null) return;
    const stored = await read("HGET", piece);
    if (stored === null) continue;
    const [names] = JSON.parse(stored) as [string[]];
    const keys = { owner, pending, targets: names.map((name) => resultKey(name)) };
    const reply = await connection.persist(() => connection.run(scripts.apply, { piece }, { keys }), signal);
    if (reply.state === "refused") throw resultError(reply.fault, keys.targets);
  }
};

/**
 * Moves sums of a result to the sums on their way to a sink. `ack` is the number of the sums that the sink has. Resolves with null when
 * none is left.
 */
export const takeSums = async (
  connection: LogConnection,
  keys: { readonly owner: string; readonly source: string; readonly sending: string },
  ack: number,
): Promise<scripts.Taken | null> => await connection.run(scripts.take, { ack }, { keys });

const recorded = "result ";

/** The keys with results that a job or a channel has recorded in its hash. */
export const resultKeys = (record: ReadonlyMap<string, string>): string[] =>
  [...record.keys()].flatMap((field) => (field.startsWith(recorded) ? [field.slice(recorded.length)] : []));
