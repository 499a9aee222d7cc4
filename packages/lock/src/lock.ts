import { type KitError, KitUnknownOutcomeError, type RedisLike } from "@kit/core";
import {
  type CloseOptions,
  defaultsOf,
  newToken,
  ObjectLife,
  resolve,
  TypedEmitter,
  watchEviction,
} from "@kit/core/toolkit";
import { Leaser, type LossReason, parseLease, runAndRelease } from "@kit/core/leasing";
import { acquireAll, tryAcquireAll } from "./acquire-all.js";
import { LockCommands } from "./commands.js";
import { Lease } from "./lease.js";
import type { LeaseSet } from "./lease-set.js";
import {
  type AcquireOptions,
  acquireRules,
  type LockOptions,
  lockRules,
  type ResolvedLock,
  type TryOptions,
  tryRules,
} from "./options.js";
import type { Held } from "./scripts/index.js";
import { Sections } from "./sections.js";

const inspectedWaiters = 10;
const noOptions: AcquireOptions = {};
/** In place of a fencing token: any lease. */
const byForce = "*";

const checkRoutine = (routine: unknown): void => {
  if (typeof routine !== "function")
    throw new TypeError(`Expected \`routine\` to be a function, got ${typeof routine}`);
};

/** Events of a lock object's locks; for tracing use the diagnostics channels `kit:lock.*`. */
export interface LockEvents {
  /** A lease was granted, `waitedMs` milliseconds after the call. */
  readonly acquired: readonly [event: { name: string; fencingToken: string; waitedMs: number }];
  /** An acquire was queued behind `position` others and the holder. */
  readonly waiting: readonly [event: { name: string; position: number; holder: string | undefined }];
  /** An acquire without `waitMs` has waited for 30 seconds. Once for each, at the next heartbeat: up to six seconds later. */
  readonly stillWaiting: readonly [
    event: { name: string; position: number; holder: string | undefined; waitedMs: number },
  ];
  /** The server had lost a waiter, or its grant expired before the message arrived: the waiter queues again, at the end. */
  readonly requeued: readonly [event: { name: string }];
  /** A lease was released. */
  readonly released: readonly [event: { name: string; fencingToken: string }];
  /** A lease ended without a release. */
  readonly lost: readonly [event: { name: string; fencingToken: string; reason: LossReason }];
  /**
   * The server may drop keys when its memory is full, by an `allkeys-…` or a `volatile-…` policy: leases have an expiry, and a lock
   * whose lease was dropped has two holders. Emitted once for each policy; asked in the background, only while there is a listener,
   * and again after a lost connection. Nothing is emitted where INFO is forbidden.
   */
  readonly evictable: readonly [event: { readonly policy: string }];
  /**
   * A command in the background failed; it is retried where a retry can help. While an outage lasts, waiters, renewals and releases emit
   * one error, and one with the code `KIT_RECOVERED` when commands work again.
   */
  readonly error: readonly [error: KitError];
}

/** A lock's state at one instant. It may have changed by the time it is read. */
export interface LockInspection {
  readonly state: "free" | "held";
  /** The label of the holder. */
  readonly holder: string | null;
  /** The newest fencing token ever granted; null when none is stored: see `keepMs`. */
  readonly fencingToken: string | null;
  /** Time left of the lease, in milliseconds; null when free, Infinity when its expiry was removed (PERSIST). */
  readonly msLeft: number | null;
  /** How many wait, including dead waiters that were not dropped yet. */
  readonly waiters: number;
  /** The first ten in the queue. */
  readonly queue: readonly { readonly holder: string }[];
}

/**
 * Locks by name, on one Redis: at most one holder of a name at any instant of the server's clock, as long as the server
 * keeps its data. Made by {@link createLock}.
 *
 * A caller that cannot have the lock waits in the queue, in the order in which the server saw the calls. A release hands the
 * lock to the first of the queue and notifies it, in one step; waiters don't poll unless pushes are forbidden. They send a heartbeat every 5 s.
 */
export class Lock extends TypedEmitter<LockEvents> implements AsyncDisposable {
  /** The settings of an acquire without options. */
  readonly #defaults: ResolvedLock;
  readonly #life: ObjectLife;
  readonly #commands: LockCommands;
  readonly #leaser: Leaser<ResolvedLock, Held, Lease>;
  /** Undefined: the lock is not reentrant. */
  readonly #sections: Sections | undefined;

