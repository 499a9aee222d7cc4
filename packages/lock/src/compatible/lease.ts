import { type HeldLease, Lease } from "@kit/core/leasing";

/**
 * A compatible lock that is held: a right for a bounded time, renewed automatically until `release()`. Its key has `token`, and
 * nothing else.
 *
 * An early end (a silent server, lost data, a long stall of this process) aborts `signal`, at the latest when the lease may have
 * ended by this process's clock. No signal can stop a process that is not running, and there is no fencing token by which a
 * resource could refuse it.
 *
 * The states: held → released (by `release()`), held → handed over (by `handOver()`), or held → lost (once, with a
 * reason). There is no way back.
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
