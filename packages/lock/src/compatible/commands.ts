import { keyspace } from "@kit/core";
import { type ClientContext, newToken } from "@kit/core/toolkit";
import {
  type AcquireReply,
  type Attempt,
  firstTermMs,
  type HeartbeatReply,
  type LeaseKind,
  type LeaseRequest,
  type LossReason,
  type Release,
  type ReleaseReply,
  type Renewal,
  type RenewReply,
  type ResolvedAcquire,
  type Seen,
} from "@kit/core/leasing";
import { LockLostError, LockQueueFullError, LockTimeoutError } from "../index.js";
import { renew } from "../scripts/index.js";
import * as scripts from "./scripts/index.js";

const id = newToken();

/** The average time between two tries of a waiting process. Other libraries poll every 10 ms (redis-semaphore) to 200 ms (redlock). */
const pollMs = 50;

const nextPollMs = (): number => pollMs * (0.5 + Math.random());

type Request = LeaseRequest<ResolvedAcquire>;

/** The settings that the commands use. */
interface Settings {
  readonly deadlineMs: number;
  readonly keyPrefix?: string | undefined;
}

/**
 * The scripts and errors of one compatible lock object, on its client. The server has no queue: a heartbeat of the waiters is a try for the
 * first of them.
 */
export class CompatibleCommands implements LeaseKind<ResolvedAcquire, Seen> {
  readonly what = "compatible-lock";
  readonly id: string = id;
  readonly #context: ClientContext;
  readonly #settings: Settings;
  readonly #checkName = keyspace("lock").base;

  constructor(context: ClientContext, settings: Settings) {
    this.#context = context;
    this.#settings = settings;
  }

  keyOf(name: string): string {
    this.#checkName(name);
    return `${this.#settings.keyPrefix ?? ""}${name}`;
  }

  async acquire(
    request: Request,
    { inbox, notAfter, deadlineMs, isWanted, signal }: Attempt,
  ): Promise<AcquireReply<Seen>> {
    const sending = { deadlineMs, isWanted, signal };
    const { state, now, msLeft } = await this.#try(request, notAfter, sending);
    if (state === "granted") return { state, now, msLeft, fencingToken: "" };
    if (state === "late") return { state, now };
    if (inbox === "") return { state, now, msLeft, position: -1 };
    return { state: "queued", now, msLeft: nextPollMs(), position: 0 };
  }

  release({ name, token }: Request, { signal }: Release): Promise<ReleaseReply> {
    const { deadlineMs } = this.#settings;
    return scripts.release.run(
      this.#context,
      { lease: this.keyOf(name) },
      { token },
      { deadlineMs, op: token, signal },
    );
  }

  renew(renewals: readonly Renewal<ResolvedAcquire>[], deadlineMs: number): Promise<RenewReply> {
    const leases = renewals.map(({ key }) => key);
    const terms = renewals.map(({ request, termMs }) => ({ termMs, owner: request.token }));
    return renew.run(this.#context, { leases }, { terms }, { deadlineMs });
  }

  async heartbeat(name: string, waiters: readonly Request[]): Promise<HeartbeatReply<Seen>> {
    const { deadlineMs } = this.#settings;
    const sentAt = performance.now();
    // A waiter that gives up is cancelled immediately: an acquire that arrives after its cancel must not be granted.
    const notAfter = this.#context.clockOf(this.keyOf(name)).serverMsAt(sentAt + deadlineMs) ?? 0;
    const { state, now, msLeft } = await this.#try(waiters[0]!, notAfter, { deadlineMs });
    const first = state === "granted" ? { msLeft, fencingToken: "" } : 0;
    return { now, msLeft: nextPollMs(), states: waiters.map((_, position) => (position === 0 ? first : position)) };
  }

  timeoutError({ name, resolved: { waitMs } }: Request, _seen: Seen | undefined, cause?: unknown): LockTimeoutError {
    return new LockTimeoutError(name, waitMs, undefined, undefined, cause);
  }

  /** Nothing is queued, so no queue is ever full. */
  queueFullError(name: string): LockQueueFullError {
    return new LockQueueFullError(name, 0);
  }

  lostError(name: string, reason: LossReason): LockLostError {
    return new LockLostError(name, reason, "");
  }

  #try(
    { name, token, resolved }: Request,
    notAfter: number,
    sending: Pick<Attempt, "deadlineMs" | "isWanted" | "signal">,
  ): Promise<scripts.AcquireReply> {
    const terms = { leaseMs: firstTermMs(resolved), notAfter };
    return scripts.acquire.run(
      this.#context,
      { lease: this.keyOf(name) },
      { token, terms },
      { ...sending, op: token, operation: "compatible-lock.acquire" },
    );
  }
}
