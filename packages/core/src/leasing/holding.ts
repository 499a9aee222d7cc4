import { KitKeyTypeError } from "../index.js";
import {
  type Deadline,
  type ExpiryScheduler,
  expiryOf,
  inTime,
  newToken,
  type OutageReporter,
  traced,
} from "../toolkit/index.js";
import type { LeasingCommands, Seen } from "./commands.js";
import type { LossReason } from "./errors.js";
import type { Grant, Lease, LeaseKeeper, ReleaseOutcome, RenewState } from "./lease.js";
import type { ResolvedAcquire } from "./options.js";

/** Callbacks of holding. */
export interface HoldingEvents<L> {
  readonly released: (lease: L) => void;
  readonly lost: (lease: L, reason: LossReason) => void;
  readonly handedOver: (lease: L) => void;
}

/** Makes the lease that its caller gets. */
export type LeaseMaker<Resolved extends ResolvedAcquire, L extends Lease<Resolved>> = (
  keeper: LeaseKeeper<Lease<Resolved>>,
  group: string,
  key: string,
  resolved: Resolved,
  grant: Grant,
) => L;

/** The kinds of commands: the packages that lease, and their versions. */
const kinds = new WeakMap<object, string>();
const kindOf = ({ constructor }: object): string => {
  let kind = kinds.get(constructor);
  if (kind === undefined) kinds.set(constructor, (kind = newToken()));
  return kind;
};

/** The leases that one object holds: on the clock, renewed in batches, given back. */
export class Holding<
  Resolved extends ResolvedAcquire,
  S extends Seen,
  L extends Lease<Resolved>,
