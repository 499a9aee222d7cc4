import { type HeldLease, Lease } from "@kit/core/leasing";

/**
 * A lock that is held on a quorum of servers: the right to hold it for a limited time. kit renews the lease automatically until
 * `release()`. Each renewal also rewrites it on servers that have lost it.
 *
 * If the lease ends early (too few servers answer, or this process stalled), `signal` aborts: at the latest when, by this process's clock,
 * the lease may have ended. No signal can stop a process that is not running, and there is no fencing token. If two simultaneous holders
 * would do harm, the resource itself must reject the second.
 *
 * A held lease becomes released (`release()`), handed over (`handOver()`) or lost (with a reason). These three states are final.
 */
export class QuorumLease extends Lease {
  readonly #checkLength: (leaseMs: number) => void;

  /** @internal */
  constructor(held: HeldLease, checkLength: (leaseMs: number) => void) {
    super(held);
    this.#checkLength = checkLength;
  }

  /**
   * Makes the lease last `leaseMs` from now, and sets the length for later renewals. It never revives a lease that has ended. It costs one
   * round trip to all servers. `maxHoldMs` still ends the lease.
   *
   * A shorter length applies to this handle immediately. The servers keep the longer one until a release.
   *
   * @throws {LockLostError} the lease is lost, released or handed over.
   * @throws {QuorumError} too few servers answered. The lease counts as held until its previous end or for `leaseMs`, whichever is shorter.
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
