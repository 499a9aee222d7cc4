import type { KitError } from "../index.js";
import type { LossReason } from "./errors.js";
import type { ResolvedAcquire, ResolvedLease } from "./options.js";

/** A waiter counts as dead when it has been silent this long. */
export const aliveMs = 15_000;
/** The first life of a lease that is granted by push, when its holder renews by itself: a dead one costs this much. */
const pushedGrantMs = 2_000;

/** No lease is asked for longer than it may be held. */
export const firstTermMs = ({ leaseMs, maxHoldMs = Infinity }: ResolvedLease): number => Math.min(leaseMs, maxHoldMs);

/** How long a grant by push lasts at first. */
export const pushedTermMs = (resolved: ResolvedLease): number =>
  resolved.renew ? Math.min(firstTermMs(resolved), pushedGrantMs) : firstTermMs(resolved);

/** One acquire: what it asks for, under a random token that names it until its lease is over. */
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
  /** The server refuses it later than this, in epoch milliseconds of its own clock; 0: that clock is not known yet. */
  readonly notAfter: number;
  /** The channel for its grant; `-` or `+`: none yet. Empty: it does not queue. */
  readonly inbox: string;
  /** Keeps a command that still waits for a connection from being sent after its caller has given up. */
  readonly isWanted?: (() => boolean) | undefined;
}

/** One release command. */
export interface Release extends Sending {
  /** The fencing token of the lease; empty: only an acquire is to be undone. */
  readonly fencingToken: string;
  /** Names all releases by one lease object: a repeat finds its own work done, another release finds nothing to give back. */
  readonly op?: string | undefined;
}

/** The part of a reply that waiters use. */
export interface Seen {
  /** When to look again, in milliseconds: -1: there is nothing to wait for but a message; -2: at once, and often. */
  readonly msLeft: number;
}

/** The reply to an acquire that was granted nothing. */
export type NotGranted<S extends Seen> = S & {
  readonly state: "queued" | "held" | "full";
  readonly now: number;
  /** In the queue, from 0; -1: not in it. */
  readonly position: number;
};

/** The outcome of an acquire; `now` is the server's, in epoch milliseconds. */
export type AcquireReply<S extends Seen> =
  | {
      readonly state: "granted";
      readonly now: number;
      /** Undefined: all of it. */
      readonly msLeft: number | undefined;
      /** Empty where the package has none. */
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
  /** `=`: the lease becomes shorter, also where the server runs this late. */
  readonly sign: "=" | "";
}

/** The state of one lease after a renewal: extended, gone, taken by another, or its key holds something else. */
export type RenewState = "extended" | "gone" | "taken" | "corrupt";

/** The states of leases after a renewal, in their order. */
export interface RenewReply {
  readonly now: number;
  readonly states: readonly RenewState[];
}

/**
 * The kind of lease of a package: functions that run its scripts, decode their replies and word its errors. This folder calls
 * them, and they call nothing of it. Each command rejects as a script does.
 */
export interface LeaseKind<Resolved extends ResolvedAcquire, S extends Seen> {
  /** The leased thing, as in traces: "lock". */
  readonly what: string;
  /** One for each loaded copy of the package: the leases of all its objects on a client are renewed together. */
  readonly id: string;

  /**
   * The key that says who holds it.
   *
   * @throws {KitError} `KIT_NAME`: the name cannot be a key.
   */
  keyOf(name: string): string;
  /** Takes it; or queues for it, unless the attempt's inbox is empty. */
  acquire(request: LeaseRequest<Resolved>, attempt: Attempt): Promise<AcquireReply<S>>;
  /** Gives back what the token holds, or leaves the queue. */
  release(request: LeaseRequest<Resolved>, release: Release): Promise<ReleaseReply>;
  /** Run by the server after `promptUntil`, in its epoch milliseconds (0: unknown), it shortens only what has the sign `=`. */
  renew(renewals: readonly Renewal<Resolved>[], promptUntil: number, deadlineMs: number): Promise<RenewReply>;
  /** Keeps waiters of one name alive. From now on they are notified on `inbox`. */
  heartbeat(
    name: string,
    waiters: readonly LeaseRequest<Resolved>[],
    inbox: string,
    shared: Sending["shared"],
  ): Promise<HeartbeatReply<S>>;

  /** `seen`: the last reply; with a `cause`, the server was unreachable at the end. */
  timeoutError(request: LeaseRequest<Resolved>, seen: S | undefined, cause?: unknown): KitError;
  queueFullError(name: string): KitError;
  lostError(name: string, reason: LossReason, fencingToken: string): KitError;
}
