import type { KitError } from "../index.js";
import type { ObjectLife, OutageReporter } from "../toolkit/index.js";
import type { LeaseKind, LeaseRequest, Release, ReleaseReply, Renewal, RenewState, Seen } from "./kind.js";
import type { LeaserSettings, ResolvedAcquire } from "./options.js";

/** Where an object's leases are held: one server, a Cluster, or several servers. A held lease sends its commands here. */
export interface LeaseStore<Resolved extends ResolvedAcquire> {
  readonly kind: Pick<LeaseKind<Resolved, Seen>, "what" | "id" | "keyOf" | "lostError">;
  readonly settings: Pick<LeaserSettings, "deadlineMs">;
  readonly life: ObjectLife;
  /** Reports failures and recovery of renewals, by the tokens of their leases. */
  readonly outage: OutageReporter;
  /** Commands that were in flight when this changed may have been sent twice. */
  readonly connectionEpoch: number;

  /** Leases whose keys have the same group can be renewed by one call. */
  groupOf(key: string): string;
  /** Any error as a kit error. */
  errorOf(error: unknown): KitError;
  /** Reports a failure in the background, unless it belongs to an outage that was already reported. */
  onError(error: unknown): void;
  /** Renews leases of one group, each with its new length. */
  renew(renewals: readonly Renewal<Resolved>[], deadlineMs: number): Promise<readonly RenewState[]>;
  /** Releases the lease of the request's token. */
  release(request: LeaseRequest<Resolved>, release: Omit<Release, "shared">): Promise<ReleaseReply>;
  /**
   * Undoes an acquire, or releases a lease, that is no longer needed. This runs in the background and repeats until there is a
   * reply.
   */
  cancel(request: LeaseRequest<Resolved>, leaseMs?: number): void;
}
