import type { KitError, RedisLike } from "@kit/core";
import { Deadline, isReplyError, reading } from "@kit/core/toolkit";
import {
  type AcquireReply,
  aliveMs,
  type Attempt,
  type HeartbeatReply,
  firstTermMs,
  type Giving,
  LeasingCommands,
  type LossReason,
  pushedTermMs,
  type ReleaseReply,
  type Renewal,
  type RenewState,
} from "@kit/core/leasing";
import { PermitLostError, SemaphoreQueueFullError, SemaphoreTimeoutError, SemaphoreWeightError } from "./errors.js";
import { type SemaphoreKeys, semaphoreKeys } from "./keys.js";
import type { Limits, NewLimits, ResolvedPermit, SemaphoreSettings } from "./options.js";
import type { Permit } from "./permit.js";
import * as scripts from "./scripts/index.js";

/** The facts that the commands report to the semaphore. */
export interface CommandEvents {
  readonly error: (error: KitError) => void;
  /** The limits that are stored. */
  readonly limits: (stored: Limits) => void;
}

/** Also what encodeURIComponent leaves: a tenant's rows stand before those of waiters that are suspended, which begin with |. */
const encoded = (tenant: string): string => encodeURIComponent(tenant).replaceAll("~", "%7E");

/** The server's record of a permit, besides its token. */
interface PermitFacts {
  readonly weight: number;
  readonly tenant?: string | null | undefined;
  readonly holder: string;
}

/** A permit as it is stored: its holder, its weight and its tenant. */
const permitRecordOf = (token: string, { weight, tenant, holder }: PermitFacts): string =>
  `${token}|${String(weight)}|${encoded(tenant ?? "")}|${holder}`;

/** The scripts of one semaphore, on its client. */
export class SemaphoreCommands extends LeasingCommands<ResolvedPermit, scripts.Usage, Permit> {
  readonly #name: string;
  readonly #keys: SemaphoreKeys;
  readonly #limits: Limits;
  readonly #events: CommandEvents;

  constructor(redis: RedisLike, name: string, settings: SemaphoreSettings, events: CommandEvents) {
    super(redis, "semaphore", settings, events.error);
    this.#name = name;
    this.#limits = settings;
    this.#events = events;
    try {
      this.#keys = semaphoreKeys(this.context.prefix, name);
    } catch (error) {
      this.context.detach();
      throw error;
    }
  }

  override keyOf(): string {
    return this.#keys.permits;
  }

  override timeoutError(
    name: string,
    { waitMs, tenant }: ResolvedPermit,
    seen: scripts.Usage | undefined,
    cause?: unknown,
  ): SemaphoreTimeoutError {
    return new SemaphoreTimeoutError(name, { waitMs, tenant }, seen, cause);
  }

  override queueFullError(name: string): SemaphoreQueueFullError {
    return new SemaphoreQueueFullError(name, this.settings.maxWaiters);
  }

  override lostError(name: string, reason: LossReason): PermitLostError {
    return new PermitLostError(name, reason);
  }

