import { lowerBoundMs } from "../toolkit/index.js";
import { firstTermMs, type LeaseRequest } from "./kind.js";
import type { ResolvedLease } from "./options.js";

/** A grant, as the server and our clock see it. */
export interface Grant<Resolved extends ResolvedLease = ResolvedLease> {
  readonly request: LeaseRequest<Resolved>;
  /** Empty where the package has none. */
  readonly fencingToken: string;
  /** For how long the server granted it. */
  readonly grantedMs: number;
  /** When it may have ended, on our monotonic clock. */
  readonly deadlineAt: number;
}

/** The grant in the reply to a command that was sent at `sentAt`; `msLeft` undefined: all that the request asked for. */
export const grantOf = <Resolved extends ResolvedLease>(
  request: LeaseRequest<Resolved>,
  { msLeft = firstTermMs(request.resolved), fencingToken }: { msLeft?: number | undefined; fencingToken: string },
  sentAt: number,
): Grant<Resolved> => ({ request, fencingToken, grantedMs: msLeft, deadlineAt: sentAt + lowerBoundMs(msLeft) });
