import type { KitError, RedisLike } from "@kit/core";
import { type CloseOptions, defaultsOf, ObjectLife, resolve, TypedEmitter, watchEviction } from "@kit/core/toolkit";
import { Leaser, type LeaseRequest, type LossReason, parseLease } from "@kit/core/leasing";
import { SemaphoreCommands } from "./commands.js";
import { semaphoreKeys } from "./keys.js";
import {
  type AcquireOptions,
  acquireRules,
  forTenant,
  type InspectOptions,
  inspectRules,
  type Limits,
  newLimits,
  type NewLimits,
  type ResolvedPermit,
  type SemaphoreOptions,
  semaphoreRules,
  type SemaphoreSettings,
  type TryOptions,
  tryRules,
} from "./options.js";
import { Permit } from "./permit.js";
import type { Usage } from "./scripts/index.js";

const inspectedEach = 10;
const noOptions: AcquireOptions = {};

/** A permit's weight and tenant, for events. */
const chargeOf = ({ resolved }: LeaseRequest<ResolvedPermit>): { weight: number; tenant: string | null } => ({
  weight: resolved.weight,
  tenant: resolved.tenant ?? null,
});

/** Events of a semaphore. To trace calls, use the diagnostics channels `kit:semaphore.*`. */
export interface SemaphoreEvents {
  /** A permit was granted, `waitedMs` milliseconds after the call. */
  readonly acquired: readonly [event: { weight: number; tenant: string | null; waitedMs: number }];
  /** An acquire was queued. `position` waiters are ahead of it (in a group: waiters of its tenant). */
  readonly waiting: readonly [event: { position: number; used: number; permits: number }];
  /** An acquire without `waitMs` has waited for 30 seconds. Emitted once per acquire, at the next heartbeat: up to six seconds later. */
  readonly stillWaiting: readonly [event: { position: number; used: number; permits: number; waitedMs: number }];
  /**
   * The server lost a waiter: it lost data, or a grant expired before its message arrived. The waiter queues again, at the end. If its
   * weight is above the current limits, its acquire rejects with SemaphoreWeightError instead.
   */
  readonly requeued: readonly [];
  /** A permit was released. */
  readonly released: readonly [event: { weight: number; tenant: string | null }];
  /** A permit ended without a release. */
  readonly lost: readonly [event: { weight: number; tenant: string | null; reason: LossReason }];
  /**
   * The stored limits differ from this object's settings: another object has other settings, or `setPermits()` was called elsewhere. The
   * stored limits apply. Emitted once per difference.
   */
  readonly mismatch: readonly [event: { configured: Limits; stored: Limits }];
  /**
   * The server's eviction policy (`allkeys-…` or `volatile-…`) can drop permits when memory is full, because permits have an expiry. Then
   * more permits than the limit can be in use. Emitted once per policy. If there is a listener, kit reads the policy in the background, and
   * again after a lost connection. If INFO is forbidden, nothing is emitted.
   */
  readonly evictable: readonly [event: { readonly policy: string }];
  /**
   * A background command failed. kit retries it if a retry can help. During an outage, waiters, renewals and releases together emit one
   * error. When commands work again, they emit one with the code `KIT_RECOVERED`.
   */
  readonly error: readonly [error: KitError];
}

/** A holder or waiter, and its weight. */
export interface HolderOrWaiter {
  readonly holder: string;
  readonly weight: number;
  /** Null outside of groups. */
  readonly tenant: string | null;
}

