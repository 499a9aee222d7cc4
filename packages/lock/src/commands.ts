import { type ClientContext, newToken } from "@kit/core/toolkit";
import {
  type AcquireReply,
  aliveMs,
  type Attempt,
  firstTermMs,
  type HeartbeatReply,
  type LeaseKind,
  type LeaseRequest,
  type LossReason,
  pushedTermMs,
  type Release,
  type ReleaseReply,
  type Renewal,
  type RenewReply,
} from "@kit/core/leasing";
import { confirmer } from "./confirm.js";
import { LockLostError, LockNotDurableError, LockQueueFullError, LockTimeoutError } from "./errors.js";
import { type LockKeys, lockKeys } from "./keys.js";
import { keepTerm, type LockSettings, type ResolvedLock } from "./options.js";
import * as scripts from "./scripts/index.js";

const id = newToken();

type Request = LeaseRequest<ResolvedLock>;

const ownerOf = ({ token, resolved: { holder } }: Request): string => `${token}|${holder}`;

/** The scripts and errors of one lock object, on its client. */
export class LockCommands implements LeaseKind<ResolvedLock, scripts.Held> {
  readonly what = "lock";
  readonly id: string = id;
  readonly confirm: LeaseKind<ResolvedLock, scripts.Held>["confirm"];
  readonly #context: ClientContext;
  readonly #settings: LockSettings;
  readonly #keysOf: (name: string) => LockKeys;

  constructor(context: ClientContext, settings: LockSettings) {
    this.#context = context;
    this.#settings = settings;
    this.#keysOf = lockKeys(context.prefix);
    this.confirm = confirmer<ResolvedLock>(
      context,
      settings,
      (name) => this.keyOf(name),
      (scope, request, lease) =>
        scope.run(scripts.renew, { leases: [lease] }, { terms: [{ termMs: 0, owner: ownerOf(request) }] }),
      (name, why) => new LockNotDurableError(name, why),
    );
  }

  keyOf(name: string): string {
    return this.#keysOf(name).lease;
  }

  acquire(
    request: Request,
    { inbox, notAfter, shared, deadlineMs, isWanted, signal }: Attempt,
  ): Promise<AcquireReply<scripts.Held>> {
    const { name, token, resolved } = request;
    const { maxWaiters } = this.#settings;
    const { lockDelayMs } = resolved;
    const [leaseMs, grantMs] = [firstTermMs(resolved) + lockDelayMs, pushedTermMs(resolved) + lockDelayMs];
    const terms = { leaseMs, notAfter, shared, grantMs, aliveMs, maxWaiters, inbox };
    const args = { owner: ownerOf(request), terms };
    return scripts.acquire.run(this.#context, this.#keysOf(name), args, { deadlineMs, op: token, isWanted, signal });
  }

  release(request: Request, { fencingToken, op = "", shared, signal }: Release): Promise<ReleaseReply> {
    const { name, token, resolved } = request;
    const { deadlineMs } = this.#settings;
    const terms = { shared, fencingToken, op, keepMs: keepTerm(this.#settings), minHoldMs: resolved.minHoldMs || "" };
    const args = { owner: ownerOf(request), terms };
    return scripts.release.run(this.#context, this.#keysOf(name), args, { deadlineMs, op: token, signal });
  }

  renew(renewals: readonly Renewal<ResolvedLock>[], deadlineMs: number): Promise<RenewReply> {
    const leases = renewals.map(({ key }) => key);
    const terms = renewals.map(({ request, termMs }) => {
      const keptMs = termMs > 0 ? termMs + request.resolved.lockDelayMs : 0;
      return { termMs: keptMs, owner: ownerOf(request) };
    });
    return scripts.renew.run(this.#context, { leases }, { terms }, { deadlineMs });
  }

  heartbeat(
    name: string,
    waiters: readonly Request[],
    inbox: string,
    shared: Attempt["shared"],
  ): Promise<HeartbeatReply<scripts.Held>> {
    const { deadlineMs } = this.#settings;
    const args = { shared, aliveMs, inbox, tokens: waiters.map(({ token }) => token) };
    return scripts.heartbeat.run(this.#context, this.#keysOf(name), args, { deadlineMs, operation: "lock.acquire" });
  }

  inspect(name: string, first: number): Promise<scripts.InspectReply> {
    return scripts.inspect.run(this.#context, this.#keysOf(name), { first }, this.#settings);
  }

  timeoutError(
    { name, resolved: { waitMs } }: Request,
    seen: scripts.Held | undefined,
    cause?: unknown,
  ): LockTimeoutError {
    const msLeft = seen?.owner ? (seen.msLeft === -1 ? Infinity : seen.msLeft) : undefined;
    return new LockTimeoutError(name, waitMs, seen?.owner?.holder, msLeft, cause);
  }

  queueFullError(name: string): LockQueueFullError {
    return new LockQueueFullError(name, this.#settings.maxWaiters);
  }

  lostError(name: string, reason: LossReason, fencingToken: string): LockLostError {
    return new LockLostError(name, reason, fencingToken);
  }
}
