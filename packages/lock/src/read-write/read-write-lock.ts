import type { KitError, RedisLike } from "@kit/core";
import { type CloseOptions, defaultsOf, ObjectLife, resolve, TypedEmitter, watchEviction } from "@kit/core/toolkit";
import { Leaser, type LossReason, parseLease } from "@kit/core/leasing";
import { acquireRules, type ReadWriteLockOptions, readWriteLockRules } from "../options.js";
import { ReadWriteCommands, type Request } from "./commands.js";
import { ReadWriteLease, type WriteLease } from "./lease.js";
import { LockMode } from "./lock-mode.js";
import type { ResolvedReadWrite } from "./options.js";
import type { Held, Mode } from "./scripts/index.js";

const inspected = 10;

/** Events of a read/write lock object. To trace calls, use the diagnostics channels `kit:read-write-lock.*`. */
export interface ReadWriteLockEvents {
  /** A lease was granted, `waitedMs` milliseconds after the call. A reader has no fencing token. */
  readonly acquired: readonly [event: { name: string; mode: Mode; fencingToken: string | null; waitedMs: number }];
  /** An acquire was queued. `position` waiters are ahead of it; `holder` has the lease that ends last. */
  readonly waiting: readonly [event: { name: string; position: number; holder: string | undefined }];
  /** An acquire without `waitMs` has waited for 30 seconds. Emitted once per acquire, at the next heartbeat: up to six seconds later. */
  readonly stillWaiting: readonly [
    event: { name: string; position: number; holder: string | undefined; waitedMs: number },
  ];
  /** The server lost a waiter, or its grant expired before the message arrived. The waiter queues again, at the end. */
  readonly requeued: readonly [event: { name: string }];
  /** A lease was released. */
  readonly released: readonly [event: { name: string; mode: Mode; fencingToken: string | null }];
  /** A lease ended without a release. */
  readonly lost: readonly [event: { name: string; mode: Mode; fencingToken: string | null; reason: LossReason }];
  /** Same as the event of a lock: the server may drop keys when its memory is full. */
  readonly evictable: readonly [event: { readonly policy: string }];
  /**
   * A background command failed. kit retries it if a retry can help. During an outage, waiters, renewals and releases together emit one
   * error. When commands work again, they emit one with the code `KIT_RECOVERED`.
   */
  readonly error: readonly [error: KitError];
}

/** A lock's state at one instant. It may have changed by the time you read it. */
export interface ReadWriteInspection {
  readonly state: "free" | "read" | "write";
  /** The number of holders: one writer, or any number of readers. */
  readonly holding: number;
  /** The holders whose leases end last, up to ten, and the time left of each lease in milliseconds. */
  readonly holders: readonly { readonly holder: string; readonly msLeft: number }[];
  /** The newest fencing token ever granted, or null if none is stored: see `keepMs`. */
  readonly fencingToken: string | null;
  /** The number of waiters, including dead ones that were not dropped yet. */
  readonly waiters: number;
  /** The first ten waiters. */
  readonly queue: readonly { readonly mode: Mode; readonly holder: string }[];
}

/** The fields of a lease in events. */
const factsOf = ({
  request,
  fencingToken,
}: {
  request: { name: string; resolved: { mode: Mode } };
  fencingToken: string;
}) => ({
  name: request.name,
  mode: request.resolved.mode,
  fencingToken: fencingToken || null,
});

/**
 * Named locks on one Redis. At any instant of the server's clock, one writer or any number of readers hold a lock, as long as the server
 * keeps its data. Create it with {@link createReadWriteLock}.
 *
 * Callers are served in the order of their arrival. Consecutive readers are granted together, and no reader passes a waiting writer. So
 * neither side starves.
 */
export class ReadWriteLock extends TypedEmitter<ReadWriteLockEvents> implements AsyncDisposable {
  /** Holds a lock together with other readers. */
  readonly read: LockMode<ReadWriteLease>;
  /** Holds a lock alone, with a fencing token. */
  readonly write: LockMode<WriteLease>;
  readonly #defaults: ResolvedReadWrite;
  readonly #life: ObjectLife;
  readonly #commands: ReadWriteCommands;
  readonly #leaser: Leaser<ResolvedReadWrite, Held, ReadWriteLease>;

