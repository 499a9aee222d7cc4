import { type KitError, type RedisLike, retry } from "../index.js";
import {
  asKitError,
  attach,
  type ClientContext,
  type Deadline,
  inTime,
  OutageReporter,
  pause,
  type ServerClock,
} from "../toolkit/index.js";
import type { LossReason } from "./errors.js";
import type { Lease, RenewState } from "./lease.js";
import type { ResolvedAcquire, LeaserSettings, ResolvedLease } from "./options.js";

/** A waiter counts as dead when it has been silent this long. */
export const aliveMs = 15_000;
/** The first life of a lease that is granted by push, when its holder renews by itself: a dead one costs this much. */
const pushedGrantMs = 2_000;

/** Our picture of the server's clock may be off by so much, and a copy be refused that much later. */
const copyMarginMs = 50;

/**
 * A renewal that the server runs this long after it was sent may be a copy that a longer extension has overtaken: it takes
 * nothing away. One in time does, since a server's clock that was set back has stretched the lease.
 */
const promptMs = 100;

/** How one attempt behaves. */
export interface Attempt {
  /** Now, on our monotonic clock. */
  readonly sentAt: number;
  readonly deadlineMs: number;
  readonly isWanted?: () => boolean;
  readonly signal?: AbortSignal | undefined;
}

/** The part of a reply that waiters use. */
export interface Seen {
  /** When to look again, in milliseconds: -1: there is nothing to wait for but a message; -2: at once, and often. */
  readonly msLeft: number;
}

/** The answer to an acquire that was granted nothing. */
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
      /** The grant's proof to others: a lock's fencing token; empty where there is none. */
      readonly proof: string;
    }
  | NotGranted<S>
  | { readonly state: "late"; readonly now: number };

/** The truth about one waiter that asked: a position from 0, or what it was granted. */
export type WaiterState = number | "unknown" | { readonly msLeft: number; readonly proof: string };

/** The truth about the waiters that asked, in their order. */
export type HeartbeatReply<S extends Seen> = S & { readonly now: number; readonly states: readonly WaiterState[] };

/** The lease to release, and its owner. */
export interface Giving {
  /** Of the lease; empty: only an acquire is to be undone. */
  readonly proof: string;
  /** Names all releases by one lease object: a copy finds its own work done, another release finds nothing to give back. */
  readonly op?: string | undefined;
}

/** The outcome of a release. `unclaimed`: the lease is gone, and nobody has held it since. */
export type ReleaseReply = "released" | "left" | "unclaimed" | "not-held";

/** One lease to renew, and for how long. */
export interface Renewal<L> {
  readonly lease: L;
  /** That of the lease: another object of the same kind may have made it. */
  readonly key: string;
  /** 0: it is only looked up. */
  readonly termMs: number;
  /** `=`: the lease becomes shorter, also where the server runs this late. */
  readonly sign: "=" | "";
}

/** No lease is asked for longer than it may be held. */
export const firstTermMs = ({ leaseMs, maxHoldMs = Infinity }: ResolvedLease): number => Math.min(leaseMs, maxHoldMs);

/** How long a grant by push lasts at first. */
export const pushedTermMs = (resolved: ResolvedLease): number =>
  resolved.renew ? Math.min(firstTermMs(resolved), pushedGrantMs) : firstTermMs(resolved);

/**
 * The commands of one object on its client: every command of a package that leases goes through here. The package says what
 * its scripts are.
 */
export abstract class LeasingCommands<Resolved extends ResolvedAcquire, S extends Seen, L extends Lease<Resolved>> {
  /** The leased thing, as in traces: "lock". */
  readonly what: string;
  readonly settings: LeaserSettings;
  readonly context: ClientContext;
  /** Reports the loops that try on: waiters, and leases that are renewed, by their tokens. */
  readonly outage: OutageReporter;
  /** Called with the key of each acquire and renewal. */
  onUse: (key: string) => void = () => undefined;
  readonly #end = new AbortController();
  /** Acquires of which a copy may still be on its way, by their tokens; and whether they were given back meanwhile. */
  readonly #copies = new Map<string, { isGivenBack: boolean }>();
  #hasAsked = false;
  #isShared: 0 | 1 | "" = "";
  #underWay = 0;
  #onIdle: (() => void) | undefined;

