import { KitError } from "@kit/core";
import { shown } from "@kit/core/leasing";
import type { Vote } from "./votes.js";

/** Codes of the quorum lock's own errors. */
export type QuorumErrorCode = "KIT_LOCK_QUORUM" | "KIT_LOCK_SAME_SERVER";

declare module "@kit/core" {
  interface KitErrorCodes {
    quorumLock: QuorumErrorCode;
  }
}

/** A vote in words. */
const wordsOf = (vote: Vote): string => {
  switch (vote.vote) {
    case "held":
      return `held by ${shown(vote.holder)}, ${vote.msLeft === Infinity ? "without an expiry" : `${String(vote.msLeft)} ms left`}`;
    case "abstained":
      return `abstained for another ${String(Math.ceil(vote.msLeft))} ms after its start`;
    case "error":
      return vote.error.message;
    default:
      return vote.vote === "no-answer" ? "no answer" : vote.vote;
  }
};

/**
 * Too few servers agreed. `votes` has each server's vote: `granted`, `held` (by `holder`, for `msLeft`), `free`, `abstained` (it started
 * less than `restartGuardMs` ago), `no-answer`, or `error`. kit releases partial grants in the background. Retryable, unless permanent
 * errors of servers make a quorum impossible.
 */
export class QuorumError extends KitError {
  /** @internal */
  static override readonly brand: string = "QuorumError";
  /** The lock's name. */
  readonly resource: string;
  /** The number of servers that must agree. */
  readonly quorum: number;
  /** The vote of each server, in the order of the clients. */
  readonly votes: readonly Vote[];

  /** `outcome` says what did not happen, such as `was not granted`. */
  constructor(resource: string, outcome: string, quorum: number, votes: readonly Vote[]) {
    const errors = votes.flatMap((vote) => ("error" in vote && vote.error ? [vote.error] : []));
    const lasting = votes.filter((vote) => vote.vote === "error" && !vote.error.retryable).length;
    const list = votes.map((vote) => `${vote.server}: ${wordsOf(vote)}`).join("; ");
    super(
      "KIT_LOCK_QUORUM",
      `Lock ${shown(resource)} ${outcome}: ${String(quorum)} of ${String(votes.length)} servers must agree (${list})`,
      { cause: errors[0], retryable: votes.length - lasting >= quorum },
    );
    this.resource = resource;
    this.quorum = quorum;
    this.votes = votes;
  }
}

/**
 * Two clients lead to the same server, so its vote would count twice. `positions` are the indexes of these clients in your list, and
 * `servers` are their addresses. If the user may not run INFO, the error names only one of the two. Not retryable.
 */
export class SameServerError extends KitError {
  /** @internal */
  static override readonly brand: string = "SameServerError";
  readonly servers: readonly string[];
  readonly positions: readonly number[];

  constructor(servers: readonly string[], positions: readonly number[]) {
    const named = servers.map((server, index) => `clients[${String(positions[index])}] (${server})`);
    super(
      "KIT_LOCK_SAME_SERVER",
      named.length > 1
        ? `${named.join(" and ")} lead to the same server. Pass one client for each server`
        : `${named.join("")} leads to the same server as another client. Pass one client for each server`,
    );
    this.servers = servers;
    this.positions = positions;
  }
}