/** A semaphore's state at one instant. It may have changed by the time you read it. */
export interface SemaphoreInspection {
  /** The stored limit. If none is stored (no acquire for a week), this object's limit. */
  readonly permits: number;
  /** The limit of each tenant, or null outside of groups. */
  readonly permitsPerTenant: number | null;
  /** The weight in use. For a tenant of a semaphore that is not a group, only the 10,000 permits that end first count. */
  readonly used: number;
  /** The free weight. It is 0 if the limit was lowered below the weight in use. */
  readonly free: number;
  /** The ten permits that end first if they are not renewed. For one tenant, kit searches only the 10,000 permits that end first. */
  readonly holders: readonly (HolderOrWaiter & { readonly msLeft: number })[];
  /** The number of waiters, including dead ones that were not dropped yet. */
  readonly waiters: number;
  /** The first ten waiters. In a group with over 1,000 waiters, kit searches only the 1,000 whose tenants' names sort first. */
  readonly queue: readonly HolderOrWaiter[];
}

/**
 * A named counting semaphore on one Redis. At any instant of the server's clock, the weights of all held permits add up to at most the
 * limit. This holds as long as the server keeps its data and the limit is not lowered. Create it with {@link createSemaphore}.
 *
 * A caller that finds no room waits in a queue: by priority, then in order of arrival at the server. In one step, a release grants permits
 * to the next waiters that fit, and notifies them. Waiters poll only if pub/sub is forbidden. They send a heartbeat every 5 s.
 *
 * The order is strict: if the next waiter needs more than is free, all others wait for it. Only an unreachable waiter is skipped, and it
 * keeps its place. In a group each tenant has its own queue, and a tenant at its limit does not delay others.
 *
 * Based on the semaphores of "Redis in Action" (J. L. Carlson, 2013, section 6.3). Unlike them, it uses no client's clock, and every
 * operation is one atomic step.
 */
export class Semaphore extends TypedEmitter<SemaphoreEvents> implements AsyncDisposable {
  readonly name: string;
  readonly #settings: SemaphoreSettings;
  /** The settings of an acquire without options. */
  readonly #defaults: ResolvedPermit;
  readonly #life: ObjectLife;
  readonly #commands: SemaphoreCommands;
  readonly #leaser: Leaser<ResolvedPermit, Usage, Permit>;
  /** The limits that the server should have. Other limits emit `mismatch`. */
  #expected: Limits;

