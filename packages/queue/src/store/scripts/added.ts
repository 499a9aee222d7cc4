import type { AddedOnce, HeldState } from "../../job/added.js";

/** The maximum number of jobs in one call that adds jobs. */
export const maxAdded = 1_000;

/** The reply of an add. */
export interface AddReply {
  /** The server's time in epoch ms. */
  readonly now: number;
  /** The server has lost the data of the queue. */
  readonly isLost?: boolean;
  /** An answer for each job of an `addOnce` or with a key, in order. Undefined if the answer is no longer stored. */
  readonly answers: readonly (AddedOnce | undefined)[];
}

/** The answer in a line of the reply of `add.lua`. */
const answerOf = (line: string): AddedOnce | undefined => {
  const [own = "", state, id = own, replaced] = line.split("\t");
  if (state === "added") return { id, isAdded: true };
  if (state === "gone") return undefined;
  return { id, isAdded: false, state: state as HeldState, ...(replaced && { isReplaced: true }) };
};

/** Reads the reply of `add.lua` and `addFlow.lua`. */
export const addReplyOf = (raw: unknown): AddReply => {
  const reply = String(raw);
  const now = Number.parseInt(reply, 10);
  return { now: Math.abs(now), isLost: now < 0, answers: reply.split("\n").slice(1).map(answerOf) };
};
