import { type ClientContext, Deadline, isReplyError, newToken, reading } from "@kit/core/toolkit";
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
import { PermitLostError, SemaphoreQueueFullError, SemaphoreTimeoutError, SemaphoreWeightError } from "./errors.js";
import type { SemaphoreKeys } from "./keys.js";
import type { Limits, NewLimits, ResolvedPermit, SemaphoreSettings } from "./options.js";
import * as scripts from "./scripts/index.js";

const id = newToken();

type Request = LeaseRequest<ResolvedPermit>;
type Shared = Attempt["shared"];

/**
 * Also encodes `~`, which encodeURIComponent leaves: so the rows of tenants sort before the rows of suspended waiters, which start with
 * `|`.
 */
const encoded = (tenant: string): string => encodeURIComponent(tenant).replaceAll("~", "%7E");

/** A permit, or the request for one, as stored. */
const permitRecordOf = ({ token, resolved: { weight, tenant = "", holder } }: Request): string =>
  `${token}|${String(weight)}|${encoded(tenant)}|${holder}`;

/** The scripts of one semaphore, on its client, and its errors. `onLimits` receives the stored limits. */
export class SemaphoreCommands implements LeaseKind<ResolvedPermit, scripts.Usage> {
  readonly what = "semaphore";
  readonly id: string = id;
  readonly #context: ClientContext;
  readonly #keys: SemaphoreKeys;
  readonly #settings: SemaphoreSettings;
  readonly #onLimits: (stored: Limits) => void;

  constructor(
    context: ClientContext,
    keys: SemaphoreKeys,
    settings: SemaphoreSettings,
    onLimits: (stored: Limits) => void,
  ) {
    this.#context = context;
    this.#keys = keys;
    this.#settings = settings;
    this.#onLimits = onLimits;
  }

  keyOf(): string {
    return this.#keys.permits;
  }

