import type { KitError, RedisLike } from "@kit/core";
import { type CloseOptions, defaultsOf, ObjectLife, resolve, TypedEmitter, watchEviction } from "@kit/core/toolkit";
import { Leaser, leaserRules, type LossReason, parseLease, type ResolvedAcquire, type Seen } from "@kit/core/leasing";
import { CompatibleCommands } from "./commands.js";
import { CompatibleLease } from "./lease.js";
import {
  type CompatibleAcquireOptions,
  compatibleAcquireRules,
  type CompatibleLockOptions,
  compatibleRules,
  type CompatibleTryOptions,
  compatibleTryRules,
} from "./options.js";

const noOptions: CompatibleAcquireOptions = {};

/** Events of a compatible lock object. To trace calls, use the diagnostics channels `kit:compatible-lock.*`. */
export interface CompatibleLockEvents {
  /** A lease was granted, `waitedMs` milliseconds after the call. */
  readonly acquired: readonly [event: { name: string; waitedMs: number }];
  /** Another caller holds the lock: the acquire starts to poll. */
  readonly waiting: readonly [event: { name: string }];
  /** An acquire without `waitMs` has waited for 30 seconds. Emitted once per acquire. */
  readonly stillWaiting: readonly [event: { name: string; waitedMs: number }];
  /** A lease was released. */
  readonly released: readonly [event: { name: string }];
  /** A lease ended without a release. */
  readonly lost: readonly [event: { name: string; reason: LossReason }];
  /** Same as the event of a lock: the server may drop keys when its memory is full. */
  readonly evictable: readonly [event: { readonly policy: string }];
  /**
   * A background command failed. kit retries it if a retry can help. During an outage, waiters, renewals and releases together emit one
   * error. When commands work again, they emit one with the code `KIT_RECOVERED`.
   */
  readonly error: readonly [error: KitError];
}

/**
 * Named locks on one Redis that work together with redlock 4 and 5 and with redis-semaphore's `Mutex`: only one caller holds a name,
 * whatever library it uses. Use them while you move your processes to `@kit/lock`, one after another. Create it with
 * {@link createCompatibleLock}.
 *
 * Like these libraries, it uses only a key with a token and an expiry. Waiters poll in no fixed order, and there are no fencing tokens.
 */
export class CompatibleLock extends TypedEmitter<CompatibleLockEvents> implements AsyncDisposable {
  /** The settings of an acquire without options. */
  readonly #defaults: ResolvedAcquire;
  readonly #life: ObjectLife;
  readonly #leaser: Leaser<ResolvedAcquire, Seen, CompatibleLease>;

