import { type HeldLease, Lease as BaseLease } from "@kit/core/leasing";

/**
 * A held lock: a right for a bounded time, renewed automatically until `release()`.
 *
 * An early end (a silent server, lost data, a long stall of this process) aborts `signal`, at the latest when the lease may have
 * ended by this process's clock. No signal can stop a process that is not running: pass `fencingToken` to the guarded resource,
 * and let it refuse tokens older than the newest it has seen.
 *
 * The states: held → released (by `release()`), held → handed over (by `handOver()`), or held → lost (once, with a
 * reason). There is no way back.
 */
export class Lease extends BaseLease {
  /**
   * A number in decimal digits, larger than the token of every earlier grant of this lock, also across expiry and restarts. After
   * lost data, and after `keepMs` without a grant, this holds if the servers' clocks agree. It has up to 16 digits: compare as
   * BigInt, or in Redis.
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