  inspect(first: number, tenant = ""): Promise<scripts.InspectReply> {
    return scripts.inspect.run(this.context, this.#keys, { first, tenant: encoded(tenant) }, this.settings);
  }

  /** Changes the limits, and lets in all that fit then. */
  async resize({ permits, permitsPerTenant }: NewLimits): Promise<void> {
    const { permits: first, permitsPerTenant: firstPerTenant = "" } = this.#limits;
    const perTenant = permitsPerTenant === null ? "-" : (permitsPerTenant ?? "");
    const args = { shared: this.shared, limit: permits ?? "", perTenant, first, firstPerTenant };
    const go = (from: string, notAfter = 0): Promise<scripts.Resized> => {
      const askedAt = Math.max(0, notAfter - this.settings.deadlineMs);
      return scripts.resize.run(this.context, this.#keys, { ...args, from, notAfter, askedAt }, this.settings);
    };
    let resized = await go("", await this.#endOfCall());
    while (resized.from === undefined && resized.isLate) {
      // Our picture of the server's clock was wrong, or another change was stored meanwhile: this one comes after it.
      this.clockOf(this.#name).reset();
      resized = await go("", await this.#endOfCall());
    }
    while (resized.from !== undefined) resized = await go(resized.from);
    // The rest is only granted: somebody may have set other limits meanwhile.
    let { isMore } = resized;
    while (isMore) isMore = (await this.heartbeat(this.#name, [])).msLeft === -2;
  }

  /** The deadline of a call that begins now, by the server's clock; 0 where that cannot be asked for. */
  async #endOfCall(): Promise<number> {
    const { deadlineMs } = this.settings;
    const sentAt = performance.now();
    const known = this.clockOf(this.#name).serverMsAt(sentAt + deadlineMs);
    if (known !== undefined) return known;
    const call = reading(`semaphore.resize of ${this.#name}`, Deadline.in(deadlineMs));
    try {
      const [seconds, micros] = ((await this.context.executor.run("TIME", [], call)) as unknown[]).map(Number);
      this.clockOf(this.#name).observe(sentAt, Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000));
    } catch (error) {
      if (!isReplyError(error)) throw error;
    }
    return this.clockOf(this.#name).serverMsAt(performance.now() + deadlineMs) ?? 0;
  }

  protected override async sendAcquire(
    name: string,
    token: string,
    resolved: ResolvedPermit,
    inbox: string,
    notAfter: number,
    { deadlineMs, isWanted, signal }: Attempt,
  ): Promise<AcquireReply<scripts.Usage>> {
    const { permits, permitsPerTenant: perTenant = "" } = this.#limits;
    const { maxWaiters } = this.settings;
    const { priority } = resolved;
    const [leaseMs, grantMs] = [firstTermMs(resolved), pushedTermMs(resolved)];
    const { shared } = this;
    // One literal: spreading two objects into one costs microseconds.
    const terms = { leaseMs, notAfter, permits, perTenant, shared, priority, grantMs, aliveMs, maxWaiters, inbox };
    const args = { permitRecord: permitRecordOf(token, resolved), terms };
    const options = { deadlineMs, op: token, isWanted, signal };
    const reply = await scripts.acquire.run(this.context, this.#keys, args, options);
    if (reply.state === "too-heavy") {
      this.#events.limits(reply);
      const most = Math.min(reply.permits, reply.permitsPerTenant ?? Infinity);
      throw new SemaphoreWeightError(name, resolved.weight, most);
    }
    if (reply.limits) this.#events.limits(reply.limits);
    return reply;
  }

  protected override sendRelease(
    _name: string,
    token: string,
    resolved: ResolvedPermit,
    _giving: Giving,
    signal: AbortSignal | undefined,
  ): Promise<ReleaseReply> {
    const { deadlineMs } = this.settings;
    const args = { permitRecord: permitRecordOf(token, resolved), shared: this.shared };
    return scripts.release.run(this.context, this.#keys, args, { deadlineMs, op: token, signal });
  }

  protected override sendRenew(
    renewals: readonly Renewal<Permit>[],
    promptUntil: number,
    deadlineMs: number,
  ): Promise<{ readonly now: number; readonly states: readonly RenewState[] }> {
    return scripts.renew.run(
      this.context,
      { permits: renewals.map(({ key }) => key) },
      {
        promptUntil,
        terms: renewals.map(({ lease, sign, termMs }) => ({
          sign,
          termMs,
          permitRecord: permitRecordOf(lease.token, lease),
        })),
      },
      { deadlineMs },
    );
  }

  protected override async sendHeartbeat(
    _name: string,
    waiters: readonly { readonly token: string; readonly resolved: ResolvedPermit }[],
    inbox: string,
  ): Promise<HeartbeatReply<scripts.Usage>> {
    const { deadlineMs } = this.settings;
    const { permits, permitsPerTenant = "" } = this.#limits;
    const permitRecords = waiters.map(({ token, resolved }) => permitRecordOf(token, resolved));
    const args = { shared: this.shared, aliveMs, limit: permits, perTenant: permitsPerTenant, inbox, permitRecords };
    const options = { deadlineMs, operation: "semaphore.acquire" };
    const reply = await scripts.heartbeat.run(this.context, this.#keys, args, options);
    this.#events.limits(reply);
    return reply;
  }
}