  /** Created by this package only. */
  constructor(redis: RedisLike, options: CompatibleLockOptions) {
    super();
    const settings = { ...defaultsOf(leaserRules, {}), ...resolve("options", options, compatibleRules) };
    this.#defaults = { ...defaultsOf(compatibleAcquireRules, settings), holder: settings.holder };
    this.#life = new ObjectLife(redis, settings, "The compatible lock");
    const { context } = this.#life;
    const commands = new CompatibleCommands(context, settings);
    this.#leaser = new Leaser(this.#life, commands, settings, (held) => new CompatibleLease(held), {
      acquired: ({ request: { name } }, waitedMs) => this.emit("acquired", { name, waitedMs }),
      queued: (name) => this.emit("waiting", { name }),
      // The grant was over when its reply arrived: the waiter continues to poll.
      requeued: () => undefined,
      stillWaiting: (name, _position, _seen, waitedMs) => this.emit("stillWaiting", { name, waitedMs }),
      released: ({ request: { name } }) => this.emit("released", { name }),
      lost: ({ request: { name } }, reason) => this.emit("lost", { name, reason }),
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
   * but not if the routine hands the lease over. Works like `using` of a lock.
   *
   * @throws the routine's error.
   * @throws {LockLostError} the routine succeeded, but its lease had been lost.
   * @throws all errors of {@link acquire}; the routine did not run.
   */
  async using<T>(
    name: string,
    routine: (lease: CompatibleLease) => Promise<T> | T,
    options: CompatibleAcquireOptions = noOptions,
  ): Promise<T> {
    if (typeof routine !== "function")
      throw new TypeError(`Expected \`routine\` to be a function, got ${typeof routine}`);
    return await this.#leaser.using(name, this.#termsOf(options), routine);
  }

  /**
   * Waits until you hold the lock, and returns its lease.
   *
   * Waiters of this object try in turn, about every 50 ms, and compete with other processes. The first try after a release gets the lock.
   * Each acquire is a separate holder. When `waitMs` ends or `signal` aborts, the promise rejects immediately. If the lock is granted at
   * that moment, kit releases it in the background.
   *
   * @throws the errors of a lock's `acquire`: `LockTimeoutError`, `LockLostError`, `KitUnavailableError`, `KitUnknownOutcomeError`,
   * `KitClosedError`, `KitError`; `signal.reason`.
   * @throws {TypeError | RangeError} an option is invalid.
   */
  async acquire(name: string, options: CompatibleAcquireOptions = noOptions): Promise<CompatibleLease> {
    return await this.#leaser.acquire(name, this.#termsOf(options));
  }

  /**
   * Tries once. Returns the lease, or null if another caller holds the lock.
   *
   * @throws all errors of {@link acquire} except LockTimeoutError.
   */
  async tryAcquire(name: string, options: CompatibleTryOptions = {}): Promise<CompatibleLease | null> {
    const resolved = resolve("options", options, compatibleTryRules, { ...this.#defaults, waitMs: 0 });
    return await this.#leaser.acquire(name, resolved, () => null);
  }

  /**
   * Continues a lease that another process (or object) handed over or serialized. kit renews the lease once, to check that it is still
   * held. After that its own `renew` setting applies.
   *
   * @throws {LockLostError} the lease is no longer held.
   * @throws {TypeError} `text` does not come from `lease.handOver()` or `lease.serialise()`.
   * @throws {KitUnavailableError} no server answered in time.
   */
  async resume(text: string): Promise<CompatibleLease> {
    this.#life.assertOpen();
    const saved = parseLease<object>("compatible-lock", text, () => true);
    const { leaseMs, renew, maxHoldMs } = saved;
    // A limit that is not in the text does not apply, even if this object has a default.
    const defaults = { ...this.#defaults, maxHoldMs: undefined };
    const resolved = resolve("options", { leaseMs, renew, maxHoldMs }, compatibleAcquireRules, defaults);
    return await this.#leaser.resume(saved, resolved, "");
  }

  /**
   * Closes this object. New acquires and waiters reject with KitClosedError. `close()` waits for held leases, up to `timeoutMs`. Then their
   * signals abort and kit releases them, within another `deadlineMs`. Your client stays open. Idempotent: the options of the first call
   * apply.
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

  #termsOf(options: CompatibleAcquireOptions): ResolvedAcquire {
    return options === noOptions ? this.#defaults : resolve("options", options, compatibleAcquireRules, this.#defaults);
  }
}

/**
 * Creates a compatible lock object. Its keys have redlock's format (`SET name token NX PX …`), so this lock and redlock exclude each other.
 * With `keyPrefix: "mutex:"` they match the keys of redis-semaphore's `Mutex`.
 *
 * `redis` is a client from core's `connect()`, from ioredis, or from `fromNodeRedis()`. kit never closes it, blocks it or subscribes on it.
 * As with a lock, the first wait opens one more connection.
 *
 * @throws {TypeError | RangeError} `redis` or an option is invalid.
 *
 * @example
 * const lock = createCompatibleLock(redis);
 * await lock.using("item:42", (lease) => sell("item:42", lease.signal));
 */
export const createCompatibleLock = (redis: RedisLike, options: CompatibleLockOptions = {}): CompatibleLock =>
  new CompatibleLock(redis, options);