> implements LeaseKeeper<L> {
  readonly what: string;
  readonly expiry: ExpiryScheduler;
  readonly outage: OutageReporter;
  readonly #commands: LeasingCommands<Resolved, S, L>;
  readonly #make: LeaseMaker<Resolved, L>;
  readonly #events: HoldingEvents<L>;
  readonly #leases = new Set<L>();
  /** Leases of all objects of a kind on one client are renewed together. */
  readonly #group: string;
  #onIdle: (() => void) | undefined;
  /** Leases whose release was not answered: it may have ended well. */
  readonly #unanswered = new WeakSet<L>();
  /** The operation ids for releases of resumed leases: another object may hold and release the same token. */
  readonly #resumed = new WeakMap<L, string>();

  constructor(commands: LeasingCommands<Resolved, S, L>, make: LeaseMaker<Resolved, L>, events: HoldingEvents<L>) {
    this.#commands = commands;
    this.what = commands.what;
    this.outage = commands.outage;
    this.expiry = expiryOf(commands.context);
    this.#group = `${kindOf(commands)} ${String(commands.settings.deadlineMs)} `;
    this.#make = make;
    this.#events = events;
  }

  /** Takes charge of a lease that the server has granted. */
  lease(resolved: Resolved, grant: Grant): L {
    const key = this.#commands.keyOf(grant.name);
    return this.#make(this, `${this.#group}${this.#commands.context.groupOf(key)}`, key, resolved, grant);
  }

  /** Takes charge of a lease that another object may hold, too. */
  resume(resolved: Resolved, grant: Grant): L {
    const lease = this.lease(resolved, grant);
    this.#resumed.set(lease, newToken());
    return lease;
  }

  add(lease: L): void {
    this.#leases.add(lease);
    this.expiry.add(lease);
  }

  remove(lease: L): void {
    this.expiry.remove(lease);
    this.outage.ended(lease.token);
    if (this.#leases.delete(lease) && this.#leases.size === 0) this.#onIdle?.();
  }

  handedOver(lease: L): void {
    this.remove(lease);
    this.#events.handedOver(lease);
  }

  /** Whether there is a lease of this token here. */
  has(token: string): boolean {
    return [...this.#leases].some((lease) => lease.token === token);
  }

  /** Renews what is due, also of other objects. No answer changes nothing: each lease tries again until its own deadline. */
  renew(leases: readonly L[]): void {
    const patience = Math.max(50, Math.ceil(Math.min(...leases.map(({ remainingMs }) => remainingMs))));
    this.#renew(leases, Math.min(this.#commands.settings.deadlineMs, patience)).then(
      (states) => {
        for (const [index, lease] of leases.entries()) {
          const { outage } = lease.keeper;
          if (states[index] === "corrupt") outage.failed(lease.token, this.#corrupt(lease));
          else outage.worked(lease.token);
        }
      },
      (reason: unknown) => {
        const error = this.#commands.errorOf(reason);
        for (const lease of leases) {
          lease.renewFailed();
          if (lease.isHeld) lease.keeper.outage.failed(lease.token, error);
        }
      },
    );
  }

  async extend(lease: L, leaseMs: number): Promise<void> {
    const [state] = await this.#renew([lease], this.#commands.settings.deadlineMs, leaseMs);
    if (state === "corrupt") throw this.#corrupt(lease);
  }

  release(lease: L): Promise<ReleaseOutcome> {
    const { name, proof } = lease;
    return traced(
      `${this.what}.release`,
      () => (proof === "" ? { name } : { name, fencingToken: proof }),
      () => this.#release(lease),
    );
  }

  lossOf({ name, proof }: L, reason: LossReason): ReturnType<LeasingCommands<Resolved, S, L>["lostError"]> {
    return this.#commands.lostError(name, reason, proof);
  }

  lost(lease: L, reason: LossReason): void {
    // A record left on the server is of no use to us, and in the way of others.
    if (reason === "deadline" || reason === "closed" || reason === "max-hold")
      this.#commands.cancel(lease.name, lease.token, lease.resolved, lease.leaseMs);
    this.#events.lost(lease, reason);
  }

  /** Resolves when nothing is held; what is held at the deadline is taken from its holders and released. */
  async close(deadline: Deadline): Promise<void> {
    if (this.#leases.size > 0) {
      const idle = new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      });
      await inTime(idle, { deadline });
    }
    for (const lease of [...this.#leases]) lease.lose("closed");
  }

  #corrupt({ key }: L): KitKeyTypeError {
    return new KitKeyTypeError(`${this.what}.renew failed: ${key} holds another type of data`, key, undefined);
  }

  async #release(lease: L): Promise<ReleaseOutcome> {
    const { name, token, resolved, proof } = lease;
    const { executor } = this.#commands.context;
    const { connectionEpoch } = executor;
    const op = this.#resumed.get(lease) ?? token;
    try {
      const state = await this.#commands.release(name, token, resolved, { proof, op });
      // Where a reply may have been lost, and it cannot have run out by itself yet, an earlier release by this lease is
      // taken for what ended it.
      const isEarly = performance.now() < lease.deadlineAt;
      const mayBeOwn = isEarly && (this.#unanswered.has(lease) || executor.connectionEpoch > connectionEpoch);
      const isReleased = state === "released" || (mayBeOwn && (state === "unclaimed" || state === "not-held"));
      if (!isReleased) return "not-held";
      this.#events.released(lease);
      return "released";
    } catch (error) {
      lease.releaseFailed();
      this.#unanswered.add(lease);
      this.#commands.cancel(name, token, resolved, lease.leaseMs);
      this.#commands.onError(error);
      throw error;
    }
  }

  async #renew(leases: readonly L[], deadlineMs: number, extendedMs?: number): Promise<readonly RenewState[]> {
    const asked = leases.map((lease) => ({
      lease,
      key: lease.key,
      termMs: lease.termMs(extendedMs),
      sign: lease.isShortening ? ("=" as const) : ("" as const),
    }));
    const sentAt = performance.now();
    const states = await this.#commands.renew(asked, deadlineMs);
    for (const [index, { lease, termMs }] of asked.entries())
      lease.renewed(states[index] ?? "corrupt", sentAt, termMs, extendedMs);
    return states;
  }
}