  async acquire(
    request: Request,
    { inbox, notAfter, shared, deadlineMs, isWanted, signal }: Attempt,
  ): Promise<AcquireReply<scripts.Usage>> {
    const { name, token, resolved } = request;
    const { permits, permitsPerTenant: perTenant = "", maxWaiters } = this.#settings;
    const { priority } = resolved;
    const [leaseMs, grantMs] = [firstTermMs(resolved), pushedTermMs(resolved)];
    // One literal: spreading two objects into one costs microseconds.
    const terms = { leaseMs, notAfter, permits, perTenant, shared, priority, grantMs, aliveMs, maxWaiters, inbox };
    const args = { permitRecord: permitRecordOf(request), terms };
    const options = { deadlineMs, op: token, isWanted, signal };
    const run = (): ReturnType<typeof scripts.acquire.run> =>
      scripts.acquire.run(this.#context, this.#keys, args, options);
    let reply = await run();
    // Each call drops a bounded number of ended permits. Only when none are left does the reply mean full.
    while (reply.state === "unsettled") reply = await run();
    if (reply.state === "too-heavy") {
      this.#onLimits(reply);
      const most = Math.min(reply.permits, reply.permitsPerTenant ?? Infinity);
      throw new SemaphoreWeightError(name, resolved.weight, most);
    }
    if (reply.limits) this.#onLimits(reply.limits);
    return reply;
  }

  release(request: Request, { shared, signal }: Release): Promise<ReleaseReply> {
    const { deadlineMs } = this.#settings;
    const args = { permitRecord: permitRecordOf(request), shared };
    return scripts.release.run(this.#context, this.#keys, args, { deadlineMs, op: request.token, signal });
  }

  renew(renewals: readonly Renewal<ResolvedPermit>[], deadlineMs: number): Promise<RenewReply> {
    const permits = renewals.map(({ key }) => key);
    const terms = renewals.map(({ request, termMs }) => ({
      termMs,
      permitRecord: permitRecordOf(request),
    }));
    return scripts.renew.run(this.#context, { permits }, { terms }, { deadlineMs });
  }

  async heartbeat(
    _name: string,
    waiters: readonly Request[],
    inbox: string,
    shared: Shared,
  ): Promise<HeartbeatReply<scripts.Usage>> {
    const { deadlineMs, permits, permitsPerTenant = "" } = this.#settings;
    const permitRecords = waiters.map(permitRecordOf);
    const args = { shared, aliveMs, limit: permits, perTenant: permitsPerTenant, inbox, permitRecords };
    const options = { deadlineMs, operation: "semaphore.acquire" };
    const reply = await scripts.heartbeat.run(this.#context, this.#keys, args, options);
    this.#onLimits(reply);
    return reply;
  }

  inspect(first: number, tenant = ""): Promise<scripts.InspectReply> {
    return scripts.inspect.run(this.#context, this.#keys, { first, tenant: encoded(tenant) }, this.#settings);
  }

  /** Changes the limits, and grants permits to all waiters that fit then. */
  async resize(name: string, { permits, permitsPerTenant }: NewLimits, shared: Shared): Promise<void> {
    const { permits: first, permitsPerTenant: firstPerTenant = "" } = this.#settings;
    const perTenant = permitsPerTenant === null ? "-" : (permitsPerTenant ?? "");
    const args = { shared, limit: permits ?? "", perTenant, first, firstPerTenant };
    const go = (from: string, notAfter = 0, askedAt = 0): Promise<scripts.Resized> =>
      scripts.resize.run(this.#context, this.#keys, { ...args, from, notAfter, askedAt }, this.#settings);
    // The lower bound of the server's time: a repeat must not count as newer than a change that was requested after this one.
    const begin = (notAfter: number, at: number): Promise<scripts.Resized> =>
      go("", notAfter, Math.max(0, this.#clock.leastMsAt(at) ?? 0));
    const { executor } = this.#context;
    const [startedAt, { connectionEpoch }] = [performance.now(), executor];
    let resized = await begin(await this.#endOfCall(name), startedAt);
    let mayBeMade = false;
    while (resized.from === undefined && resized.refused) {
      // A newer change was requested during this call. It applies, whether or not an earlier try of this call ran before it.
      if (mayBeMade && resized.refused === "superseded") return;
      // The server's clock differs from our estimate, which is renewed. If nothing was sent twice, this change has not been made yet.
      this.#clock.reset();
      const notAfter = await this.#endOfCall(name);
      mayBeMade = executor.connectionEpoch !== connectionEpoch;
      resized = await begin(notAfter, mayBeMade ? startedAt : performance.now());
    }
    while (resized.from !== undefined) resized = await go(resized.from);
    // Later calls only grant: another call may have set other limits meanwhile.
    let { isMore } = resized;
    while (isMore) isMore = (await this.heartbeat(name, [], "-", shared)).msLeft === -2;
  }

  /** The clock of the node that serves this semaphore. */
  get #clock(): ReturnType<ClientContext["clockOf"]> {
    return this.#context.clockOf(this.#keys.permits);
  }

  /** The deadline, by the server's clock, of a call that starts now; 0 if that clock is unknown. */
  async #endOfCall(name: string): Promise<number> {
    const { deadlineMs } = this.#settings;
    const sentAt = performance.now();
    const known = this.#clock.serverMsAt(sentAt + deadlineMs);
    if (known !== undefined) return known;
    const call = reading(`semaphore.resize of ${name}`, Deadline.in(deadlineMs));
    try {
      const [seconds, micros] = ((await this.#context.executor.run("TIME", [], call)) as unknown[]).map(Number);
      this.#clock.observe(sentAt, Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000));
    } catch (error) {
      if (!isReplyError(error)) throw error;
    }
    return this.#clock.serverMsAt(performance.now() + deadlineMs) ?? 0;
  }

  timeoutError(
    { name, resolved: { waitMs, tenant } }: Request,
    seen: scripts.Usage | undefined,
    cause?: unknown,
  ): SemaphoreTimeoutError {
    return new SemaphoreTimeoutError(name, { waitMs, tenant }, seen, cause);
  }

  queueFullError(name: string): SemaphoreQueueFullError {
    return new SemaphoreQueueFullError(name, this.#settings.maxWaiters);
  }

  lostError(name: string, reason: LossReason): PermitLostError {
    return new PermitLostError(name, reason);
  }
}
