import type { KitError } from "../index.js";
import type { LossReason } from "./errors.js";
import type { ResolvedAcquire, ResolvedLease } from "./options.js";

/** A waiter counts as dead after this long without a heartbeat, in milliseconds. */
export const aliveMs = 15_000;
/** The first length of a lease that is granted by push, if its holder renews it. A dead waiter blocks the lease for this long. */
const pushedGrantMs = 2_000;

/** The length to request first, which is never longer than `maxHoldMs`. */
export const firstTermMs = ({ leaseMs, maxHoldMs = Infinity }: ResolvedLease): number => Math.min(leaseMs, maxHoldMs);

/** How long a grant by push lasts at first. */
export const pushedTermMs = (resolved: ResolvedLease): number =>
  resolved.renew ? Math.min(firstTermMs(resolved), pushedGrantMs) : firstTermMs(resolved);

/** One acquire, with a random token that identifies it until its lease is over. */
export interface LeaseRequest<Resolved extends ResolvedLease = ResolvedLease> {
  readonly name: string;
  readonly token: string;
  readonly resolved: Resolved;
}

/** How to send a command. */
interface Sending {
  /** 1 on a Cluster, 0 on a single server. Empty until the server has reported which. */
  readonly shared: 0 | 1 | "";
  readonly signal?: AbortSignal | undefined;
}

/** One acquire command. */
export interface Attempt extends Sending {
  /** When it is sent, on the local monotonic clock. */
  readonly sentAt: number;
  readonly deadlineMs: number;
  /**
   * The server refuses the command after this instant, in epoch milliseconds on its own clock; 0 if that clock is not known yet.
   */
  readonly notAfter: number;
  /** The channel for its grant. `-` or `+`: none yet. Empty: it does not queue. */
  readonly inbox: string;
  /** False once the caller has given up. A command that still waits for a connection is then not sent. */
  readonly isWanted?: (() => boolean) | undefined;
}

/** One release command. */
export interface Release extends Sending {
  /** The fencing token of the lease. Empty if there is only an acquire to undo. */
  readonly fencingToken: string;
  /** Identifies all releases by one lease object: a repeat succeeds, and any other release finds no lease. */
  readonly op?: string | undefined;
}

/** The state of the holder's lease in a reply. */
export interface Seen {
  /** When to send the next heartbeat, in milliseconds. -1: only a message ends the wait. -2: immediately, and often. */
  readonly msLeft: number;
}

/** The reply to an acquire without a grant. */
export type NotGranted<S extends Seen> = S & {
  readonly state: "queued" | "held" | "full";
  readonly now: number;
  /** The position in the queue, from 0; -1 if it is not in the queue. */
  readonly position: number;
};

/** The outcome of an acquire. `now` is the server's time in epoch milliseconds. */
export type AcquireReply<S extends Seen> =
  | {
      readonly state: "granted";
      readonly now: number;
      /** Undefined: the full length. */
      readonly msLeft: number | undefined;
      /** Empty if the package has no fencing tokens. */
      readonly fencingToken: string;
    }
  | NotGranted<S>
  | { readonly state: "late"; readonly now: number };

/** The state of one waiter: its position from 0, or its grant. */
export type WaiterState = number | "unknown" | { readonly msLeft: number; readonly fencingToken: string };

/** The states of a heartbeat's waiters, in the same order. */
export type HeartbeatReply<S extends Seen> = S & { readonly now: number; readonly states: readonly WaiterState[] };

/** The outcome of a release. `unaccepted`: the lease is gone, and there was no other holder since. */
export type ReleaseReply = "released" | "left" | "unaccepted" | "not-held";

/** One lease to renew, and for how long. */
export interface Renewal<Resolved extends ResolvedLease> {
  readonly request: LeaseRequest<Resolved>;
  readonly key: string;
  /** 0: only looks the lease up. */
  readonly termMs: number;
  /** Until when the lease is certainly held, on the local monotonic clock; 0 if nothing has confirmed it yet. */
  readonly heldUntil: number;
}

/** The state of one lease after a renewal: extended, gone, taken by another holder, or its key has another type of data. */
export type RenewState = "extended" | "gone" | "taken" | "corrupt";

/** The states of leases after a renewal, in the same order. */
export interface RenewReply {
  readonly now: number;
  readonly states: readonly RenewState[];
}

/**
 * The kind of lease of a package: functions that run its scripts, decode their replies and create its errors. The code in this
 * folder calls these functions; they never call this folder. Each command rejects as a script does.
 */
export interface LeaseKind<Resolved extends ResolvedAcquire, S extends Seen> {
  /** The leased thing, as in traces: "lock". */
  readonly what: string;
  /** One per loaded copy of the package. The leases of all its objects on a client are renewed together. */
  readonly id: string;

  /**
   * The key that stores the holder.
   *
   * @throws {KitError} `KIT_NAME`: the name cannot be a key.
   */
  keyOf(name: string): string;
  /** Acquires the lease, or queues for it unless the attempt's inbox is empty. */
  acquire(request: LeaseRequest<Resolved>, attempt: Attempt): Promise<AcquireReply<S>>;
  /** Releases the token's lease, or leaves the queue. */
  release(request: LeaseRequest<Resolved>, release: Release): Promise<ReleaseReply>;
  /** Extends leases that are held, and never shortens one. */
  renew(renewals: readonly Renewal<Resolved>[], deadlineMs: number): Promise<RenewReply>;
  /** Keeps one name's waiters alive. From now on they are notified on `inbox`. */
  heartbeat(
    name: string,
    waiters: readonly LeaseRequest<Resolved>[],
    inbox: string,
    shared: Sending["shared"],
  ): Promise<HeartbeatReply<S>>;

  /**
   * Resolves once replicas or disks have the grant, within `withinMs`. If they don't, or if `signal` aborts, it rejects, and the
   * grant is undone. Undefined: grants are not confirmed.
   */
  readonly confirm?:
    ((request: LeaseRequest<Resolved>, withinMs: number, signal: AbortSignal) => Promise<void>) | undefined;

  /** `seen`: the last reply. With a `cause`, the server was unreachable at the end. */
  timeoutError(request: LeaseRequest<Resolved>, seen: S | undefined, cause?: unknown): KitError;
  queueFullError(name: string): KitError;
  lostError(name: string, reason: LossReason, fencingToken: string): KitError;
}
