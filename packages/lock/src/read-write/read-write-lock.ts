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

/** Events of a read/write lock object; for tracing use the diagnostics channels `kit:read-write-lock.*`. */
export interface ReadWriteLockEvents {
  /** A lease was granted, `waitedMs` milliseconds after the call. A reader's has no fencing token. */
  readonly acquired: readonly [event: { name: string; mode: Mode; fencingToken: string | null; waitedMs: number }];
  /** An acquire was queued behind `position` others; `holder` has the lease that ends last. */
  readonly waiting: readonly [event: { name: string; position: number; holder: string | undefined }];
  /** An acquire without `waitMs` has waited for 30 seconds. Once for each, at the next heartbeat: up to six seconds later. */
  readonly stillWaiting: readonly [
    event: { name: string; position: number; holder: string | undefined; waitedMs: number },
  ];
  /** The server had lost a waiter, or its grant expired before the message arrived: the waiter queues again, at the end. */
  readonly requeued: readonly [event: { name: string }];
  /** A lease was released. */
  readonly released: readonly [event: { name: string; mode: Mode; fencingToken: string | null }];
  /** A lease ended without a release. */
  readonly lost: readonly [event: { name: string; mode: Mode; fencingToken: string | null; reason: LossReason }];
  /** As the event of a lock: the server may drop keys when its memory is full. */
  readonly evictable: readonly [event: { readonly policy: string }];
  /**
   * A command in the background failed; it is retried where a retry can help. While an outage lasts, waiters, renewals and releases emit
   * one error, and one with the code `KIT_RECOVERED` when commands work again.
   */
  readonly error: readonly [error: KitError];
}

/** A lock's state at one instant. It may have changed by the time it is read. */
export interface ReadWriteInspection {
  readonly state: "free" | "read" | "write";
  /** How many hold it: one writer, or any number of readers. */
  readonly holding: number;
  /** The holders whose leases end last, ten at most, and how many milliseconds these have left. */
  readonly holders: readonly { readonly holder: string; readonly msLeft: number }[];
  /** The newest fencing token ever granted; null when none is stored: see `keepMs`. */
  readonly fencingToken: string | null;
  /** How many wait, including dead waiters that were not dropped yet. */
  readonly waiters: number;
  /** The first ten in the queue. */
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
 * Locks by name, on one Redis, each held by one writer or by any number of readers at any instant of the server's clock, as long
 * as the server keeps its data. Made by {@link createReadWriteLock}.
 *
 * Callers are served in the order of their arrival: readers that follow each other are granted together, and no reader passes a
 * writer that waits. So neither side starves.
 */
export class ReadWriteLock extends TypedEmitter<ReadWriteLockEvents> implements AsyncDisposable {
  /** Holds a lock beside other readers. */
  readonly read: LockMode<ReadWriteLease>;
  /** Holds a lock alone, with a fencing token. */
  readonly write: LockMode<WriteLease>;
  readonly #defaults: ResolvedReadWrite;
  readonly #life: ObjectLife;
  readonly #commands: ReadWriteCommands;
  readonly #leaser: Leaser<ResolvedReadWrite, Held, ReadWriteLease>;

  /** Made by this package only. */
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
   * Continues a lease that another process (or object) handed over or serialised, in the mode that it had then. It is renewed once, which
   * shows that it is still held, and then according to its own `renew`.
   *
   * @throws {LockLostError} it is no longer held.
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
    // A limit that is not in the text does not apply, whatever this object's own default is.
    const defaults = { ...this.#defaults, maxHoldMs: undefined };
    const resolved = { ...resolve("options", { leaseMs, renew, maxHoldMs, holder }, acquireRules, defaults), mode };
    return await this.#leaser.resume(saved, resolved, saved.fencingToken ?? "");
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
}

/**
 * Makes a read/write lock object. Locks have names; one object serves any number of them, and any number of callers. A lock of
 * `createLock` with the same name is another lock.
 *
 * `redis` is a client of core's `connect()`, of ioredis, or of `fromNodeRedis()`. It is borrowed: never closed, blocked or
 * subscribed. The first wait opens one more connection, for pushes; the last `close()` on the client ends it.
 *
 * @throws {TypeError | RangeError} `redis` or an option is not what it should be.
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
