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
 * If the lease ends early (a silent server, lost data, a long stall of this process), `signal` aborts. It aborts at the latest when the
 * lease may have ended by this process's clock. No signal can stop a process that is not running. So pass a writer's `fencingToken` to the
 * guarded resource, and let the resource reject tokens older than the newest it has seen.
 *
 * States: held → released (by `release()`), held → handed over (by `handOver()`), or held → lost (once, with a reason). These are final.
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

  /** Whether the lease is for reading, shared with other readers, or for writing, alone. */
  get mode(): Mode {
    return this.#held.request.resolved.mode;
  }

  /**
   * A decimal number, larger than the token of every earlier writer of this lock, even across expiry and restarts. Null if this lease was
   * never a writer's. It stays after a downgrade. After lost data, and after `keepMs` without a writer, this holds if the servers' clocks
   * agree. It has up to 16 digits: compare as BigInt, or in Redis.
   */
  get fencingToken(): string | null {
    return this.#held.fencingToken || null;
  }

  /**
   * Turns a writer's lease into a reader's in one step, with the same end, so that others can read. It waits for nothing, and no writer can
   * come in between. The readers that wait before the next writer get the lock.
   *
   * As soon as you call it, this lease counts as a reader's here. A reader's lease stays as it is.
   *
   * @throws {LockLostError} the lease is lost, released or handed over.
   * @throws {KitError} no reply in time. Call it again, or release the lease: others may still be locked out.
   */
  async downgrade(): Promise<void> {
    this.assertHeld();
    await this.#downgrade(this.#isUnsure ? "" : this.#held.fencingToken || "0");
  }

  /**
   * Turns a reader's lease into a writer's, if it is the only lease of the lock. What you have read stays true. Resolves with true
   * if the lease is a writer's now; it then has a new `fencingToken`. It never waits, because two readers that wait for each other would wait forever.
   * Writers in the queue are served later. With `durable` the lease is a writer's only when replicas or disks have the upgrade.
   *
   * @throws {LockLostError} the lease is lost, released or handed over.
   * @throws {LockNotDurableError} the upgrade did not reach the replicas or disks that `durable` requires. The lease is a reader's again.
   * @throws {KitError} no reply in time. The lease counts as a reader's here. Call it again, or `downgrade()`, or release the lease: others
   * may be locked out.
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
