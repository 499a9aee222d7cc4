import { type HeldLease, Lease as BaseLease } from "@kit/core/leasing";

/**
 * A held lock: the right to hold it for a limited time. kit renews the lease automatically until `release()`.
 *
 * If the lease ends early (the server is silent or lost data, or this process stalled), `signal` aborts: at the latest when, by this
 * process's clock, the lease may have ended. No signal can stop a process that is not running. So pass `fencingToken` to the guarded
 * resource, and let the resource reject tokens older than the newest it has seen.
 *
 * A held lease becomes released (`release()`), handed over (`handOver()`) or lost (with a reason). These three states are final.
 */
export class Lease extends BaseLease {
  /**
   * A decimal number, larger than the token of every earlier grant of this lock, even across expiry and restarts. After lost data or
   * `keepMs` without a grant, it is larger only if the servers' clocks agree. It has up to 16 digits: compare it as a BigInt, or in Redis.
   */
  readonly fencingToken: string;

  /** @internal */
  constructor(held: HeldLease) {
    super(held);
    this.fencingToken = held.fencingToken;
  }

  protected override particulars(): object {
    return { fencingToken: this.fencingToken };
  }
}
