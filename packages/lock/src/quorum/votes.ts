import { KitError } from "@kit/core";
import { asKitError, settled } from "@kit/core/toolkit";

/**
 * One server's answer about a lease.
 *
 * - `granted`: the caller has it there
 * - `held`: another caller has it; `msLeft` is Infinity if its expiry was removed (PERSIST)
 * - `free`: it has no holder
 * - `abstained`: the server started recently, and may have forgotten a lease; it votes again after `msLeft`
 * - `no-answer`: it did not answer in time, or is known to be unavailable
 * - `error`: it answered with an error
 */
export type Vote = {
  /** The server's address. */
  readonly server: string;
} & (
  | { readonly vote: "granted" | "free" }
  | { readonly vote: "held"; readonly holder: string; readonly msLeft: number }
  | { readonly vote: "abstained"; readonly msLeft: number }
  | { readonly vote: "no-answer"; readonly error?: KitError }
  | { readonly vote: "error"; readonly error: KitError }
);

/** The smallest majority of the servers. */
export const quorumOf = (servers: number): number => Math.floor(servers / 2) + 1;

/** Whether a command had no answer. Its effect is then unknown, unless it was not sent. */
export const isSilence = (error: unknown): boolean =>
  KitError.is(error) && (error.code === "KIT_UNAVAILABLE" || error.code === "KIT_UNKNOWN_OUTCOME");

/** The vote of a server whose command failed. */
export const failedVote = (server: string, reason: unknown): Vote => {
  const error = asKitError(reason, "A vote");
  return { server, vote: isSilence(error) ? "no-answer" : "error", error };
};

/** Whether a vote is a clear refusal. */
export const isRefusal = (vote: Vote | undefined): boolean => vote?.vote === "held" || vote?.vote === "free";

/** How many votes are in and satisfy `is`. */
export const countOf = <V>(votes: readonly (V | undefined)[], is: (vote: V) => boolean): number => {
  let count = 0;
  for (const vote of votes) if (vote !== undefined && is(vote)) count++;
  return count;
};

/**
 * Asks all servers at the same time, and settles with the first result or error of `decide`. `decide` runs after each answer, with all
 * answers so far in the order of the servers. When all are in, it must return a result. At the limit's deadline it runs with `isOver`.
 * Later answers change nothing. `ask` does not reject.
 */
export const poll = <Server, V, R>(
  servers: readonly Server[],
  ask: (server: Server) => Promise<V>,
  decide: (votes: readonly (V | undefined)[], isOver: boolean) => R | undefined,
  limit: Parameters<typeof settled>[0] = {},
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
