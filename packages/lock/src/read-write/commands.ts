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
import { confirmer, lookedUp } from "../confirm.js";
import { LockLostError, LockNotDurableError, LockQueueFullError, LockTimeoutError } from "../index.js";
import { type ReadWriteKeys, readWriteKeys } from "../keys.js";
import { keepTerm, type ReadWriteLockSettings } from "../options.js";
import type { ResolvedReadWrite } from "./options.js";
import * as scripts from "./scripts/index.js";

const id = newToken();

export type Request = LeaseRequest<ResolvedReadWrite>;

/** A lease, or the request for one, as stored. */
const recordOf = ({ token, resolved: { mode, holder } }: Request): string =>
  `${mode === "read" ? "r" : "w"}|${token}|${holder}`;

/** The scripts and errors of one read/write lock object, on its client. */
export class ReadWriteCommands implements LeaseKind<ResolvedReadWrite, scripts.Held> {
  readonly what = "read-write-lock";
  readonly id: string = id;
  readonly confirm: LeaseKind<ResolvedReadWrite, scripts.Held>["confirm"];
  readonly #context: ClientContext;
  readonly #settings: ReadWriteLockSettings;
  readonly #keysOf: (name: string) => ReadWriteKeys;

  constructor(context: ClientContext, settings: ReadWriteLockSettings) {
    this.#context = context;
    this.#settings = settings;
    this.#keysOf = readWriteKeys(context.prefix);
    this.confirm = confirmer<ResolvedReadWrite>(
      context,
      settings,
      (name) => this.keyOf(name),
      (scope, request, lease) =>
        scope.run(scripts.renew, { leases: [lease] }, { terms: [{ termMs: 0, record: recordOf(request) }] }),
      (name, why) => new LockNotDurableError(name, why),
    );
  }

  keyOf(name: string): string {
    return this.#keysOf(name).leases;
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
    const args = { record: recordOf(request), terms };
    return scripts.acquire.run(this.#context, this.#keysOf(name), args, { deadlineMs, op: token, isWanted, signal });
  }

  release(request: Request, { shared, signal }: Release): Promise<ReleaseReply> {
    const { name, token } = request;
    const { deadlineMs } = this.#settings;
    const args = { record: recordOf(request), terms: { shared, keepMs: keepTerm(this.#settings) } };
    return scripts.release.run(this.#context, this.#keysOf(name), args, { deadlineMs, op: token, signal });
  }

  renew(renewals: readonly Renewal<ResolvedReadWrite>[], deadlineMs: number): Promise<RenewReply> {
    const leases = renewals.map(({ key }) => key);
    const terms = renewals.map(({ request, termMs }) => {
      const keptMs = termMs > 0 ? termMs + request.resolved.lockDelayMs : 0;
      return { termMs: keptMs, record: recordOf(request) };
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
    const args = { shared, aliveMs, inbox, records: waiters.map(recordOf) };
    const options = { deadlineMs, operation: "read-write-lock.acquire" };
    return scripts.heartbeat.run(this.#context, this.#keysOf(name), args, options);
  }

  /** Turns a lease into a reader's. Resolves with whether there is such a lease. */
  downgrade(request: Request, newest: string, shared: Attempt["shared"]): Promise<boolean> {
    const { deadlineMs } = this.#settings;
    const args = { record: recordOf(request), terms: { shared, newest } };
    return scripts.downgrade.run(this.#context, this.#keysOf(request.name), args, { deadlineMs, op: request.token });
  }

  /** Turns a lease into a writer's, if it is the only one. */
  upgrade(request: Request): Promise<scripts.UpgradeReply> {
    const { deadlineMs } = this.#settings;
    const args = { record: recordOf(request) };
    return scripts.upgrade.run(this.#context, this.#keysOf(request.name), args, { deadlineMs, op: request.token });
  }

  /**
   * Repeats an upgrade, and resolves with its reply when replicas or disks have it. If nothing has to be confirmed, it resolves
   * immediately, without a reply.
   *
   * @throws {LockNotDurableError} they do not have it in time.
   */
  async confirmUpgrade(request: Request, signal: AbortSignal): Promise<scripts.UpgradeReply | undefined> {
    const { durable, deadlineMs } = this.#settings;
    if (!durable) return undefined;
    const { name } = request;
    const keys = this.#keysOf(name);
    const patience = { deadlineMs, withinMs: Infinity, signal };
    // Reading the lease is not enough: after a failover it may be a reader's again.
    const { value, missing } = await lookedUp(this.#context, durable, keys.leases, patience, (scope) =>
      scope.run(scripts.upgrade, keys, { record: recordOf(request) }),
    );
    if (typeof value === "object" && missing !== undefined) throw new LockNotDurableError(name, missing);
    return value;
  }

  inspect(name: string, first: number): Promise<scripts.InspectReply> {
    return scripts.inspect.run(this.#context, this.#keysOf(name), { first }, this.#settings);
  }

  timeoutError(
    { name, resolved: { waitMs } }: Request,
    seen: scripts.Held | undefined,
    cause?: unknown,
  ): LockTimeoutError {
    return new LockTimeoutError(name, waitMs, seen?.owner?.holder, seen?.owner ? seen.leaseMsLeft : undefined, cause);
  }

  queueFullError(name: string): LockQueueFullError {
    return new LockQueueFullError(name, this.#settings.maxWaiters);
  }

  lostError(name: string, reason: LossReason, fencingToken: string): LockLostError {
    return new LockLostError(name, reason, fencingToken);
  }
}
