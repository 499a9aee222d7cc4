import { type HeldLease, Lease as BaseLease } from "@kit/core/leasing";

/**
 * A held lock: the right to hold it for a limited time. kit renews the lease automatically until `release()`.
 *
 * If the lease ends early (a silent server, lost data, a long stall of this process), `signal` aborts. It aborts at the latest when the
 * lease may have ended by this process's clock. No signal can stop a process that is not running. So pass `fencingToken` to the guarded
 * resource, and let the resource reject tokens older than the newest it has seen.
 *
 * States: held → released (by `release()`), held → handed over (by `handOver()`), or held → lost (once, with a reason). These are final.
 */
export class Lease extends BaseLease {
  /**
   * A decimal number, larger than the token of every earlier grant of this lock, even across expiry and restarts. After lost data, and
   * after `keepMs` without a grant, this holds if the servers' clocks agree. It has up to 16 digits: compare as BigInt, or in Redis.
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