  /** Created by this package only. */
  constructor(redis: RedisLike, name: string, options: SemaphoreOptions) {
    super();
    this.name = name;
    this.#settings = resolve("options", options, semaphoreRules);
    this.#defaults = defaultsOf(acquireRules, this.#settings);
    this.#expected = this.#settings;
    const keys = semaphoreKeys(this.#settings.prefix, name);
    this.#life = new ObjectLife(redis, this.#settings, "The semaphore");
    const { context } = this.#life;
    this.#commands = new SemaphoreCommands(context, keys, this.#settings, (stored) => this.#compare(stored));
    this.#leaser = new Leaser(this.#life, this.#commands, this.#settings, (held) => new Permit(held), {
      acquired: ({ request }, waitedMs) => this.emit("acquired", { ...chargeOf(request), waitedMs }),
      queued: (_name, { position, used, permits }) => this.emit("waiting", { position, used, permits }),
      requeued: () => this.emit("requeued"),
      stillWaiting: (_name, position, { used, permits }, waitedMs) =>
        this.emit("stillWaiting", { position, used, permits, waitedMs }),
      released: ({ request }) => this.emit("released", chargeOf(request)),
      lost: ({ request }, reason) => this.emit("lost", { ...chargeOf(request), reason }),
      error: (error) => this.emit("error", error),
      used: watchEviction(
        context,
        () => this.hasListeners("evictable"),
        (policy) => this.emit("evictable", { policy }),
      ),
    });
  }

  /**
   * Waits for a permit, runs `routine` with it, and releases it. It also releases the permit if the routine throws, but not if the routine
   * hands it over.
   *
   * Resolves with the routine's result. If the permit is lost while the routine runs, `permit.signal` aborts, and the call rejects when the
   * routine has finished. An error of the routine takes precedence. If an outage prevents the release, the call still resolves, and an
   * `error` event is emitted.
   *
   * @throws the routine's error.
   * @throws {PermitLostError} the routine succeeded, but its permit had been lost.
   * @throws all errors of {@link acquire}; the routine did not run.
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
   * Waiters are served by priority, and equal priorities in order of arrival at the server. If a heavy waiter does not fit, all waiters
   * after it wait until there is room. An unreachable waiter is skipped and keeps its place. All waiters of this object share one
   * heartbeat, about every five seconds. When `waitMs` ends or `signal` aborts, the promise rejects immediately, and the waiter leaves the
   * queue in the background. A permit that is granted at that moment goes to the next waiter.
   *
   * @throws {SemaphoreTimeoutError} there was no room within `waitMs`. If `cause` is set, Redis was unreachable when the wait ended, or the
   * slot was moving.
   * @throws {SemaphoreWeightError} `weight` is above the limits, so that it could never be granted. A limit of 0 is a pause: then the
   * acquire waits.
   * @throws {PermitLostError} the reply arrived after the permit had ended. The acquire is undone in the background; call again.
   * @throws `signal.reason` if `signal` aborts first. If it was aborted before the call, no command is sent.
   * @throws {SemaphoreQueueFullError} `maxWaiters` callers already wait.
   * @throws {KitUnavailableError} no server answered the first command within `deadlineMs`, or `waitMs` if that is shorter. Once in the
   * queue, the wait continues through outages.
   * @throws {KitUnknownOutcomeError} the reply to the first command was lost. The acquire is undone in the background; call again.
   * @throws {KitClosedError} this object was closed, or the client was ended during the wait. If the client was ended before the call:
   * KitUnavailableError, not retryable.
   * @throws {KitError} the server replied with another error; see `code`.
   * @throws {TypeError | RangeError} an option is invalid.
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
   * Tries once. Returns the permit, or null if there is no room, or if waiters come first. If Redis is unreachable, it rejects.
   *
   * @throws all errors of {@link acquire} except SemaphoreTimeoutError and SemaphoreQueueFullError.
   */
  async tryAcquire(options: TryOptions = {}): Promise<Permit | null> {
    const settings = resolve("options", options, tryRules, { ...this.#defaults, waitMs: 0 });
    return await this.#leaser.acquire(this.name, forTenant(settings, this.#settings), () => null);
  }

  /**
   * Changes the limits for all objects of this name, immediately. A higher limit grants permits to all waiters that now fit. A lower limit
   * revokes no permit: nothing is granted until enough permits have been released. 0 pauses the semaphore. If a waiter's weight is above
   * the new limit, its acquire rejects with SemaphoreWeightError when its turn comes. A number is short for `{ permits }`.
   *
   * The stored limits expire a week after the last acquire, `setPermits()` or waiting caller: renewals don't count. Then the next acquire
   * stores the limits of its object. If a copy of the command arrives after `deadlineMs`, or after a newer change, it changes nothing.
   *
   * @throws {TypeError | RangeError} no limit is given, a limit is not an integer from 0 to 1,000,000,000, or you pass a number for
   * `permitsPerTenant` and this object was created without it.
   * @throws {KitUnavailableError | KitUnknownOutcomeError} as for every command. You can safely call it again.
   *
   * @example
   * await semaphore.setPermits(10);
   *
   * @example
   * await sessions.setPermits({ permitsPerTenant: 3 });
   */
  async setPermits(limits: number | NewLimits): Promise<void> {
    this.#life.assertOpen();
    const changed = newLimits(limits, this.#settings);
    const { permits = this.#expected.permits, permitsPerTenant = this.#expected.permitsPerTenant } = changed;
    // This object's own change emits no `mismatch`, even if another reply with the new limits arrives before the call's reply.
    const before = this.#expected;
    const wanted = { permits, permitsPerTenant: permitsPerTenant ?? undefined };
    this.#expected = wanted;
    try {
      await this.#commands.resize(this.name, changed, this.#leaser.commands.shared);
    } catch (error) {
      if (this.#expected === wanted) this.#expected = before;
      throw error;
    }
  }

  /**
   * Reads the state of the semaphore, or of one tenant, and changes nothing. For a tenant, `used`, `holders`, `waiters` and `queue` cover
   * only this tenant, and `free` is the weight that the tenant can still use.
   *
   * @throws {TypeError | RangeError} an option is invalid.
   * @throws {KitUnavailableError} no server answered in time.
   *
   * @example
   * const { used, permitsPerTenant } = await sessions.inspect({ tenant: "ann" });
   */
  async inspect(options: InspectOptions = {}): Promise<SemaphoreInspection> {
    this.#life.assertOpen();
    const { tenant } = resolve("options", options, inspectRules);
    const seen = await this.#commands.inspect(inspectedEach, tenant);
    if (seen.limits) this.#compare(seen.limits);
    const { limits = this.#settings, used, usedByAll, waiting, holders, queue } = seen;
    const { permits, permitsPerTenant = null } = limits;
    const own = tenant === undefined || permitsPerTenant === null ? Infinity : permitsPerTenant - used;
    const free = Math.max(0, Math.min(permits - usedByAll, own));
    return { permits, permitsPerTenant, used, free, holders, waiters: waiting, queue };
  }

  /**
   * Continues a permit that another process (or object) handed over or serialized. kit renews the permit once, to check that it is still
   * held. After that its own `renew` setting applies.
   *
   * @throws {PermitLostError} the permit is no longer held.
   * @throws {TypeError} `text` does not come from `permit.handOver()` or `permit.serialise()` of a semaphore of this name.
   * @throws {KitUnavailableError} no server answered in time.
   */
  async resume(text: string): Promise<Permit> {
    this.#life.assertOpen();
    const saved = parseLease<{ weight: number; tenant: string | null }>(
      "semaphore",
      text,
      ({ weight, tenant }) => typeof weight === "number" && (tenant === null || typeof tenant === "string"),
    );
    if (saved.name !== this.name)
      throw new TypeError("Expected a permit of this semaphore, got one of a different semaphore");
    const { leaseMs, renew, maxHoldMs, holder, weight } = saved;
    // The text has the limits and the tenant that apply. This object's own settings don't matter.
    const options = { leaseMs, renew, maxHoldMs, holder, weight, tenant: saved.tenant ?? undefined };
    const settings = resolve("options", options, acquireRules, { ...this.#defaults, maxHoldMs: undefined });
    return await this.#leaser.resume(saved, settings, "");
  }

  /**
   * Closes this object. New acquires and waiters reject with KitClosedError, and the waiters leave the queue. `close()` waits for held
   * permits, up to `timeoutMs`. Then their signals abort and kit releases them, within another `deadlineMs`. Your client stays open.
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

  #termsOf(options: AcquireOptions): ResolvedPermit {
    const settings = options === noOptions ? this.#defaults : resolve("options", options, acquireRules, this.#defaults);
    return forTenant(settings, this.#settings);
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
 * Creates a semaphore object: one name, any number of callers. All objects of the same name, in any process, share its permits.
 *
 * `redis` is a client from core's `connect()`, from ioredis, or from `fromNodeRedis()`. kit never closes it, blocks it or subscribes on it.
 * The first wait opens one more connection, for pushes, which closes with the last kit object on the client.
 *
 * @throws {TypeError | RangeError} `redis` or an option is invalid.
 * @throws {KitError} `KIT_NAME`: the name cannot be a key.
 *
 * @example
 * const semaphore = createSemaphore(redis, "renderer", { permits: 5 });
 * await semaphore.using(({ signal }) => render("report", signal));
 */
export const createSemaphore = (redis: RedisLike, name: string, options: SemaphoreOptions): Semaphore =>
  new Semaphore(redis, name, options);
