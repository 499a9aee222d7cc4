import { type HeldLease, Lease } from "@kit/core/leasing";
import type { ResolvedPermit } from "./options.js";

/**
 * A held permit: a right for a bounded time, renewed automatically until `release()`.
 *
 * An early end (a silent server, lost data, a long stall of this process) aborts `signal`, at the latest when the permit may
 * have ended by this process's clock. No signal can stop a process that is not running: after it slept past its permit, it may
 * work at the same time as the next holder for a moment.
 *
 * The states: held → released (by `release()`), held → handed over (by `handOver()`), or held → lost (once, with a
 * reason). There is no way back.
 */
export class Permit extends Lease {
  /** How many units of the semaphore's limit it uses. */
  readonly weight: number;
  /** Its tenant; null outside of groups. */
  readonly tenant: string | null;

  /** @internal */
  constructor(held: HeldLease<ResolvedPermit>) {
    super(held);
    const { weight, tenant = null } = held.request.resolved;
    this.weight = weight;
    this.tenant = tenant;
  }

  protected override particulars(): object {
    return { weight: this.weight, tenant: this.tenant };
  }
}
