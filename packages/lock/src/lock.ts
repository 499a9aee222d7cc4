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
/** Matches any lease, in place of a fencing token. */
const byForce = "*";

const checkRoutine = (routine: unknown): void => {
  if (typeof routine !== "function")
    throw new TypeError(`Expected \`routine\` to be a function, got ${typeof routine}`);
};

/** Events of a lock object. To trace calls, use the diagnostics channels `kit:lock.*`. */
export interface LockEvents {
  /** A lease was granted, `waitedMs` milliseconds after the call. */
  readonly acquired: readonly [event: { name: string; fencingToken: string; waitedMs: number }];
  /** An acquire was queued. The holder and `position` waiters are ahead of it. */
  readonly waiting: readonly [event: { name: string; position: number; holder: string | undefined }];
  /** An acquire without `waitMs` has waited for 30 seconds. Emitted once per acquire, at the next heartbeat: up to six seconds later. */
  readonly stillWaiting: readonly [
    event: { name: string; position: number; holder: string | undefined; waitedMs: number },
  ];
  /** The server lost a waiter, or its grant expired before the message arrived. The waiter queues again, at the end. */
  readonly requeued: readonly [event: { name: string }];
  /** A lease was released. */
  readonly released: readonly [event: { name: string; fencingToken: string }];
  /** A lease ended without a release. */
  readonly lost: readonly [event: { name: string; fencingToken: string; reason: LossReason }];
  /**
   * The server's eviction policy (`allkeys-…` or `volatile-…`) can drop leases when memory is full, because leases have an expiry. A lock
   * whose lease was dropped can have two holders. Emitted once per policy. If there is a listener, kit reads the policy in the background,
   * and again after a lost connection. If INFO is forbidden, nothing is emitted.
   */
  readonly evictable: readonly [event: { readonly policy: string }];
  /**
   * A background command failed. kit retries it if a retry can help. During an outage, waiters, renewals and releases together emit one
   * error. When commands work again, they emit one with the code `KIT_RECOVERED`.
   */
  readonly error: readonly [error: KitError];
}

/** A lock's state at one instant. It may have changed by the time you read it. */
export interface LockInspection {
  readonly state: "free" | "held";
  /** The holder's label. */
  readonly holder: string | null;
  /** The newest fencing token ever granted, or null if none is stored: see `keepMs`. */
  readonly fencingToken: string | null;
  /** Time left of the lease, in milliseconds: null if the lock is free, Infinity if the expiry was removed (PERSIST). */
  readonly msLeft: number | null;
  /** The number of waiters, including dead ones that were not dropped yet. */
  readonly waiters: number;
  /** The first ten waiters. */
  readonly queue: readonly { readonly holder: string }[];
}

/**
 * Named locks on one Redis. At any instant of the server's clock a name has at most one holder, as long as the server keeps its data.
 * Create it with {@link createLock}.
 *
 * A caller that can't have the lock waits in a queue, ordered by the calls' arrival at the server. A release hands the lock to the first
 * waiter and notifies it, in one step. Waiters poll only if pub/sub is forbidden. They send a heartbeat every 5 s.
 */
export class Lock extends TypedEmitter<LockEvents> implements AsyncDisposable {
  /** The settings of an acquire without options. */
  readonly #defaults: ResolvedLock;
  readonly #life: ObjectLife;
  readonly #commands: LockCommands;
  readonly #leaser: Leaser<ResolvedLock, Held, Lease>;
  /** Undefined if the lock is not reentrant. */
  readonly #sections: Sections | undefined;

  /** Created by this package only. */
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
   * Waits until you hold the lock, runs `routine` with the lease, and releases the lock. It also releases the lock if the routine throws,
   * but not if the routine hands the lease over.
   *
   * Resolves with the routine's result. If the lease is lost while the routine runs, `lease.signal` aborts, and the call rejects when the
   * routine has finished. An error of the routine takes precedence. If an outage prevents the release, the call still resolves, and an
   * `error` event is emitted.
   *
   * @throws the routine's error.
   * @throws {LockLostError} the routine succeeded, but its lease had been lost.
   * @throws all errors of {@link acquire}; the routine did not run.
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
   * Waits until you hold the lock, and returns its lease.
   *
   * Waiters are served first in, first out, ordered by arrival at the server. An unreachable waiter is skipped and keeps its place. Each
   * acquire is a separate holder: if this process already holds the name, a second acquire waits. All waiters of a name in this object
   * share one heartbeat, about every five seconds. When `waitMs` ends or `signal` aborts, the promise rejects immediately, and the waiter
   * leaves the queue in the background. A lock that is granted at that moment goes to the next waiter.
   *
   * @throws {LockTimeoutError} `waitMs` passed. If `cause` is set, Redis was unreachable when the wait ended, or the slot was moving.
   * @throws {LockLostError} the reply arrived after the lease had ended. The acquire is undone in the background; call again.
   * @throws `signal.reason` if `signal` aborts first. If it was aborted before the call, no command is sent.
   * @throws {LockQueueFullError} `maxWaiters` callers already wait.
   * @throws {LockSelfDeadlockError} the lock is `reentrant`, and the caller is inside a `using` call that holds this name.
   * @throws {LockNotDurableError} replicas or disks did not confirm the grant as `durable` requires. It is undone in the background; call
   * again.
   * @throws {KitUnavailableError} no server answered the first command within `deadlineMs`, or `waitMs` if that is shorter. Once in the
   * queue, the wait continues through outages.
   * @throws {KitUnknownOutcomeError} the reply to the first command was lost. The acquire is undone in the background; call again.
   * @throws {KitClosedError} this object was closed, or the client was ended during the wait. If the client was ended before the call:
   * KitUnavailableError, not retryable.
   * @throws {KitError} the server replied with another error; see `code`. `KIT_NAME`: the name cannot be a key.
   * @throws {TypeError | RangeError} an option is invalid.
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
   * Tries once. Returns the lease, or null if another caller holds the lock or waits for it.
   *
   * @throws all errors of {@link acquire} except LockTimeoutError and LockQueueFullError.
   */
  async tryAcquire(name: string, options: TryOptions = {}): Promise<Lease | null> {
    return await this.#leaser.acquire(name, this.#tryTermsOf(options), () => null);
  }

