import { type HeldLease, Lease } from "@kit/core/leasing";

/**
 * A held compatible lock: the right to hold it for a limited time. kit renews the lease automatically until `release()`. Its key contains
 * only `token`.
 *
 * If the lease ends early (a silent server, lost data, a long stall of this process), `signal` aborts. It aborts at the latest when the
 * lease may have ended by this process's clock. No signal can stop a process that is not running, and there is no fencing token with which
 * a resource could reject it.
 *
 * States: held → released (by `release()`), held → handed over (by `handOver()`), or held → lost (once, with a reason). These are final.
 */
export class CompatibleLease extends Lease {
  /** @internal */
  constructor(held: HeldLease) {
    super(held);
  }

  protected override particulars(): object {
    return {};
  }
}
