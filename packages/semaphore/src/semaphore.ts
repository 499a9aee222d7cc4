import type { KitError, RedisLike } from "@kit/core";
import { type CloseOptions, closeTimeoutMs, TypedEmitter } from "@kit/core/toolkit";
import { Leaser, type LossReason, parseLease } from "@kit/core/leasing";
import { SemaphoreCommands } from "./commands.js";
import {
  type AcquireOptions,
  resolveAcquire,
  inspectedTenant,
  type InspectOptions,
  type Limits,
  newLimits,
  type NewLimits,
  type ResolvedPermit,
  type SemaphoreOptions,
  type SemaphoreSettings,
  semaphoreSettings,
  resolveTry,
  type TryOptions,
} from "./options.js";
import { Permit } from "./permit.js";
import type { Usage } from "./scripts/index.js";

const inspectedEach = 10;
const noOptions: AcquireOptions = {};

/** Events of a semaphore; for tracing use the diagnostics channels `kit:semaphore.*`. */
export interface SemaphoreEvents {
  /** A permit was granted, `waitedMs` after it was asked for. */
  readonly acquired: readonly [event: { weight: number; tenant: string | null; waitedMs: number }];
  /** An acquire was queued behind `position` others (in a group: of its tenant). */
  readonly waiting: readonly [event: { position: number; used: number; permits: number }];
  /** An acquire without `waitMs` has waited for half a minute. Once for each, within five seconds of that. */
  readonly stillWaiting: readonly [event: { position: number; used: number; permits: number; waitedMs: number }];
  /**
   * The server no longer had a record of a waiter (lost data, a grant that expired before its message arrived, or limits below
   * its weight): it queues again, at the end.
   */
  readonly requeued: readonly [];
  /** A permit was given back. */
  readonly released: readonly [event: { weight: number; tenant: string | null }];
  /** A permit ended without a release. */
  readonly lost: readonly [event: { weight: number; tenant: string | null; reason: LossReason }];
  /**
   * The stored limits, which count, are not those that this object was made with: somebody has other settings, or
   * `setPermits()` was called elsewhere. Once for each difference.
   */
  readonly mismatch: readonly [event: { configured: Limits; stored: Limits }];
  /** Something failed behind the scenes that no caller waits for; it is being tried again where that makes sense. */
  readonly error: readonly [error: KitError];
}

/** A holder or waiter, and its weight. */
export interface HolderOrWaiter {
  readonly holder: string;
  readonly weight: number;
  /** Null outside of groups. */
  readonly tenant: string | null;
}

/** A semaphore's state at one instant. It may have changed by the time it is read. */
export interface SemaphoreInspection {
  /** The stored limit, or that of this object where nobody has used the semaphore for a week. */
  readonly permits: number;
  /** That of each tenant; null outside of groups. */
  readonly permitsPerTenant: number | null;
  /** Permits that are held now, by weight; of one tenant outside of groups, among the ten thousand that end first. */
  readonly used: number;
  /** Free weight; 0 also when more is held than the limit, after it was lowered. */
  readonly free: number;
  /** The ten permits that end first, unless they are renewed; of one tenant, among the ten thousand of all that do. */
  readonly holders: readonly (HolderOrWaiter & { readonly msLeft: number })[];
  /** How many wait, dead ones not yet noticed among them. */
  readonly waiters: number;
  /** The first ten in the queue; where over a thousand wait in a group, of the first thousand by their tenants' names. */
  readonly queue: readonly HolderOrWaiter[];
}

/**
 * A counting semaphore by name, on one Redis: permits of at most its limit, by weight, are held at any instant of the
 * server's clock, as long as the server keeps its data. Made by {@link createSemaphore}.
 *
 * A caller that finds no room waits in the queue: by priority, and in the order in which the server saw the calls. A release
 * grants to the next one that fits, and notifies it, in one step; nothing polls. The order is strict: where the next one needs more
 * than is free, all wait for it; only an unreachable waiter is skipped, and keeps its place. In a group each tenant has a queue
 * of its own, and a full tenant holds up no other.
 *
 * After the semaphores of "Redis in Action" (J. L. Carlson, 2013, section 6.3), without their
 * faults: no client's clock counts, and every operation is one atomic step.
 */
export class Semaphore extends TypedEmitter<SemaphoreEvents> implements AsyncDisposable {
  readonly name: string;
  readonly #settings: SemaphoreSettings;
  /** Of an acquire without options. */
  #resolved: ResolvedPermit | undefined;
  readonly #commands: SemaphoreCommands;
  readonly #leaser: Leaser<ResolvedPermit, Usage, Permit>;
  /** The limits that the server is expected to have; others emit `mismatch`. */
  #expected: Limits;

