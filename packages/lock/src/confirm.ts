import { durable, type DurableScope } from "@kit/core/durable";
import type { LeaseKind, LeaseRequest, RenewReply, ResolvedAcquire } from "@kit/core/leasing";
import type { ClientContext } from "@kit/core/toolkit";
import type { LockSettings } from "./options.js";

/** How long a confirmation may take. */
interface Patience {
  readonly deadlineMs: number;
  readonly withinMs: number;
  readonly signal: AbortSignal;
}

/**
 * Resolves with the result of `look`, and the reason why replicas or disks lack it (undefined if they have it).
 *
 * Often another connection wrote the grant: the previous holder's. Replication is one stream, so it is enough to look up the lease and then
 * send a mark. Both go to one server over one connection, and confirm what this server has.
 */
export const lookedUp = async <T>(
  context: ClientContext,
  durability: NonNullable<LockSettings["durable"]>,
  key: string,
  { deadlineMs, withinMs, signal }: Patience,
  look: (scope: DurableScope) => Promise<T>,
): Promise<{ readonly value: T; readonly missing: string | undefined }> => {
  const within = Math.ceil(Math.min(durability.timeoutMs + deadlineMs, withinMs));
  const options = { ...durability, key, deadlineMs: within, signal };
  const { value, outcome, why } = await durable(context, options, look);
  return { value, missing: outcome === "safe" ? undefined : (why ?? outcome) };
};

/**
 * Confirms grants as the settings require. Undefined if they require nothing. `look` only looks the lease up, and `notDurable` creates the
 * error for a grant that is not confirmed.
 */
export const confirmer = <Resolved extends ResolvedAcquire>(
  context: ClientContext,
  { durable: durability, deadlineMs }: Pick<LockSettings, "durable" | "deadlineMs">,
  keyOf: (name: string) => string,
  look: (scope: DurableScope, request: LeaseRequest<Resolved>, lease: string) => Promise<RenewReply>,
  notDurable: (name: string, why: string) => Error,
): LeaseKind<Resolved, never>["confirm"] => {
  if (!durability) return undefined;
  return async (request, withinMs, signal) => {
    const { name } = request;
    const key = keyOf(name);
    const patience = { deadlineMs, withinMs, signal };
    const { value, missing } = await lookedUp(context, durability, key, patience, (scope) => look(scope, request, key));
    if (value.states[0] !== "extended") throw notDurable(name, "it expired on the server, or the server lost its data");
    if (missing !== undefined) throw notDurable(name, missing);
  };
};
