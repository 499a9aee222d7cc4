import type { KitError } from "@kit/core";
import { backoffMs, Deadline, inTime, newToken } from "@kit/core/toolkit";
import { firstTermMs, type Grant, grantOf, type LeaseRequest, type ResolvedAcquire } from "@kit/core/leasing";
import { QuorumError, SameServerError } from "./errors.js";
import type { QuorumStore } from "./store.js";
import { countOf, poll, type Vote } from "./votes.js";

/** The pause between two tries is random. Its limit doubles after each try. */
const firstPauseMs = 10;
const longestPauseMs = 200;

/** The outcome of one try. */
interface Round {
  readonly votes: readonly (Vote | undefined)[];
  /** Whether enough servers answered. Without a grant, other callers then caused that: holders, or tries at the same instant. */
  readonly isAnswered: boolean;
  readonly grant: Grant<ResolvedAcquire> | undefined;
}

/** Whether a failed acquire may have left the lease on a server. */
const mayHaveIt = (vote: Vote | undefined): boolean =>
  vote === undefined ||
  vote.vote === "granted" ||
  vote.vote === "error" ||
  (vote.vote === "no-answer" && vote.error?.code === "KIT_UNKNOWN_OUTCOME");

/** Whether a server could not grant the lease to any caller. */
const hasFailed = ({ vote }: Vote): boolean => vote === "no-answer" || vote === "error" || vote === "abstained";

const isDoubled = (vote: Vote | undefined): boolean => vote?.vote === "error" && vote.error instanceof SameServerError;

/**
 * Asks all servers for the lease at the same time. Each try has a separate token, so that a late removal of an earlier try cannot match it.
 * Without a grant everything is removed in the background.
 */
const tryOnce = async (
  store: QuorumStore,
  name: string,
  resolved: ResolvedAcquire,
  limit: Parameters<typeof inTime>[1],
): Promise<Round> => {
  const { servers, quorum } = store;
  const request: LeaseRequest<ResolvedAcquire> = { name, token: newToken(), resolved };
  const leaseMs = firstTermMs(resolved);
  const limitMs = store.limitOf(leaseMs);
  const sentAt = performance.now();
  let isDecided = false;
  let seen: readonly (Vote | undefined)[] = [];
  let grant: Grant<ResolvedAcquire> | undefined;
  try {
    await poll(
      servers,
      (server) => server.acquire(request, leaseMs, limitMs, () => !isDecided),
      (votes, isOver) => {
        seen = votes;
        const granted = countOf(votes, ({ vote }) => vote === "granted");
        // Then all votes must be in: it rejects as long as it is so.
        if (!isOver && servers.some(({ isDouble }) => isDouble)) return undefined;
        if (granted >= quorum && !votes.some(isDoubled)) {
          grant = grantOf(request, { fencingToken: "" }, sentAt);
          return true;
        }
        const missing = servers.length - countOf(votes, () => true);
        return isOver || granted + missing < quorum || undefined;
      },
      limit,
    );
    // Less than half of the lease would be left: the answers were too slow.
    if (grant && grant.deadlineAt - performance.now() < leaseMs / 2) grant = undefined;
  } finally {
    isDecided = true;
    if (!grant)
      store.cancelOn(
        servers.filter((_, index) => mayHaveIt(seen[index])),
        request,
        leaseMs,
      );
  }
  return { votes: seen, isAnswered: servers.length - countOf(seen, hasFailed) >= quorum, grant };
};

/** The error that no further try can fix. */
const lastingError = ({ votes }: Round, error: QuorumError): KitError | undefined =>
  votes.flatMap((vote) => (vote?.vote === "error" && isDoubled(vote) ? [vote.error] : []))[0] ??
  (error.retryable ? undefined : error);

/**
 * Takes the lease on a quorum of the servers, and returns the result of `granted`. It tries until `waitMs` is over, and removes everything
 * between two tries. With `refused`, it returns the result of `refused` as soon as others have the lease.
 *
 * @throws {QuorumError} the last try had no quorum.
 * @throws {SameServerError} two clients lead to one server.
 * @throws the reason of a signal.
 */
export const acquireQuorum = async <L, Refused = never>(
  store: QuorumStore,
  name: string,
  resolved: ResolvedAcquire,
  closing: AbortSignal,
  granted: (grant: Grant<ResolvedAcquire>) => L,
  refused?: () => Refused,
): Promise<L | Refused> => {
  const { waitMs } = resolved;
  const deadline = new Deadline(performance.now() + waitMs);
  const signal = resolved.signal ? [resolved.signal, closing] : closing;
  let loop: string | undefined;
  try {
    for (let attempt = 2; ; attempt++) {
      resolved.signal?.throwIfAborted();
      // A single try lasts as long as its servers may take.
      const end = waitMs > 0 && waitMs < Infinity ? deadline : undefined;
      const round = await tryOnce(store, name, resolved, { deadline: end, signal });
      if (round.grant) {
        store.outage.worked(loop);
        return granted(round.grant);
      }
      const within = end ? ` within ${String(waitMs)} ms` : "";
      const error = new QuorumError(name, `was not granted${within}`, store.quorum, store.completed(round.votes));
      const lasting = lastingError(round, error);
      if (lasting) throw lasting;
      if (round.isAnswered) store.outage.worked(loop);
      if (refused && round.isAnswered) return refused();
      if (deadline.remainingMs < firstPauseMs) throw error;
      // The last tries are closer together.
      const pauseMs = Math.min(backoffMs(attempt, firstPauseMs, longestPauseMs), deadline.remainingMs / 2);
      loop ??= newToken();
      if (!round.isAnswered) store.outage.failed(loop, error);
      await inTime(new Promise<never>(() => undefined), {
        deadline: new Deadline(performance.now() + pauseMs),
        signal,
      });
    }
  } finally {
    if (loop !== undefined) store.outage.ended(loop);
  }
};
