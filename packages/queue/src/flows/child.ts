import { decodedName } from "@kit/core/toolkit";
import type { StoredError } from "../job/failure.js";
import { failureOf, kindOf, refusalOf, resultOf } from "../job/outcomes.js";

/** A child of a job, and how it ended. */
export interface FlowChild {
  readonly id: string;
  /** Empty if the job is damaged. */
  readonly name: string;
  /**
   * - `open`: it has not ended.
   * - `completed`: its handler returned.
   * - `failed`: it became a dead letter, or its result could not be stored.
   * - `expired`, `cancelled`: as the errors of `queue.call()`.
   * - `removed`: it was removed or drained before it started.
   * - `lost`: it was deleted manually or evicted, so its parent waits forever. See the check `queue-flows` of `kit doctor`.
   */
  readonly outcome: "open" | "completed" | "failed" | "expired" | "cancelled" | "removed" | "lost";
  /** The return value of its handler, after a JSON round trip; bytes as a Buffer. */
  readonly result: unknown;
  /** Why it failed. */
  readonly error: StoredError | undefined;
}

type Ended = Pick<FlowChild, "outcome" | "result" | "error">;

const others = ["open", "expired", "cancelled", "removed"] as const;

const endedOf = (outcome: Buffer): Ended => {
  const kind = kindOf(outcome);
  const ended = { result: undefined, error: undefined };
  if (kind === "json" || kind === "bytes") return { ...ended, outcome: "completed", result: resultOf(outcome) };
  if (kind === "refused") return { ...ended, outcome: "failed", error: refusalOf(outcome) };
  if (kind === "dead") return { ...ended, outcome: "failed", error: failureOf(outcome).error };
  return { ...ended, outcome: others.find((one) => one === kind) ?? "lost" };
};

/** A child from its record, see `children.lua`. */
export const childOf = (record: Buffer): FlowChild => {
  const first = record.indexOf(9);
  const second = record.indexOf(9, first + 1);
  return {
    id: record.toString("utf8", 0, first),
    name: decodedName(record.toString("latin1", first + 1, second)),
    ...endedOf(record.subarray(second + 1)),
  };
};
