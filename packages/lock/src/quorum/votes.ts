import { KitError } from "@kit/core";
import { asKitError, type Limit, settled } from "@kit/core/toolkit";

/**
 * The answer of one server about a lease.
 *
 * - `granted`: the caller has it there
 * - `held`: another has it; `msLeft` is Infinity where its expiry was removed (PERSIST)
 * - `free`: nobody has it
 * - `abstained`: the server started lately, and may have forgotten a lease; it votes again after `msLeft`
 * - `no-answer`: it did not answer in time, or is known to be away
 * - `error`: it answered with an error
 */
export type Vote = {
  /** The address of the server. */
  readonly server: string;
} & (
  | { readonly vote: "granted" | "free" }
  | { readonly vote: "held"; readonly holder: string; readonly msLeft: number }
  | { readonly vote: "abstained"; readonly msLeft: number }
  | { readonly vote: "no-answer"; readonly error?: KitError }
  | { readonly vote: "error"; readonly error: KitError }
);

/** The least number of servers that is more than half of them. */
export const quorumOf = (servers: number): number => Math.floor(servers / 2) + 1;

/** Whether a command had no answer; what it did is then unknown, unless it was not sent. */
export const isSilence = (error: unknown): boolean =>
  KitError.is(error) && (error.code === "KIT_UNAVAILABLE" || error.code === "KIT_UNKNOWN_OUTCOME");

/** The vote of a server whose command failed. */
export const failedVote = (server: string, reason: unknown): Vote => {
  const error = asKitError(reason, "A vote");
  return { server, vote: isSilence(error) ? "no-answer" : "error", error };
};

/** Whether a vote is a clear refusal. */
export const isRefusal = (vote: Vote | undefined): boolean => vote?.vote === "held" || vote?.vote === "free";

/** How many of the votes are in, and are these. */
export const countOf = <V>(votes: readonly (V | undefined)[], is: (vote: V) => boolean): number => {
  let count = 0;
  for (const vote of votes) if (vote !== undefined && is(vote)) count++;
  return count;
};

/**
 * Asks all servers at once, and settles with the first result or error of `decide`, which is called after each answer with all so
 * far, in the order of the servers; when all are in, it must have one. At the limit's deadline it is `decide`'s with `isOver`.
 * Answers that come later change nothing. `ask` does not reject.
 */
export const poll = <Server, V, R>(
  servers: readonly Server[],
  ask: (server: Server) => Promise<V>,
  decide: (votes: readonly (V | undefined)[], isOver: boolean) => R | undefined,
  limit: Limit = {},
): Promise<R> => {
  const votes: (V | undefined)[] = servers.map(() => undefined);
  return settled<R>(
    limit,
    ({ resolve }) => resolve(decide(votes, true) as R),
    ({ resolve, reject }) => {
      let missing = servers.length;
      for (const [index, server] of servers.entries())
        ask(server).then((vote) => {
          votes[index] = vote;
          missing--;
          try {
            const result = decide(votes, missing === 0);
            if (result !== undefined) resolve(result);
          } catch (error) {
            reject(error);
          }
        }, reject);
    },
  );
};