  /**
   * Waits until you hold all of the locks, runs `routine` with the set, and releases them. It also releases them if the routine throws.
   *
   * Resolves with the routine's result. If one of the locks is lost while the routine runs, `set.signal` aborts and the others are
   * released. The call then rejects when the routine has finished. An error of the routine takes precedence.
   *
   * @throws the routine's error.
   * @throws {LockLostError} the routine succeeded, but one of the locks had been lost.
   * @throws all errors of {@link acquireAll}; the routine did not run.
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
   * Waits until you hold all of the locks, 1 to 100 of them, and returns their leases as a set. The locks can be in different slots of a
   * Cluster.
   *
   * Calls of `acquireAll` don't deadlock with each other, whatever the order of `names`: every call takes the locks in the same order.
   * Duplicates count once. If all locks are free, one round trip takes them. If one is not free, the caller waits in its queue as for a
   * single lock. While it waits, it holds the locks that come earlier in this order, and none that come later. `waitMs` and `signal` apply
   * to all of them together.
   *
   * @throws {LockTimeoutError} `waitMs` passed; `resource` is the name that was not free. All others are released.
   * @throws {LockLostError} one of the locks was lost before all were held. The others are released; call again.
   * @throws {TypeError | RangeError} `names` is not a list of 1 to 100 names, or an option is invalid.
   * @throws all other errors of {@link acquire}; the other locks are released in the background.
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
   * Tries once to take all of the locks. Returns them as a set, or null if one of them was not free: then you hold none. Two such tries at
   * the same instant can both return null, because each briefly holds a lock that the other needs.
   *
   * @throws all errors of {@link acquireAll} except LockTimeoutError and LockQueueFullError.
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
   * Takes the lock from its holder, and grants it to the first waiter. For operators, if the holder is certainly dead: a holder that still
   * runs notices the loss only at its next renewal.
   *
   * Resolves with the label of the previous holder, or with null if the lock was free or got another holder at that moment.
   *
   * @throws {KitUnavailableError} no server answered in time; nothing was changed.
   * @throws {KitUnknownOutcomeError} the reply to the release was lost. Inspect the lock first: a second call may take it from the next
   * holder. Not retryable.
   */
  async forceRelease(name: string): Promise<string | null> {
    this.#life.assertOpen();
    // Two steps, so that a repeat after a lost reply cannot affect the next holder. If the lock changes hands in between, it needs
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
   * Continues a lease that another process (or object) handed over or serialized. kit renews the lease once, to check that it is still
   * held. After that its own `renew` setting applies.
   *
   * @throws {LockLostError} the lease is no longer held.
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
    // A limit that is not in the text does not apply, even if this object has a default.
    const defaults = { ...this.#defaults, maxHoldMs: undefined };
    const resolved = resolve("options", { leaseMs, renew, maxHoldMs, holder }, acquireRules, defaults);
    return await this.#leaser.resume(saved, resolved, saved.fencingToken);
  }

  /**
   * Closes this object. New acquires and waiters reject with KitClosedError, and the waiters leave the queue. `close()` waits for held
   * leases, up to `timeoutMs`. Then their signals abort and kit releases them, within another `deadlineMs`. Your client stays open.
   * Idempotent: the options of the first call apply.
   *
   * @throws {TypeError | RangeError} an option is invalid. It rejects for no other reason.
   */
  async close(options: CloseOptions = {}): Promise<void> {
    await this.#life.close(options, (deadline) => this.#leaser.end(deadline));
  }

  /** Same as `close()`. */
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
 * Creates a lock object. One object serves any number of lock names and callers.
 *
 * `redis` is a client from core's `connect()`, from ioredis, or from `fromNodeRedis()`. kit never closes it, blocks it or subscribes on it.
 * The first wait opens one more connection, for pushes, which closes with the last kit object on the client.
 *
 * @throws {TypeError | RangeError} `redis` or an option is invalid.
 *
 * @example
 * const lock = createLock(redis);
 * await lock.using("item:42", async (lease) => {
 *   await sell("item:42", lease.fencingToken);
 * });
 */
export const createLock = (redis: RedisLike, options: LockOptions = {}): Lock => new Lock(redis, options);
