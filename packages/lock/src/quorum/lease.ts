import { type HeldLease, Lease } from "@kit/core/leasing";

/**
 * A lock that is held on a quorum of servers: a right for a bounded time, renewed automatically until `release()`. Each renewal also
 * writes it anew on servers that have lost it.
 *
 * An early end (too few servers answer, a long stall of this process) aborts `signal`, at the latest when the lease may have ended
 * by this process's clock. No signal can stop a process that is not running, and there is no fencing token: if two holders at
 * once would do harm, the resource itself must refuse the second.
 *
 * The states: held → released (by `release()`), held → handed over (by `handOver()`), or held → lost (once, with a reason). There is
 * no way back.
 */
export class QuorumLease extends Lease {
  readonly #checkLength: (leaseMs: number) => void;

  /** @internal */
  constructor(held: HeldLease, checkLength: (leaseMs: number) => void) {
    super(held);
    this.#checkLength = checkLength;
  }

  /**
   * Makes the lease last `leaseMs` from now, and sets the length for later renewals. It never creates a lease that is over. One
   * round trip to all servers. `maxHoldMs` still ends the lease.
   *
   * A shorter length counts for this handle at once. The servers keep the longer one, until a release.
   *
   * @throws {LockLostError} it is lost, released or handed over.
   * @throws {QuorumError} too few servers answered: then it counts as held until its former end or for `leaseMs`, whichever is
   * shorter.
   * @throws {TypeError | RangeError} `leaseMs` is not an integer from 10 ms to a day, or longer than `restartGuardMs`.
   */
  override async extend(leaseMs: number = this.leaseMs): Promise<void> {
    this.#checkLength(leaseMs);
    await super.extend(leaseMs);
  }

  protected override particulars(): object {
    return {};
  }
}
