import { type KitError, retry } from "../index.js";
import type { ServerClock } from "../kernel/index.js";
import { asKitError, type ClientContext, type ObjectLife, OutageReporter, pause } from "../toolkit/index.js";
import type {
  AcquireReply,
  Attempt,
  HeartbeatReply,
  LeaseKind,
  LeaseRequest,
  Release,
  ReleaseReply,
  Renewal,
  RenewState,
  Seen,
} from "./kind.js";
import { aliveMs } from "./kind.js";
import type { LeaserSettings, ResolvedAcquire } from "./options.js";
import type { LeaseStore } from "./store.js";

/** The error of kit's estimate of the server's clock, in milliseconds. The server may accept a repeat that much longer. */
const repeatMarginMs = 50;

/** The minimum pause before a background release is retried, if the server refused it for a reason that only a person can fix. */
const refusedMs = 2_000;

/** An attempt, and the state of the connection when it started. */
interface BegunAttempt extends Attempt {
  readonly clock: ServerClock;
  readonly connectionEpoch: number;
}

/**
 * Sends the commands of one object, and passes the time in each reply to the server's clock. A failed acquire is undone in the
 * background, which the object's life tracks.
 */
export class LeaseCommands<Resolved extends ResolvedAcquire, S extends Seen> implements LeaseStore<Resolved> {
  readonly kind: LeaseKind<Resolved, S>;
  readonly settings: LeaserSettings;
  readonly life: ObjectLife;
  readonly context: ClientContext;
  /** Reports failures and recovery of the loops: waiters, and renewed leases by token. */
  readonly outage: OutageReporter;
  readonly #onUse: (key: string) => void;
  /** Acquires that may still be repeated, by token, and whether they were released meanwhile. */
  readonly #repeated = new Map<string, { isReleased: boolean }>();
  #hasAsked = false;
  #isShared: 0 | 1 | "" = "";

  /** `onUse` is called with the key of each acquire and renewal. */
  constructor(
    life: ObjectLife,
    kind: LeaseKind<Resolved, S>,
    settings: LeaserSettings,
    onError: (error: KitError) => void,
    onUse: (key: string) => void,
  ) {
    this.kind = kind;
    this.settings = settings;
    this.life = life;
    this.context = life.context;
    this.outage = new OutageReporter(onError);
    this.#onUse = onUse;
  }

  /** Any error as a kit error. */
  errorOf(error: unknown): KitError {
    return asKitError(error, `A background call of a ${this.kind.what}`);
  }

  /** Reports a failure in the background, unless it belongs to an outage that was already reported. */
  onError(error: unknown): void {
    this.outage.report(this.errorOf(error));
  }

  get connectionEpoch(): number {
    return this.context.executor.connectionEpoch;
  }

  groupOf(key: string): string {
    return this.context.groupOf(key);
  }

  /** The clock of the node that serves this name. */
  clockOf(name: string): ServerClock {
    return this.context.clockOf(this.kind.keyOf(name));
  }

  /**
   * The channel on which this client's waiters are notified now, or `-` if there is none. `+` while it is being opened: the server
   * then grants without a message, and the waiters' heartbeat finds the grant as soon as the channel is open.
   */
  get inbox(): string {
    const { inbox } = this.context;
    return inbox.isOpen ? inbox.channel : inbox.isOpening ? "+" : "-";
  }

