import { lowerBoundMs } from "../toolkit/index.js";
import { firstTermMs, type LeaseRequest } from "./kind.js";
import type { ResolvedLease } from "./options.js";

/** A grant, with its times on the server's clock and on the local clock. */
export interface Grant<Resolved extends ResolvedLease = ResolvedLease> {
  readonly request: LeaseRequest<Resolved>;
  /** Empty if the package has no fencing tokens. */
  readonly fencingToken: string;
  /** The granted length, in milliseconds. */
  readonly grantedMs: number;
  /** When it may have ended, on the local monotonic clock. */
  readonly deadlineAt: number;
  /**
   * Whether the server has confirmed it. A lease that is resumed from its text is not confirmed yet.
   *
   * @default true
   */
  readonly isConfirmed?: boolean;
}

/** The part of a kept lease that its holder may use, in milliseconds. The server keeps the lease for `keptMs`. */
export const heldMs = ({ lockDelayMs = 0 }: ResolvedLease, keptMs: number): number => keptMs - lockDelayMs;

/**
 * The grant in the reply to a command that was sent at `sentAt`. If `msLeft` is undefined, it has the full length of the request.
 */
export const grantOf = <Resolved extends ResolvedLease>(
  request: LeaseRequest<Resolved>,
  { msLeft, fencingToken }: { msLeft?: number | undefined; fencingToken: string },
  sentAt: number,
): Grant<Resolved> => {
  const { resolved } = request;
  const grantedMs = msLeft === undefined ? firstTermMs(resolved) : heldMs(resolved, msLeft);
  return { request, fencingToken, grantedMs, deadlineAt: sentAt + lowerBoundMs(grantedMs) };
};