  constructor(redis: RedisLike, what: string, settings: LeaserSettings, onError: (error: KitError) => void) {
    this.what = what;
    this.settings = settings;
    this.context = attach(redis, settings);
    this.outage = new OutageReporter(onError);
  }

  /** Any error as one of ours. */
  errorOf(error: unknown): KitError {
    return asKitError(error, `Work of a ${this.what} in the background`);
  }

  /** Reports what failed behind the scenes, unless that belongs to an outage that was reported. */
  onError(error: unknown): void {
    this.outage.report(this.errorOf(error));
  }

  /** The key that says who holds it. */
  abstract keyOf(name: string): string;
  /** Takes it, or queues for it when `inbox` is not empty. */
  protected abstract sendAcquire(
    name: string,
    token: string,
    resolved: Resolved,
    inbox: string,
    notAfter: number,
    attempt: Attempt,
  ): Promise<AcquireReply<S>>;
  /** Gives back what `token` holds, or leaves the queue. */
  protected abstract sendRelease(
    name: string,
    token: string,
    resolved: Resolved,
    giving: Giving,
    signal: AbortSignal | undefined,
  ): Promise<ReleaseReply>;
  protected abstract sendRenew(
    renewals: readonly Renewal<L>[],
    promptUntil: number,
    deadlineMs: number,
  ): Promise<{ readonly now: number; readonly states: readonly RenewState[] }>;
  protected abstract sendHeartbeat(
    name: string,
    waiters: readonly { readonly token: string; readonly resolved: Resolved }[],
    inbox: string,
  ): Promise<HeartbeatReply<S>>;

  abstract timeoutError(name: string, resolved: Resolved, seen: S | undefined, cause?: unknown): KitError;
  abstract queueFullError(name: string): KitError;
  abstract lostError(name: string, reason: LossReason, proof: string): KitError;

  /** The clock of the node that serves this name. */
  clockOf(name: string): ServerClock {
    return this.context.clockOf(this.keyOf(name));
  }

  /**
   * The channel on which waiters of this client are notified now; `-` while there is none. `+` while it is being opened: the
   * server then grants without a message, and the waiters' heartbeat finds the grant as soon as the channel is open.
   */
  get inbox(): string {
    const { inbox } = this.context;
    return inbox.isOpen ? inbox.channel : inbox.isOpening ? "+" : "-";
  }

  /** `isWanted` keeps a call that still waits for a connection from being sent after its caller has given up. */
  async acquire(
    name: string,
    token: string,
    resolved: Resolved,
    inbox: string,
    attempt: Attempt,
  ): Promise<AcquireReply<S>> {
    const key = this.keyOf(name);
    const clock = this.context.clockOf(key);
    this.onUse(key);
    const { executor } = this.context;
    const { connectionEpoch } = executor;
    const { sentAt, deadlineMs } = attempt;
    const notAfter = clock.serverMsAt(sentAt + deadlineMs) ?? 0;
    this.#underWay++;
    try {
      const reply = await this.sendAcquire(name, token, resolved, inbox, notAfter, attempt);
      if (reply.state === "late") clock.reset();
      else clock.observe(sentAt, reply.now);
      return reply;
    } finally {
      if (executor.connectionEpoch !== connectionEpoch)
        this.#watchForCopies(name, token, resolved, sentAt + deadlineMs);
      this.#ended();
    }
  }

  async release(
    name: string,
    token: string,
    resolved: Resolved,
    giving: Giving,
    signal?: AbortSignal,
  ): Promise<ReleaseReply> {
    this.#underWay++;
    try {
      const reply = await this.sendRelease(name, token, resolved, giving, signal);
      const copy = this.#copies.get(token);
      if (copy) copy.isGivenBack = true;
      return reply;
    } finally {
      this.#ended();
    }
  }