  /** Created by this package only. */
  constructor(redis: RedisLike, options: ReadWriteLockOptions) {
    super();
    const settings = resolve("options", options, readWriteLockRules);
    this.#defaults = {
      ...defaultsOf(acquireRules, settings),
      lockDelayMs: settings.lockDelayMs,
      mode: "read",
    };
    this.#life = new ObjectLife(redis, settings, "The read/write lock");
    const life = this.#life;
    const commands = new ReadWriteCommands(life.context, settings);
    this.#commands = commands;
    const changes = {
      downgrade: (request: Request, newest: string) =>
        life.track(commands.downgrade(request, newest, this.#leaser.commands.shared)),
      upgrade: (request: Request) => life.track(commands.upgrade(request)),
      confirmUpgrade: (request: Request, signal: AbortSignal) => life.track(commands.confirmUpgrade(request, signal)),
    };
    this.#leaser = new Leaser(life, commands, settings, (held) => new ReadWriteLease(held, changes), {
      acquired: (lease, waitedMs) => this.emit("acquired", { ...factsOf(lease), waitedMs }),
      queued: (name, { position, owner }) => this.emit("waiting", { name, position, holder: owner?.holder }),
      requeued: (name) => this.emit("requeued", { name }),
      stillWaiting: (name, position, { owner }, waitedMs) =>
        this.emit("stillWaiting", { name, position, holder: owner?.holder, waitedMs }),
      released: (lease) => this.emit("released", factsOf(lease)),
      lost: (lease, reason) => this.emit("lost", { ...factsOf(lease), reason }),
      error: (error) => this.emit("error", error),
      used: watchEviction(
        life.context,
        () => this.hasListeners("evictable"),
        (policy) => this.emit("evictable", { policy }),
      ),
    });
    this.read = new LockMode(this.#leaser, this.#defaults);
    this.write = new LockMode(this.#leaser, { ...this.#defaults, mode: "write" });
  }

  /**
   * Reads the state of a lock and changes nothing.
   *
   * @throws {KitUnavailableError} no server answered in time.
   */
  async inspect(name: string): Promise<ReadWriteInspection> {
    this.#life.assertOpen();
    const { fencingToken, holding, waiting, leases, queue } = await this.#commands.inspect(name, inspected);
    return {
      state: leases[0]?.mode ?? "free",
      holding,
      holders: leases.map(({ holder, msLeft }) => ({ holder, msLeft })),
      fencingToken,
      waiters: waiting,
      queue,
    };
  }

  /**
   * Continues a lease that another process (or object) handed over or serialized, in the same mode. kit renews the lease once, to check
   * that it is still held. After that its own `renew` setting applies.
   *
   * @throws {LockLostError} the lease is no longer held.
   * @throws {TypeError} `text` does not come from `lease.handOver()` or `lease.serialise()`.
   * @throws {KitUnavailableError} no server answered in time.
   */
  async resume(text: string): Promise<ReadWriteLease> {
    this.#life.assertOpen();
    const saved = parseLease<{ mode: Mode; fencingToken: string | null }>(
      "read-write-lock",
      text,
      ({ mode, fencingToken }) =>
        (mode === "read" && fencingToken === null) ||
        ((mode === "read" || mode === "write") && typeof fencingToken === "string" && /^\d+$/.test(fencingToken)),
    );
    const { leaseMs, renew, maxHoldMs, holder, mode } = saved;
    // A limit that is not in the text does not apply, even if this object has a default.
    const defaults = { ...this.#defaults, maxHoldMs: undefined };
    const resolved = { ...resolve("options", { leaseMs, renew, maxHoldMs, holder }, acquireRules, defaults), mode };
    return await this.#leaser.resume(saved, resolved, saved.fencingToken ?? "");
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
}

/**
 * Creates a read/write lock object. One object serves any number of lock names and callers. A lock of `createLock` with the same name is a
 * different lock.
 *
 * `redis` is a client from core's `connect()`, from ioredis, or from `fromNodeRedis()`. kit never closes it, blocks it or subscribes on it.
 * The first wait opens one more connection, for pushes, which closes with the last kit object on the client.
 *
 * @throws {TypeError | RangeError} `redis` or an option is invalid.
 *
 * @example
 * const prices = createReadWriteLock(redis);
 * await prices.read.using("prices", () => show());
 * await prices.write.using("prices", async (lease) => {
 *   await reprice(lease.fencingToken);
 * });
 */
export const createReadWriteLock = (redis: RedisLike, options: ReadWriteLockOptions = {}): ReadWriteLock =>
  new ReadWriteLock(redis, options);
