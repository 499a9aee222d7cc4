import { type HeldLease, Lease } from "@kit/core/leasing";
import type { ResolvedPermit } from "./options.js";

/**
 * A held permit: the right to use part of the limit for a limited time. kit renews it automatically until `release()`.
 *
 * If the permit ends early (the server is silent or lost data, or this process stalled), `signal` aborts: at the latest when, by this
 * process's clock, the permit may have ended. No signal can stop a process that is not running. A process that was suspended past the end
 * of its permit may briefly work at the same time as the next holder.
 *
 * A held permit becomes released (`release()`), handed over (`handOver()`) or lost (with a reason). These three states are final.
 */
export class Permit extends Lease {
  /** How much of the semaphore's limit the permit uses. */
  readonly weight: number;
  /** The permit's tenant, or null outside of groups. */
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
