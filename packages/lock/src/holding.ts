import { type Deadline, KitKeyTypeError, newToken, traced } from "@kit/core";
import { type LockCommands, within } from "./commands.js";
import type { LockLostError } from "./errors.js";
import { type Grant, Lease, type LeaseKeeper, type ReleaseOutcome } from "./lease.js";
import type { LeaseTerms } from "./options.js";

/** What holding tells the lock. */
export interface HoldingEvents {
  readonly released: (lease: Lease) => void;
  readonly lost: (lease: Lease, error: LockLostError) => void;
}

/** The leases that one lock object holds: on the clock, renewed in batches, given back. */
export class Holding implements LeaseKeeper {
  readonly #commands: LockCommands;
  readonly #events: HoldingEvents;
  readonly #leases = new Set<Lease>();
  /** Leases of other lock objects on the same client are renewed by those. */
  readonly #group = newToken();
  #onIdle: (() => void) | undefined;

  constructor(commands: LockCommands, events: HoldingEvents) {
    this.#commands = commands;
    this.#events = events;
  }

  /** Takes charge of a lease that the server has granted. */
  lease(terms: LeaseTerms, grant: Grant): Lease {
    const { lease } = this.#commands.keysOf(grant.name);
    return new Lease(this, `${this.#group}${this.#commands.runtime.groupOf(lease)}`, terms, grant);
  }

  add(lease: Lease): void {
    this.#leases.add(lease);
    this.#commands.runtime.leases.add(lease);
  }

  changed(lease: Lease): void {
    this.#commands.runtime.leases.changed(lease);
  }

  remove(lease: Lease): void {
    this.#commands.runtime.leases.remove(lease);
    if (this.#leases.delete(lease) && this.#leases.size === 0) this.#onIdle?.();
  }

  /** Renews what is due. No answer changes nothing: each lease tries again until its own deadline. */
  renew(leases: readonly Lease[]): void {
    const patience = Math.max(50, Math.ceil(Math.min(...leases.map(({ remainingMs }) => remainingMs))));
    this.#renew(leases, Math.min(this.#commands.settings.deadlineMs, patience)).catch((error: unknown) => {
      for (const lease of leases) lease.renewFailed();
      this.#commands.onError(error);
    });
  }

  async extend(lease: Lease, leaseMs: number): Promise<void> {
    const [state] = await this.#renew([lease], this.#commands.settings.deadlineMs, leaseMs);
    if (state !== "corrupt") return;
    const { lease: key } = this.#commands.keysOf(lease.name);
    throw new KitKeyTypeError(`lock.renew failed: ${key} holds another type of data`, key, undefined);
  }

  release(lease: Lease): Promise<ReleaseOutcome> {
    const { name, fencingToken } = lease;
    return traced(
      "lock.release",
      () => ({ name, fencingToken }),
      () => this.#release(lease),
    );
  }

  async #release(lease: Lease): Promise<ReleaseOutcome> {
    const { name, token, holder, fencingToken } = lease;
    const keys = this.#commands.keysOf(name);
    const { gate } = this.#commands.runtime;
    const { drops } = gate;
    try {
      const state = await this.#commands.release(keys, token, holder, fencingToken);
      // It cannot have run out by itself yet. If nobody had it since, or a reply may have been lost, then it is an earlier
      // copy of this very call that released it.
      const isEarly = performance.now() < lease.deadlineAt;
      const isReleased =
        state === "released" || (isEarly && (state === "unclaimed" || (state === "not-held" && gate.drops > drops)));
      if (!isReleased) return "not-held";
      this.#events.released(lease);
      return "released";
    } catch (error) {
      lease.releaseFailed();
      this.#commands.withdraw(keys, token, lease);
      this.#commands.onError(error);
      throw error;
    }
  }

  lost(lease: Lease, error: LockLostError): void {
    // What the server may still have of it is of no use to us, and in the way of others.
    if (error.reason === "deadline" || error.reason === "closed" || error.reason === "max-hold")
      this.#commands.withdraw(this.#commands.keysOf(lease.name), lease.token, lease);
    this.#events.lost(lease, error);
  }

  /** Resolves when nothing is held; what is held at the deadline is taken from its holders and released. */
  async close(deadline: Deadline): Promise<void> {
    if (this.#leases.size > 0) {
      const idle = new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      });
      await within(idle, deadline);
    }
    for (const lease of [...this.#leases]) lease.lose("closed");
  }

  async #renew(leases: readonly Lease[], deadlineMs: number, extendedMs?: number): Promise<readonly string[]> {
    const asked = leases.map((lease) => ({
      key: this.#commands.keysOf(lease.name).lease,
      owner: `${lease.token}|${lease.holder}`,
      termMs: lease.termMs(extendedMs ?? lease.leaseMs),
    }));
    const sentAt = performance.now();
    const states = await this.#commands.renew(asked, deadlineMs);
    for (const [index, lease] of leases.entries())
      lease.renewed(states[index] ?? "corrupt", sentAt, asked[index]?.termMs ?? 0, extendedMs);
    return states;
  }
}
