import { type ResolvedAcquire, type Grant, Lease as BaseLease, type LeaseKeeper } from "@kit/core/leasing";

/**
 * A lock, held: for a bounded time, which is renewed by itself until `release()`.
 *
 * Anything that can end it early (a silent server, lost data, a long stall of this process) aborts `signal`, at the latest when
 * the lease may have ended by our own clock. No signal can stop a process that is not running: pass `fencingToken` to the
 * resource you guard and let it refuse tokens older than the newest it has seen.
 *
 * The states: held → released (by `release()`), held → handed over (by `handOver()`), or held → lost (once, with a
 * reason). There is no way back.
 */
export class Lease extends BaseLease<ResolvedAcquire> {
  /**
   * A number that is larger than that of every earlier grant of this lock, in decimal digits; also across expiry,
   * restarts and (as far as the servers' clocks agree) failovers. It has up to 16 digits: compare as BigInt, or in Redis.
   */
  readonly fencingToken: string;

  /** @internal */
  constructor(
    keeper: LeaseKeeper<BaseLease<ResolvedAcquire>>,
    group: string,
    key: string,
    resolved: ResolvedAcquire,
    grant: Grant,
  ) {
    super(keeper, group, key, resolved, grant);
    this.fencingToken = grant.proof;
  }

  protected override particulars(): object {
    return { fencingToken: this.fencingToken };
  }
}
