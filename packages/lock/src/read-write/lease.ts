import { type HeldLease, Lease } from "@kit/core/leasing";
import type { Request } from "./commands.js";
import type { ResolvedReadWrite } from "./options.js";
import type { Mode, UpgradeReply } from "./scripts/index.js";

type Upgraded = Exclude<UpgradeReply, string>;

/** The commands that change a lease's mode. */
interface ModeChanges {
  readonly downgrade: (request: Request, newest: string) => Promise<boolean>;
  readonly upgrade: (request: Request) => Promise<UpgradeReply>;
  /** Rejects if replicas or disks do not have the upgrade. Resolves with undefined if they need not. */
  readonly confirmUpgrade: (request: Request, signal: AbortSignal) => Promise<UpgradeReply | undefined>;
}

/**
 * A read/write lock that is held for reading or writing: the right to hold it for a limited time. kit renews the lease automatically until
 * `release()`.
 *
 * If the lease ends early (the server is silent or lost data, or this process stalled), `signal` aborts: at the latest when, by this
 * process's clock, the lease may have ended. No signal can stop a process that is not running. So pass a writer's `fencingToken` to the
 * guarded resource, and let the resource reject tokens older than the newest it has seen.
 *
 * A held lease becomes released (`release()`), handed over (`handOver()`) or lost (with a reason). These three states are final.
 */
export class ReadWriteLease extends Lease {
  readonly #held: HeldLease<ResolvedReadWrite>;
  readonly #changes: ModeChanges;
  /** How many downgrades were sent. The reply to an upgrade that was sent earlier does not count. */
  #downgrades = 0;
  /** The latest downgrade that had a reply. */
  #downgraded = 0;
  /** Whether the last upgrade had no usable reply. The server may have given the lease a fencing token that this object does not have. */
  #isUnsure = false;

  /** @internal */
  constructor(held: HeldLease<ResolvedReadWrite>, changes: ModeChanges) {
    super(held);
    this.#held = held;
    this.#changes = changes;
  }

  /** Whether the lease is for reading (shared with other readers) or for writing (alone). */
  get mode(): Mode {
    return this.#held.request.resolved.mode;
  }

  /**
   * A decimal number, larger than the token of every earlier writer of this lock, even across expiry and restarts. After lost data or
   * `keepMs` without a writer, it is larger only if the servers' clocks agree. It has up to 16 digits: compare it as a BigInt, or in Redis.
   * Null if this lease was never a writer's. A downgrade keeps it.
   */
  get fencingToken(): string | null {
    return this.#held.fencingToken || null;
  }

  /**
   * Turns a writer's lease into a reader's lease that ends at the same time, so that others can read. It never waits, and no writer can get
   * the lock in between. All readers that wait ahead of the next writer get the lock.
   *
   * In this process, the lease counts as a reader's as soon as you call it. A reader's lease does not change.
   *
   * @throws {LockLostError} the lease is lost, released or handed over.
   * @throws {KitError} no reply in time. Call it again, or release the lease: other readers may still be locked out.
   */
  async downgrade(): Promise<void> {
    this.assertHeld();
    await this.#downgrade(this.#isUnsure ? "" : this.#held.fencingToken || "0");
  }

  /**
   * Turns a reader's lease into a writer's, if it is the only lease of the lock. Since no other writer came in between, what you have read
   * is still true. Resolves with true if the lease is a writer's now; it then has a new `fencingToken`. It never waits, because two readers
   * that wait for each other would wait forever. Writers in the queue are served later. With `durable`, the lease is a writer's only after
   * replicas or disks have confirmed the upgrade.
   *
   * @throws {LockLostError} the lease is lost, released or handed over.
   * @throws {LockNotDurableError} replicas or disks did not confirm the upgrade as `durable` requires. The lease is a reader's again.
   * @throws {KitError} no reply in time. The lease counts as a reader's in this process. Call it again, call `downgrade()`, or release the
   * lease: others may be locked out.
   */
  async tryUpgrade(): Promise<boolean> {
    this.assertHeld();
    // Without a reply, a downgrade may still be under way. After a reply, an upgrade has a token that late copies do not affect.
    if (this.#downgraded < this.#downgrades) await this.downgrade();
    const downgrades = this.#downgrades;
    this.#isUnsure = true;
    const wasWriter = this.mode === "write";
    let reply = await this.#changes.upgrade(this.#held.request);
    const isNew = !wasWriter && downgrades === this.#downgrades;
    if (typeof reply === "object" && isNew) reply = await this.#confirmed(reply);
    if (reply === "gone") this.#held.lose("expired");
    this.assertHeld();
    if (downgrades === this.#downgrades) {
      this.#isUnsure = false;
      if (typeof reply === "object") this.#become("write", reply.fencingToken);
    }
    return this.mode === "write";
  }

  /** Undoes an upgrade that is not confirmed. */
  async #confirmed(upgraded: Upgraded): Promise<UpgradeReply> {
    const downgrades = this.#downgrades;
    let reply;
    try {
      reply = await this.#changes.confirmUpgrade(this.#held.request, this.signal);
    } catch (error) {
      await this.#undo(upgraded);
      throw error;
    }
    // The server may have run it after a downgrade that was called meanwhile.
    if (typeof reply === "object" && downgrades !== this.#downgrades) await this.#undo(reply);
    return reply ?? upgraded;
  }

  /** If there is no reply, the next upgrade sends it again. */
  async #undo({ fencingToken }: Upgraded): Promise<void> {
    if (this.isHeld && this.mode === "read") await this.#downgrade(fencingToken).catch(() => undefined);
  }

  async #downgrade(newest: string): Promise<void> {
    const downgrade = ++this.#downgrades;
    this.#become("read");
    if (!(await this.#changes.downgrade(this.#held.request, newest))) this.#held.lose("expired");
    this.#downgraded = Math.max(this.#downgraded, downgrade);
    this.assertHeld();
  }

  #become(mode: Mode, fencingToken: string = this.#held.fencingToken): void {
    this.#held.change({ ...this.#held.request.resolved, mode }, fencingToken);
  }

  protected override particulars(): object {
    return { mode: this.mode, fencingToken: this.fencingToken };
  }
}

/** A lease that was acquired for writing. */
export type WriteLease = ReadWriteLease & { readonly fencingToken: string };