  /** 1 on a Cluster, 0 on a single server. Empty until that is known. No command waits for it. */
  get shared(): 0 | 1 | "" {
    if (!this.#hasAsked) {
      this.#hasAsked = true;
      this.life.track(this.context.isCluster(this.settings.deadlineMs)).then(
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
   * Starts an acquire command. The caller must send it immediately with `kind.acquire`, and pass its reply through {@link settle}.
   */
  attempt(
    { name }: LeaseRequest<Resolved>,
    inbox: string,
    deadlineMs: number,
    { signal, isWanted }: Pick<Attempt, "signal" | "isWanted">,
  ): BegunAttempt {
    const key = this.kind.keyOf(name);
    const clock = this.context.clockOf(key);
    this.#onUse(key);
    const { connectionEpoch, shared } = this;
    const sentAt = performance.now();
    const notAfter = clock.serverMsAt(sentAt + deadlineMs) ?? 0;
    return { sentAt, deadlineMs, notAfter, inbox, shared, signal, isWanted, clock, connectionEpoch };
  }

  /** The reply to an acquire command. */
  async settle(
    request: LeaseRequest<Resolved>,
    { sentAt, deadlineMs, clock, connectionEpoch }: BegunAttempt,
    replying: Promise<AcquireReply<S>>,
  ): Promise<AcquireReply<S>> {
    try {
      const reply = await replying;
      this.outage.worked(request.token);
      if (reply.state === "late") clock.reset();
      else clock.observe(sentAt, reply.now);
      return reply;
    } finally {
      if (this.connectionEpoch !== connectionEpoch) this.#watchForRepeats(request, sentAt + deadlineMs);
    }
  }

  /**
   * Releases the lease of the request's token, or leaves the queue.
   *
   * @throws as a script; then nothing is sent again.
   */
  async release(
    request: LeaseRequest<Resolved>,
    { fencingToken, op, signal }: Omit<Release, "shared">,
  ): Promise<ReleaseReply> {
    const reply = await this.kind.release(request, { fencingToken, op, signal, shared: this.shared });
    this.outage.worked();
    const repeated = this.#repeated.get(request.token);
    if (repeated) repeated.isReleased = true;
    return reply;
  }

  /**
   * Undoes an acquire whose caller no longer waits. Repeated until there is a reply, or until the server has dropped the acquire
   * anyway.
   */
  cancel(request: LeaseRequest<Resolved>, leaseMs: number = request.resolved.leaseMs): void {
    const { executor } = this.context;
    // The client is ended: no server can be reached.
    if (executor.isEnded) return;
    const { signal } = this.life;
    const again = (): Promise<unknown> =>
      this.release(request, { fencingToken: "", signal }).catch(async (error: unknown) => {
        if (!asKitError(error, "A release").retryable && !executor.isEnded) await pause(refusedMs, signal);
        throw error;
      });
    const options = { waitMs: aliveMs + leaseMs, baseMs: 50, capMs: 1_000, signal };
    // This includes errors that a caller would not retry: a right may be granted later.
    const retried = retry(again, options, () => !executor.isEnded);
    this.life.track(retried).catch((error: unknown) => {
      if (!signal.aborted) this.onError(error);
    });
  }

  /** Renews leases of one group, each with its new length. */
  async renew(renewals: readonly Renewal<Resolved>[], deadlineMs: number): Promise<readonly RenewState[]> {
    const sentAt = performance.now();
    const [first] = renewals;
    if (!first) return [];
    this.#onUse(first.key);
    const { now, states } = await this.kind.renew(renewals, deadlineMs);
    this.outage.worked();
    this.context.clockOf(first.key).observe(sentAt, now);
    return states;
  }

  /**
   * Keeps a name's waiters alive, and sends the channel on which they are notified from now on. Resolves with the state of each
   * waiter.
   */
  async heartbeat(name: string, waiters: readonly LeaseRequest<Resolved>[]): Promise<HeartbeatReply<S>> {
    const sentAt = performance.now();
    const reply = await this.kind.heartbeat(name, waiters, this.inbox, this.shared);
    this.clockOf(name).observe(sentAt, reply.now);
    return reply;
  }

  /**
   * Call this when a reply was lost and the acquire may have been sent more than once. A repeat that arrives after the release
   * would be granted to no caller. Once the server refuses such repeats, that grant is released.
   */
  #watchForRepeats(request: LeaseRequest<Resolved>, until: number): void {
    const repeated = { isReleased: false };
    this.#repeated.set(request.token, repeated);
    const look = (): void => {
      this.#repeated.delete(request.token);
      if (repeated.isReleased) this.cancel(request);
    };
    // Nothing continues after close(): a repeat may then cost a lease.
    pause(Math.max(0, until - performance.now()) + repeatMarginMs, this.life.signal).then(look, () => undefined);
  }
}