  /** Made by this package only. */
  constructor(redis: RedisLike, name: string, options: SemaphoreOptions) {
    super();
    this.name = name;
    this.#settings = semaphoreSettings(options);
    this.#expected = this.#settings;
    this.#commands = new SemaphoreCommands(redis, name, this.#settings, {
      error: (error) => this.emit("error", error),
      limits: (stored) => this.#compare(stored),
    });
    this.#leaser = new Leaser(this.#commands, (...of) => new Permit(...of), {
      acquired: ({ weight, tenant }, waitedMs) => this.emit("acquired", { weight, tenant, waitedMs }),
      queued: (_name, { position, used, permits }) => this.emit("waiting", { position, used, permits }),
      requeued: () => this.emit("requeued"),
      stillWaiting: (_name, position, { used, permits }, waitedMs) =>
        this.emit("stillWaiting", { position, used, permits, waitedMs }),
      released: ({ weight, tenant }) => this.emit("released", { weight, tenant }),
      lost: ({ weight, tenant }, reason) => this.emit("lost", { weight, tenant, reason }),
    });
  }

  /**
   * Waits for a permit, runs `routine` with it, and gives it back, whatever happens, unless the routine hands it over.
   *
   * Resolves with the routine's result. If the permit is lost while it runs, `permit.signal` aborts, and after the routine
   * has ended the call rejects; the routine's own error comes first. When the permit cannot be given back because of an
   * outage, the result stands, and an `error` event is emitted.
   *
   * @throws what the routine throws.
   * @throws {PermitLostError} the routine ended well, but the permit had been lost before.
   * @throws all that {@link acquire} throws; then the routine was not run.
   *
   * @example
   * const report = await semaphore.using(({ signal }) => render("report", signal), { weight: 2 });
   */
  async using<T>(routine: (permit: Permit) => Promise<T> | T, options: AcquireOptions = noOptions): Promise<T> {
    if (typeof routine !== "function")
      throw new TypeError(`Expected \`routine\` to be a function, got ${typeof routine}`);
    return await this.#leaser.using(this.name, this.#termsOf(options), routine);
  }

  /**
   * Waits for a permit, and returns it.
   *
   * Waiters are served by priority, and in the order of their arrival at the server among equals. A heavy waiter holds up those
   * behind it until there is room for it; an unreachable waiter is skipped and keeps its place. A wait costs one heartbeat
   * every five seconds. When the caller gives up (`waitMs`, `signal`), the promise rejects at once and the waiter leaves the
   * queue in the background; a permit that was granted at that moment goes to the next waiter.
   *
   * @throws {SemaphoreTimeoutError} it was full for `waitMs`. With a `cause`, Redis was unreachable at the end.
   * @throws {SemaphoreWeightError} the limits are less than `weight`, so that it would wait for ever. A limit of 0 is a
   * pause: then it waits.
   * @throws {PermitLostError} the server's answer came after the permit was over. It is being undone; call again.
   * @throws `signal.reason` if `signal` aborts first; one that has aborted already never touches Redis.
   * @throws {SemaphoreQueueFullError} `maxWaiters` wait already.
   * @throws {KitUnavailableError} no server answered the first command within `deadlineMs`, or `waitMs` if that is shorter.
   * Once in the queue, outages are waited out.
   * @throws {KitUnknownOutcomeError} the first command's reply was lost. It is being undone; call again.
   * @throws {KitError} the server's other errors, by their code.
   * @throws {TypeError | RangeError} an option is not what it should be.
   *
   * @example
   * const permit = await semaphore.acquire({ waitMs: 5_000 });
   * try {
   *   await download(permit.signal);
   * } finally {
   *   await permit.release();
   * }
   */
  async acquire(options: AcquireOptions = noOptions): Promise<Permit> {
    return await this.#leaser.acquire(this.name, this.#termsOf(options));
  }

  /**
   * Tries once, and returns the permit, or null when it is full, or others wait for what is free. When Redis is
   * unreachable, it rejects.
   *
   * @throws all that {@link acquire} throws but SemaphoreTimeoutError and SemaphoreQueueFullError.
   */
  async tryAcquire(options: TryOptions = {}): Promise<Permit | null> {
    return await this.#leaser.try(this.name, resolveTry(options, this.#settings));
  }

  /**
   * Changes the limits for all objects of this name, at once. A higher limit grants to all waiters that fit now. A lower limit
   * takes no permit away; nothing is granted until enough permits have been released. 0 is a pause. A waiter with a weight above
   * the new limit is refused with SemaphoreWeightError when its turn comes. A number is short for `{ permits }`.
   *
   * The stored limits are forgotten when nobody has used the semaphore for a week; then its first user sets them.
   *
   * @throws {TypeError | RangeError} a limit is not an integer from 0 to 1,000,000,000, there is none, or one of tenants
   * where this object was made without.
   * @throws {KitUnavailableError | KitUnknownOutcomeError} as every command. Calling it again does no harm.
   *
   * @example
   * await semaphore.setPermits(10);
   *
   * @example
   * await sessions.setPermits({ permitsPerTenant: 3 });
   */
  async setPermits(limits: number | NewLimits): Promise<void> {
    this.#leaser.assertOpen();
    const changed = newLimits(limits, this.#settings);
    const { permits = this.#expected.permits, permitsPerTenant = this.#expected.permitsPerTenant } = changed;
    // Its own change is no surprise to it, also where an answer with the new limits comes before that of the call.
    const before = this.#expected;
    const wanted = { permits, permitsPerTenant: permitsPerTenant ?? undefined };
    this.#expected = wanted;
    try {
      await this.#commands.resize(changed);
    } catch (error) {
      if (this.#expected === wanted) this.#expected = before;
      throw error;
    }
  }

  /**
   * Looks at the semaphore without touching it; or at one tenant: then `used`, `holders`, `waiters` and `queue`
   * are of that one, and `free` is what it could still have.
   *
   * @throws {TypeError | RangeError} an option is not what it should be.
   * @throws {KitUnavailableError} no server answered in time.
   *
   * @example
   * const { used, permitsPerTenant } = await sessions.inspect({ tenant: "ann" });
   */
  async inspect(options: InspectOptions = {}): Promise<SemaphoreInspection> {
    this.#leaser.assertOpen();
    const tenant = inspectedTenant(options);
    const seen = await this.#commands.inspect(inspectedEach, tenant);
    if (seen.limits) this.#compare(seen.limits);
    const { limits = this.#settings, used, usedByAll, waiting, holders, queue } = seen;
    const { permits, permitsPerTenant = null } = limits;
    const own = tenant === undefined || permitsPerTenant === null ? Infinity : permitsPerTenant - used;
    const free = Math.max(0, Math.min(permits - usedByAll, own));
    return { permits, permitsPerTenant, used, free, holders, waiters: waiting, queue };
  }

  /**
   * Goes on with a permit that another process (or object) handed over or serialised. It is renewed once, which proves that
   * it is still held, and from then on by itself.
   *
   * @throws {PermitLostError} it is not held any more.
   * @throws {TypeError} `text` does not come from `permit.handOver()` or `permit.serialise()` of a semaphore of this name.
   * @throws {KitUnavailableError} no server answered in time.
   */
  async resume(text: string): Promise<Permit> {
    this.#leaser.assertOpen();
    const saved = parseLease<{ weight: number; tenant: string | null }>(
      "semaphore",
      text,
      ({ weight, tenant }) => typeof weight === "number" && (tenant === null || typeof tenant === "string"),
    );
    if (saved.name !== this.name) throw new TypeError("Expected a permit of this semaphore, got one of another");
    const { leaseMs, renew, maxHoldMs, holder, weight } = saved;
    // The text alone says what limits apply and which tenant it counts for, whatever this object's own settings are.
    const permitsPerTenant = saved.tenant === null ? undefined : 0;
    const settings = { ...this.#settings, maxHoldMs: undefined, permitsPerTenant };
    const options = { leaseMs, renew, maxHoldMs, holder, weight, tenant: saved.tenant ?? undefined };
    return await this.#leaser.resume(saved, resolveAcquire(options, settings), "");
  }

  /**
   * Ends this object: no acquire begins any more, waiters are rejected with KitClosedError and leave the queue, and held
   * permits are waited for, at most `timeoutMs`; what is still held then loses its signal and is released. The client is
   * not touched. Idempotent: the first call decides.
   *
   * @throws {TypeError | RangeError} an option is not what it should be; nothing else.
   */
  async close(options: CloseOptions = {}): Promise<void> {
    await this.#leaser.close(closeTimeoutMs(options));
  }

  /** As `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #termsOf(options: AcquireOptions): ResolvedPermit {
    if (options !== noOptions) return resolveAcquire(options, this.#settings);
    this.#resolved ??= resolveAcquire(options, this.#settings);
    return this.#resolved;
  }

  #compare({ permits, permitsPerTenant }: Limits): void {
    const { permits: expected, permitsPerTenant: expectedPerTenant } = this.#expected;
    if (permits === expected && permitsPerTenant === expectedPerTenant) return;
    this.#expected = { permits, permitsPerTenant };
    const { permits: own, permitsPerTenant: ownPerTenant } = this.#settings;
    if (permits === own && permitsPerTenant === ownPerTenant) return;
    const configured = { permits: own, permitsPerTenant: ownPerTenant };
    this.emit("mismatch", { configured, stored: { permits, permitsPerTenant } });
  }
}

/**
 * Makes a semaphore object: one name, any number of callers. Others of the same name, in any process, share its permits.
 *
 * `redis` is any ioredis `Redis` or `Cluster`, or what core's `connect()` gives. It is borrowed: never closed, never
 * blocked, never subscribed. The first wait opens one more connection, for what is pushed; `close()` ends it.
 *
 * @throws {TypeError | RangeError} `redis` or an option is not what it should be.
 * @throws {KitError} `KIT_NAME`: the name cannot be a key.
 *
 * @example
 * const semaphore = createSemaphore(redis, "renderer", { permits: 5 });
 * await semaphore.using(({ signal }) => render("report", signal));
 */
export const createSemaphore = (redis: RedisLike, name: string, options: SemaphoreOptions): Semaphore =>
  new Semaphore(redis, name, options);