  /** Made by this package only. */
  constructor(redis: RedisLike, options: LockOptions) {
    super();
    const settings = resolve("options", options, lockRules);
    const { lockDelayMs, minHoldMs } = settings;
    this.#defaults = { ...defaultsOf(acquireRules, settings), lockDelayMs, minHoldMs };
    this.#sections = settings.reentrant ? new Sections() : undefined;
    this.#life = new ObjectLife(redis, settings, "The lock");
    const { context } = this.#life;
    this.#commands = new LockCommands(context, settings);
    this.#leaser = new Leaser(this.#life, this.#commands, settings, (held) => new Lease(held), {
      acquired: ({ request: { name }, fencingToken }, waitedMs) =>
        this.emit("acquired", { name, fencingToken, waitedMs }),
      queued: (name, { position, owner }) => this.emit("waiting", { name, position, holder: owner?.holder }),
      requeued: (name) => this.emit("requeued", { name }),
      stillWaiting: (name, position, { owner }, waitedMs) =>
        this.emit("stillWaiting", { name, position, holder: owner?.holder, waitedMs }),
      released: ({ request: { name }, fencingToken }) => this.emit("released", { name, fencingToken }),
      lost: ({ request: { name }, fencingToken }, reason) => this.emit("lost", { name, fencingToken, reason }),
      error: (error) => this.emit("error", error),
      used: watchEviction(
        context,
        () => this.hasListeners("evictable"),
        (policy) => this.emit("evictable", { policy }),
      ),
    });
  }

  /**
   * Waits until this caller holds the lock, runs `routine` with the lease, and releases the lock, also after an error, unless
   * the routine hands the lease over.
   *
   * Resolves with the routine's result. If the lease is lost while it runs, `lease.signal` aborts, and the call rejects once the
   * routine has ended; an error of the routine takes precedence. When an outage prevents the release, the result stands, and an
   * `error` event is emitted.
   *
   * @throws the routine's error.
   * @throws {LockLostError} the routine succeeded, but the lease had been lost before.
   * @throws all that {@link acquire} throws; then the routine was not run.
   *
   * @example
   * const left = await lock.using("item:42", async (lease) => {
   *   return await sell("item:42", { fencingToken: lease.fencingToken, signal: lease.signal });
   * });
   */
  async using<T>(
    name: string,
    routine: (lease: Lease) => Promise<T> | T,
    options: AcquireOptions = noOptions,
  ): Promise<T> {
    checkRoutine(routine);
    const terms = this.#termsOf(options);
    const sections = this.#sections;
    if (!sections) return await this.#leaser.using(name, terms, routine);
    const section = sections.around(name);
    if (section) {
      this.#life.assertOpen();
      terms.signal?.throwIfAborted();
      return await sections.nest(name, section, routine);
    }
    return await this.#leaser.using(name, terms, (lease) => sections.run([name], lease, () => routine(lease)));
  }

  /**
   * Waits until this caller holds the lock, and returns its lease.
   *
   * Waiters are served first in, first out, in the order of their arrival at the server; an unreachable waiter is skipped and
   * keeps its place. Each acquire is a holder of its own: a second acquire of a name that this process holds waits as well. All
   * waiters of a name in this object share one heartbeat about every five seconds. When the caller gives up (`waitMs`,
   * `signal`), the promise rejects at once and the waiter leaves the queue in the background; a lock that was granted at that
   * moment goes to the next waiter.
   *
   * @throws {LockTimeoutError} `waitMs` passed. With a `cause`, Redis was unreachable at the end, or the slot was moving.
   * @throws {LockLostError} the server's reply came after the lease was over. The acquire is being undone; call again.
   * @throws `signal.reason` if `signal` aborts first; if it has aborted before the call, no command is sent.
   * @throws {LockQueueFullError} `maxWaiters` wait already.
   * @throws {LockSelfDeadlockError} the lock is `reentrant`, and the caller is inside a section that holds this name.
   * @throws {LockNotDurableError} the grant did not reach the replicas or disks that `durable` requires. It is being undone; call again.
   * @throws {KitUnavailableError} no server answered the first command within `deadlineMs`, or `waitMs` if that is shorter.
   * Once in the queue, the wait continues through outages.
   * @throws {KitUnknownOutcomeError} the first command's reply was lost. The acquire is being undone; call again.
   * @throws {KitClosedError} this object was closed, or the client was ended during the wait. If the client was ended before
   *   the call: KitUnavailableError, not retryable.
   * @throws {KitError} the server's other errors, by their code; `KIT_NAME` for a name that cannot be a key.
   * @throws {TypeError | RangeError} an option is not what it should be.
   *
   * @example
   * const lease = await lock.acquire("report", { waitMs: 5_000 });
   * try {
   *   await buildReport(lease.signal);
   * } finally {
   *   await lease.release();
   * }
   */
  async acquire(name: string, options: AcquireOptions = noOptions): Promise<Lease> {
    const terms = this.#termsOf(options);
    this.#sections?.assertOutside([name]);
    return await this.#leaser.acquire(name, terms);
  }

  /**
   * Tries once, and returns the lease, or null when another holds the lock or others wait for it.
   *
   * @throws all that {@link acquire} throws except LockTimeoutError and LockQueueFullError.
   */
  async tryAcquire(name: string, options: TryOptions = {}): Promise<Lease | null> {
    return await this.#leaser.acquire(name, this.#tryTermsOf(options), () => null);
  }

  /**
   * Waits until this caller holds all of the locks, runs `routine` with the set, and releases them, also after an error.
   *
   * Resolves with the routine's result. If one of them is lost while it runs, `set.signal` aborts, the others are released, and
   * the call rejects once the routine has ended; an error of the routine takes precedence.
   *
   * @throws the routine's error.
   * @throws {LockLostError} the routine succeeded, but one of them had been lost before.
   * @throws all that {@link acquireAll} throws; then the routine was not run.
   *
   * @example
   * await lock.usingAll(["account:bob", "account:ann"], async ({ fencingTokens, signal }) => {
   *   await transfer("bob", "ann", 10, { fencingTokens, signal });
   * });
   */
  async usingAll<T>(
    names: readonly string[],
    routine: (set: LeaseSet) => Promise<T> | T,
    options: AcquireOptions = noOptions,
  ): Promise<T> {
    checkRoutine(routine);
    const set = await this.acquireAll(names, options);
    const sections = this.#sections;
    const { result, outcome } = await runAndRelease(set, () =>
      sections ? sections.run(set.names, undefined, () => routine(set)) : routine(set),
    );
    if (outcome === "not-held") set.assertHeld();
    return result;
  }

  /**
   * Waits until this caller holds all of the locks, 1 to 100 of them, and returns their leases as a set. In one slot of a Cluster
   * or in several.
   *
   * No order of names or callers can make callers wait for each other in a circle: all of them take the names in one order.
   * Duplicates count once. Free locks are all taken in one round trip. Where one is not free, the caller waits in its queue as for
   * a single lock; meanwhile it holds the locks before it in that order, and none behind it. `waitMs` and `signal` count for all
   * of them together.
   *
   * @throws {LockTimeoutError} `waitMs` passed; `resource` is the name that was not free. All others are released.
   * @throws {LockLostError} one of them was lost before all were held. The others are released; call again.
   * @throws {TypeError | RangeError} `names` is not a list of 1 to 100 names, or an option is not what it should be.
   * @throws all else that {@link acquire} throws, with the others released in the background.
   *
   * @example
   * await using set = await lock.acquireAll(["item:42", "buyer:7", "seller:9"], { waitMs: 5_000 });
   * await sell(set.fencingTokens.get("item:42"), set.signal);
   */
  async acquireAll(names: readonly string[], options: AcquireOptions = noOptions): Promise<LeaseSet> {
    const terms = this.#termsOf(options);
    this.#sections?.assertOutside(names);
    return await acquireAll(this.#leaser, names, terms);
  }

  /**
   * Tries once to take all of the locks, and returns them as a set; or null when one of them was not free: then none is taken.
   * Two such tries at the same instant may each find a lock that the other has for a moment, and both return null.
   *
   * @throws all that {@link acquireAll} throws except LockTimeoutError and LockQueueFullError.
   */
  async tryAcquireAll(names: readonly string[], options: TryOptions = {}): Promise<LeaseSet | null> {
    return await tryAcquireAll(this.#leaser, names, this.#tryTermsOf(options));
  }

  /**
   * Reads the state of a lock and changes nothing.
   *
   * @throws {KitUnavailableError} no server answered in time.
   */
  async inspect(name: string): Promise<LockInspection> {
    this.#life.assertOpen();
    const { owner, msLeft, fencingToken, waiting, holders } = await this.#commands.inspect(name, inspectedWaiters);
    return {
      state: owner ? "held" : "free",
      holder: owner?.holder ?? null,
      fencingToken,
      msLeft: owner ? (msLeft === -1 ? Infinity : msLeft) : null,
      waiters: waiting,
      queue: holders.map((holder) => ({ holder })),
    };
  }

  /**
   * Takes the lock away from its holder, and grants it to the first waiter. For operators, when a holder is certainly gone: a
   * holder that still runs notices the loss only at its next renewal.
   *
   * Resolves with the label of the former holder; or with null when the lock was free, or changed hands at that moment.
   *
   * @throws {KitUnavailableError} no server answered in time; nothing was changed.
   * @throws {KitUnknownOutcomeError} the reply to the release was lost. Inspect the lock first: a second call may take it away from
   * the next holder. Not retryable.
   */
  async forceRelease(name: string): Promise<string | null> {
    this.#life.assertOpen();
    // Two steps, so that a repeat after a lost reply cannot affect the next holder. A lock that changes hands in between needs
    // no force.
    const { owner } = await this.#commands.inspect(name, 0);
    if (!owner) return null;
    const { token, holder } = owner;
    const request = { name, token, resolved: { ...this.#defaults, holder } };
    const releasing = this.#leaser.commands.release(request, { fencingToken: byForce, op: newToken() });
    const outcome = await this.#life.track(releasing).catch((error: unknown) => {
      if (!(error instanceof KitUnknownOutcomeError)) throw error;
      // Another call would take the lock away from the next holder.
      throw new KitUnknownOutcomeError(error.message, undefined, error.cause);
    });
    return outcome === "released" ? holder : null;
  }

  /**
   * Continues a lease that another process (or object) handed over or serialised. It is renewed once, which shows that it is
   * still held, and then according to its own `renew`.
   *
   * @throws {LockLostError} it is no longer held.
   * @throws {TypeError} `text` does not come from `lease.handOver()` or `lease.serialise()`.
   * @throws {KitUnavailableError} no server answered in time.
   */
  async resume(text: string): Promise<Lease> {
    this.#life.assertOpen();
    const saved = parseLease<{ fencingToken: string }>(
      "lock",
      text,
      ({ fencingToken }) => typeof fencingToken === "string" && /^\d+$/.test(fencingToken),
    );
    const { leaseMs, renew, maxHoldMs, holder } = saved;
    // A limit that is not in the text does not apply, whatever this object's own default is.
    const defaults = { ...this.#defaults, maxHoldMs: undefined };
    const resolved = resolve("options", { leaseMs, renew, maxHoldMs, holder }, acquireRules, defaults);
    return await this.#leaser.resume(saved, resolved, saved.fencingToken);
  }

  /**
   * Ends this object. New acquires and waiters reject with KitClosedError, and the waiters leave the queue. `close()` waits for
   * held leases, at most `timeoutMs`; then their signals abort and they are released, which takes at most `deadlineMs` more. The
   * client is not touched. Idempotent: the first call's options count.
   *
   * @throws {TypeError | RangeError} an option is not what it should be. It rejects for no other reason.
   */
  async close(options: CloseOptions = {}): Promise<void> {
    await this.#life.close(options, (deadline) => this.#leaser.end(deadline));
  }

  /** As `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #termsOf(options: AcquireOptions): ResolvedLock {
    return options === noOptions ? this.#defaults : resolve("options", options, acquireRules, this.#defaults);
  }

  #tryTermsOf(options: TryOptions): ResolvedLock {
    return resolve("options", options, tryRules, { ...this.#defaults, waitMs: 0 });
  }
}

/**
 * Makes a lock object. Locks have names; one object serves any number of them, and any number of callers.
 *
 * `redis` is a client of core's `connect()`, of ioredis, or of `fromNodeRedis()`. It is borrowed: never closed, blocked or
 * subscribed. The first wait opens one more connection, for pushes; the last `close()` on the client ends it.
 *
 * @throws {TypeError | RangeError} `redis` or an option is not what it should be.
 *
 * @example
 * const lock = createLock(redis);
 * await lock.using("item:42", async (lease) => {
 *   await sell("item:42", lease.fencingToken);
 * });
 */
export const createLock = (redis: RedisLike, options: LockOptions = {}): Lock => new Lock(redis, options);
