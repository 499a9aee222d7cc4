import { type ClientOptions, clientRules, integer, type Resolved, type RulesOf } from "@kit/core/toolkit";
import { type LeaseOptions, leaseRules } from "@kit/core/leasing";

/** Settings of a quorum lock object. Its lease options are the defaults of each acquire. */
export interface QuorumLockOptions extends LeaseOptions, ClientOptions {
  /**
   * How long one server has for its vote, in milliseconds: 1 to 60,000. A server that does not answer in time counts as unavailable. Until
   * it answers again, later calls don't wait for it.
   *
   * @default 5 % of the lease, at least 30
   */
  readonly nodeTimeoutMs?: number | undefined;
  /**
   * A server that started less than this many milliseconds ago does not vote for new leases, because it may have forgotten one. Range: 0 to
   * 86,400,000 (a day). Set it to at least the longest lease of any process that uses these servers. This object rejects longer leases. 0
   * turns the guard off, for servers that store each write on disk before they reply (`appendfsync always`).
   *
   * @default 60000
   */
  readonly restartGuardMs?: number | undefined;
}

export const quorumRules = {
  ...leaseRules,
  ...clientRules,
  nodeTimeoutMs: integer(1, 60_000),
  restartGuardMs: integer(0, 86_400_000, 60_000),
} satisfies RulesOf<QuorumLockOptions>;

export type QuorumSettings = Resolved<typeof quorumRules>;

/** How long one server has for its vote. */
export const nodeTimeoutOf = ({ nodeTimeoutMs }: QuorumSettings, leaseMs: number): number =>
  nodeTimeoutMs ?? Math.max(30, Math.ceil(leaseMs / 20));

/** @throws {RangeError} a server that restarts could forget the lease, and vote before it has ended. */
export const checkLength = ({ restartGuardMs }: QuorumSettings, leaseMs: number): void => {
  if (restartGuardMs > 0 && leaseMs > restartGuardMs)
    throw new RangeError(
      `Expected \`leaseMs\` to be at most \`restartGuardMs\`, ${String(restartGuardMs)}, got ${String(leaseMs)}`,
    );
};
