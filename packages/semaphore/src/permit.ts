import { type HeldLease, Lease } from "@kit/core/leasing";
import type { ResolvedPermit } from "./options.js";

/**
 * A held permit: the right to use part of the limit for a limited time. kit renews it automatically until `release()`.
 *
 * If the permit ends early (a silent server, lost data, a long stall of this process), `signal` aborts. It aborts at the latest when the
 * permit may have ended by this process's clock. No signal can stop a process that is not running. A process that slept past its permit may
 * work at the same time as the next holder for a moment.
 *
 * States: held → released (by `release()`), held → handed over (by `handOver()`), or held → lost (once, with a reason). These are final.
 */
export class Permit extends Lease {
  /** How many units of the semaphore's limit the permit uses. */
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
