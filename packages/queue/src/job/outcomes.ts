import { encodePayload } from "./payload.js";
import { parseRecord, type StoredError, storedError } from "./failure.js";

/**
 * The outcome of a called job, as the server stores it: its kind, a line feed, and then:
 *
 * - `json` or `bytes`: the result.
 * - `refused`: the error that says why the result cannot be sent.
 * - `dead`: the record of a job that became a dead letter.
 * - `cancelled`, `expired`: nothing.
 */
export type Outcome = string | Buffer;

/**
 * The outcome of a job that is done. A result that cannot be sent fails the call, not the job, because running the job again would not
 * help.
 */
export const outcomeOf = (name: string, result: unknown, maxBytes: number): Outcome => {
  try {
    const payload = encodePayload(name, result, maxBytes, "result");
    return typeof payload === "string" ? `json\n${payload}` : Buffer.concat([Buffer.from("bytes\n"), payload]);
  } catch (error) {
    return `refused\n${JSON.stringify(storedError(error))}`;
  }
};

/** The outcome of a job that became a dead letter. */
export const failedOutcome = (record: string): Outcome => `dead\n${record}`;

/** Where a job's outcome goes: the channel of an inbox, and the name of the caller there. `replyTo` is from the job's header. */
export const addresseeOf = (replyTo: string, prefix: string): { readonly channel: string; readonly caller: string } => {
  const [inbox = "", caller = ""] = replyTo.split(".");
  return { channel: `${prefix}:inbox:${inbox}`, caller };
};

/** The kind of an outcome, or `waiting`, `gone` or `later`; see `outcomes.lua`. */
export const kindOf = (outcome: Buffer): string => outcome.toString("latin1", 0, valueAt(outcome)).trimEnd();

/** Where the part after the kind starts. */
const valueAt = (outcome: Buffer): number => outcome.indexOf(10) + 1 || outcome.length;

/** The result of a job that is done. */
export const resultOf = (outcome: Buffer): unknown => {
  const value = outcome.subarray(valueAt(outcome));
  if (kindOf(outcome) === "bytes") return value;
  return value.length === 0 ? undefined : JSON.parse(value.toString());
};

/** Why the result of a job cannot be sent. */
export const refusalOf = (outcome: Buffer): StoredError =>
  JSON.parse(outcome.toString("utf8", valueAt(outcome))) as StoredError;

/** Why a job became a dead letter. */
export const failureOf = (outcome: Buffer): ReturnType<typeof parseRecord> =>
  parseRecord(outcome.toString("utf8", valueAt(outcome)));
