import { type HeldLease, Lease } from "@kit/core/leasing";

/**
 * A held compatible lock: the right to hold it for a limited time. kit renews the lease automatically until `release()`. Its key contains
 * only `token`.
 *
 * If the lease ends early (the server is silent or lost data, or this process stalled), `signal` aborts: at the latest when, by this
 * process's clock, the lease may have ended. No signal can stop a process that is not running, and without fencing tokens no resource can
 * reject its writes.
 *
 * A held lease becomes released (`release()`), handed over (`handOver()`) or lost (with a reason). These three states are final.
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