  /** Undoes an acquire that nobody waits for any more; repeated until answered, or until the server forgot it anyhow. */
  cancel(name: string, token: string, resolved: Resolved, leaseMs: number = resolved.leaseMs): void {
    // Nobody can be asked any more.
    if (this.context.executor.isEnded) return;
    const waitMs = aliveMs + leaseMs;
    const { signal } = this.#end;
    const again = (): Promise<unknown> => this.release(name, token, resolved, { proof: "" }, signal);
    this.#tracked(retry(again, { waitMs, baseMs: 50, capMs: 1_000, signal })).catch((error: unknown) => {
      if (!signal.aborted) this.onError(error);
    });
  }

  /** Renews leases of one group: each with how long it shall last. */
  async renew(renewals: readonly Renewal<L>[], deadlineMs: number): Promise<readonly RenewState[]> {
    const sentAt = performance.now();
    const [first] = renewals;
    if (first) this.onUse(first.key);
    const sentServerMs = first && this.context.clockOf(first.key).serverMsAt(sentAt);
    const promptUntil = sentServerMs === undefined ? 0 : sentServerMs + promptMs;
    const { now, states } = await this.sendRenew(renewals, promptUntil, deadlineMs);
    if (first) this.context.clockOf(first.key).observe(sentAt, now);
    return states;
  }

  /** The waiters' heartbeat, with the channel on which they are notified from now on; returns the state of each. */
  async heartbeat(
    name: string,
    waiters: readonly { readonly token: string; readonly resolved: Resolved }[],
  ): Promise<HeartbeatReply<S>> {
    const sentAt = performance.now();
    const reply = await this.sendHeartbeat(name, waiters, this.inbox);
    this.clockOf(name).observe(sentAt, reply.now);
    return reply;
  }

  /** Waits for what is under way, at most to the deadline; then nothing goes on. */
  async close(deadline: Deadline): Promise<void> {
    while (this.#underWay > 0 && deadline.remainingMs > 0) {
      const idle = new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      });
      await inTime(idle, { deadline });
      // The command that just ended may have to be undone: its caller has the next turn.
      await new Promise((resolve) => setImmediate(resolve));
    }
    this.#end.abort();
    this.context.detach();
  }

  /** 1 on a Cluster, 0 on a single server; empty until the server has said which. No command waits for that. */
  protected get shared(): 0 | 1 | "" {
    if (!this.#hasAsked) {
      this.#hasAsked = true;
      this.#tracked(this.context.isCluster(this.settings.deadlineMs)).then(
        (isCluster) => {
          this.#isShared = isCluster ? 1 : 0;
        },
        () => {
          this.#hasAsked = false;
        },
      );
    }
    return this.#isShared;
  }

  /**
   * A reply was lost, and the acquire may have been sent more than once: what the network delivers late would be granted
   * anew, to nobody, where it was given back before. When the server refuses such copies, that is given back, too.
   */
  #watchForCopies(name: string, token: string, resolved: Resolved, until: number): void {
    const copy = { isGivenBack: false };
    this.#copies.set(token, copy);
    const look = (): void => {
      this.#copies.delete(token);
      if (copy.isGivenBack) this.cancel(name, token, resolved);
    };
    // Nothing goes on after close(): a copy may then cost a lease.
    pause(Math.max(0, until - performance.now()) + copyMarginMs, this.#end.signal).then(look, () => undefined);
  }

  /** Counts what `close()` has to wait for. Passes the work on. */
  async #tracked<T>(work: Promise<T>): Promise<T> {
    this.#underWay++;
    try {
      return await work;
    } finally {
      this.#ended();
    }
  }

  #ended(): void {
    if (--this.#underWay === 0) this.#onIdle?.();
  }
}
