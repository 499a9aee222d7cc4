import type { KitError, RedisLike } from "@kit/core";
import { newToken } from "@kit/core/toolkit";
import {
  type AcquireReply,
  type ResolvedAcquire,
  aliveMs,
  type Attempt,
  type HeartbeatReply,
  firstTermMs,
  type Giving,
  type LeaserSettings,
  LeasingCommands,
  type LossReason,
  pushedTermMs,
  type ReleaseReply,
  type Renewal,
  type RenewState,
} from "@kit/core/leasing";
import { LockLostError, LockQueueFullError, LockTimeoutError } from "./errors.js";
import { type LockKeys, lockKeys } from "./keys.js";
import type { Lease } from "./lease.js";
import * as scripts from "./scripts/index.js";

/** In place of a fencing token: whichever lease there is. */
const byForce = "*";

/** The scripts of one lock object, on its client. */
export class LockCommands extends LeasingCommands<ResolvedAcquire, scripts.Held, Lease> {
  readonly #keysOf: (name: string) => LockKeys;

  constructor(redis: RedisLike, settings: LeaserSettings, onError: (error: KitError) => void) {
    super(redis, "lock", settings, onError);
    this.#keysOf = lockKeys(this.context.prefix);
  }

  override keyOf(name: string): string {
    return this.#keysOf(name).lease;
  }

  override timeoutError(
    name: string,
    { waitMs }: ResolvedAcquire,
    seen: scripts.Held | undefined,
    cause?: unknown,
  ): LockTimeoutError {
    const msLeft = seen?.owner ? (seen.msLeft === -1 ? Infinity : seen.msLeft) : undefined;
    return new LockTimeoutError(name, waitMs, seen?.owner?.holder, msLeft, cause);
  }

  override queueFullError(name: string): LockQueueFullError {
    return new LockQueueFullError(name, this.settings.maxWaiters);
  }

  override lostError(name: string, reason: LossReason, proof: string): LockLostError {
    return new LockLostError(name, reason, proof);
  }

  inspect(name: string, first: number): Promise<scripts.InspectReply> {
    return scripts.inspect.run(this.context, this.#keysOf(name), { first }, this.settings);
  }

  /** Takes the lock from its owner, if that still has it. */
  async forceRelease(name: string, { token, holder }: scripts.Owner): Promise<boolean> {
    const giving = { proof: byForce, op: newToken() };
    return (await this.release(name, token, { ...this.settings, ...once, holder }, giving)) === "released";
  }

  protected override sendAcquire(
    name: string,
    token: string,
    resolved: ResolvedAcquire,
    inbox: string,
    notAfter: number,
    { deadlineMs, isWanted, signal }: Attempt,
  ): Promise<AcquireReply<scripts.Held>> {
    const { maxWaiters } = this.settings;
    const [leaseMs, grantMs] = [firstTermMs(resolved), pushedTermMs(resolved)];
    const terms = { leaseMs, notAfter, shared: this.shared, grantMs, aliveMs, maxWaiters, inbox };
    const args = { owner: `${token}|${resolved.holder}`, terms };
    return scripts.acquire.run(this.context, this.#keysOf(name), args, { deadlineMs, op: token, isWanted, signal });
  }

  protected override sendRelease(
    name: string,
    token: string,
    { holder }: ResolvedAcquire,
    { proof, op = "" }: Giving,
    signal: AbortSignal | undefined,
  ): Promise<ReleaseReply> {
    const { deadlineMs } = this.settings;
    const args = { owner: `${token}|${holder}`, terms: { shared: this.shared, fencingToken: proof, op } };
    return scripts.release.run(this.context, this.#keysOf(name), args, { deadlineMs, op: token, signal });
  }

  protected override sendRenew(
    renewals: readonly Renewal<Lease>[],
    promptUntil: number,
    deadlineMs: number,
  ): Promise<{ readonly now: number; readonly states: readonly RenewState[] }> {
    return scripts.renew.run(
      this.context,
      { leases: renewals.map(({ key }) => key) },
      {
        promptUntil,
        terms: renewals.map(({ lease, sign, termMs }) => ({ sign, termMs, owner: `${lease.token}|${lease.holder}` })),
      },
      { deadlineMs },
    );
  }

  protected override sendHeartbeat(
    name: string,
    waiters: readonly { readonly token: string }[],
    inbox: string,
  ): Promise<HeartbeatReply<scripts.Held>> {
    const { deadlineMs } = this.settings;
    const args = { shared: this.shared, aliveMs, inbox, tokens: waiters.map(({ token }) => token) };
    return scripts.heartbeat.run(this.context, this.#keysOf(name), args, { deadlineMs, operation: "lock.acquire" });
  }
}

const once = { waitMs: 0, signal: undefined };
