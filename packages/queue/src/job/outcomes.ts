import { encodePayload } from "./payload.js";
import { parseRecord, type StoredError, storedError } from "./failure.js";

/**
 * The outcome of a called job, as the server stores it:
 *
 * - `jJSON` or `bBYTES`: the result.
 * - `uERROR`: why the result cannot be sent.
 * - `xRECORD`: the record of a job that became a dead letter.
 * - `c`: the job was cancelled.
 * - `e`: the job has expired.
 */
export type Outcome = string | Buffer;

/**
 * The outcome of a job that is done. A result that cannot be sent fails the call, not the job, because running the job again would not
 * help.
 */
export const outcomeOf = (name: string, result: unknown, maxBytes: number): Outcome => {
  try {
    const payload = encodePayload(name, result, maxBytes, "result");
    return typeof payload === "string" ? `j${payload}` : Buffer.concat([Buffer.from("b"), payload]);
  } catch (error) {
    return `u${JSON.stringify(storedError(error))}`;
  }
};

/** The outcome of a job that became a dead letter. */
export const failedOutcome = (record: string): Outcome => `x${record}`;

/** Where a job's outcome goes: the channel of an inbox, and the name of the caller there. `replyTo` is from the job's header. */
export const addresseeOf = (replyTo: string, prefix: string): { readonly channel: string; readonly caller: string } => {
  const [inbox = "", caller = ""] = replyTo.split(".");
  return { channel: `${prefix}:inbox:${inbox}`, caller };
};

/** The first character of an outcome, or of `waiting`, `gone` or `later`; see `outcomes.lua`. */
export const kindOf = (outcome: Buffer): string => String.fromCharCode(outcome[0] ?? 0);

/** The result of a job that is done. */
export const resultOf = (outcome: Buffer): unknown => {
  const value = outcome.subarray(1);
  if (kindOf(outcome) === "b") return value;
  return value.length === 0 ? undefined : JSON.parse(value.toString());
};

/** Why the result of a job cannot be sent. */
export const refusalOf = (outcome: Buffer): StoredError => JSON.parse(outcome.toString("utf8", 1)) as StoredError;

/** Why a job became a dead letter. */
export const failureOf = (outcome: Buffer): ReturnType<typeof parseRecord> => parseRecord(outcome.toString("utf8", 1));
