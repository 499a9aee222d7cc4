import type { KitError } from "../index.js";
import type { LossReason } from "./errors.js";
import type { ResolvedAcquire, ResolvedLease } from "./options.js";

/** A waiter counts as dead after this long without a heartbeat. */
export const aliveMs = 15_000;
/** The first length of a lease that is granted by push, if its holder renews it: a dead waiter costs this much. */
const pushedGrantMs = 2_000;

/** No request is longer than `maxHoldMs`. */
export const firstTermMs = ({ leaseMs, maxHoldMs = Infinity }: ResolvedLease): number => Math.min(leaseMs, maxHoldMs);

/** How long a grant by push lasts at first. */
export const pushedTermMs = (resolved: ResolvedLease): number =>
  resolved.renew ? Math.min(firstTermMs(resolved), pushedGrantMs) : firstTermMs(resolved);

/** One acquire, under a random token that identifies it until its lease is over. */
export interface LeaseRequest<Resolved extends ResolvedLease = ResolvedLease> {
  readonly name: string;
  readonly token: string;
  readonly resolved: Resolved;
}

/** How a command is sent. */
interface Sending {
  /** 1 on a Cluster, 0 on a single server; empty until the server has said which. */
  readonly shared: 0 | 1 | "";
  readonly signal?: AbortSignal | undefined;
}

/** One acquire command. */
export interface Attempt extends Sending {
  /** When it is sent, on our monotonic clock. */
  readonly sentAt: number;
  readonly deadlineMs: number;
  /** The server refuses it after this instant, in epoch milliseconds of its own clock; 0: that clock is not known yet. */
  readonly notAfter: number;
  /** The channel for its grant; `-` or `+`: none yet. Empty: it does not queue. */
  readonly inbox: string;
  /** False once the caller has given up: a command that still waits for a connection is then not sent. */
  readonly isWanted?: (() => boolean) | undefined;
}

/** One release command. */
export interface Release extends Sending {
  /** The fencing token of the lease; empty: only an acquire must be undone. */
  readonly fencingToken: string;
  /** Identifies all releases by one lease object: a repeat succeeds, and any other release finds no lease. */
  readonly op?: string | undefined;
}

/** The state of the holder's lease in a reply. */
export interface Seen {
  /** When to send the next heartbeat, in milliseconds; -1: only a message ends the wait; -2: at once, and often. */
  readonly msLeft: number;
}

/** The reply to an acquire without a grant. */
export type NotGranted<S extends Seen> = S & {
  readonly state: "queued" | "held" | "full";
  readonly now: number;
  /** The position in the queue, from 0; -1: not in it. */
  readonly position: number;
};

/** The outcome of an acquire; `now` is the server's, in epoch milliseconds. */
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

/** The state of one waiter: its position from 0, or what it was granted. */
export type WaiterState = number | "unknown" | { readonly msLeft: number; readonly fencingToken: string };

/** The states of the waiters of a heartbeat, in their order. */
export type HeartbeatReply<S extends Seen> = S & { readonly now: number; readonly states: readonly WaiterState[] };

/** The outcome of a release. `unaccepted`: the lease is gone, and nobody has held it since. */
export type ReleaseReply = "released" | "left" | "unaccepted" | "not-held";

/** One lease to renew, and for how long. */
export interface Renewal<Resolved extends ResolvedLease> {
  readonly request: LeaseRequest<Resolved>;
  readonly key: string;
  /** 0: it is only looked up. */
  readonly termMs: number;
  /** Until when it is certainly held, on our monotonic clock; 0: nothing has shown yet that it is held. */
  readonly heldUntil: number;
}

/** The state of one lease after a renewal: extended, gone, taken by another, or its key has another type of data. */
export type RenewState = "extended" | "gone" | "taken" | "corrupt";

/** The states of leases after a renewal, in their order. */
export interface RenewReply {
  readonly now: number;
  readonly states: readonly RenewState[];
}

/**
 * The kind of lease of a package: functions that run its scripts, decode their replies and word its errors. This folder calls
 * them; they call nothing in it. Each command rejects as a script does.
 */
export interface LeaseKind<Resolved extends ResolvedAcquire, S extends Seen> {
  /** The leased thing, as in traces: "lock". */
  readonly what: string;
  /** One for each loaded copy of the package: the leases of all its objects on a client are renewed together. */
  readonly id: string;

  /**
   * The key with its holder.
   *
   * @throws {KitError} `KIT_NAME`: the name cannot be a key.
   */
  keyOf(name: string): string;
  /** Takes the lease, or queues for it unless the attempt's inbox is empty. */
  acquire(request: LeaseRequest<Resolved>, attempt: Attempt): Promise<AcquireReply<S>>;
  /** Releases the lease of the token, or leaves the queue. */
  release(request: LeaseRequest<Resolved>, release: Release): Promise<ReleaseReply>;
  /** Extends leases that are held, and never shortens one. */
  renew(renewals: readonly Renewal<Resolved>[], deadlineMs: number): Promise<RenewReply>;
  /** Keeps waiters of one name alive. From now on they are notified on `inbox`. */
  heartbeat(
    name: string,
    waiters: readonly LeaseRequest<Resolved>[],
    inbox: string,
    shared: Sending["shared"],
  ): Promise<HeartbeatReply<S>>;

  /**
   * Resolves once replicas or disks have the grant, within `withinMs`; rejects if they do not, or if `signal` aborts, and the grant
   * is undone. Undefined: a grant is not confirmed.
   */
  readonly confirm?:
    ((request: LeaseRequest<Resolved>, withinMs: number, signal: AbortSignal) => Promise<void>) | undefined;

  /** `seen`: the last reply; with a `cause`, the server was unreachable at the end. */
  timeoutError(request: LeaseRequest<Resolved>, seen: S | undefined, cause?: unknown): KitError;
  queueFullError(name: string): KitError;
  lostError(name: string, reason: LossReason, fencingToken: string): KitError;
}
