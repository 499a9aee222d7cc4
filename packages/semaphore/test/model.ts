/** A semaphore without Redis: every rule in its plainest form, and nothing else. */

export interface Waiter {
  readonly permitRecord: string;
  readonly weight: number;
  readonly tenant: string;
  readonly priority: number;
  readonly ticket: number;
  /** A message to it is not heard. */
  readonly isUnreachable: boolean;
  /** It could not be notified; it comes back by its next heartbeat. */
  isSuspended: boolean;
}

export interface Held {
  readonly weight: number;
  readonly tenant: string;
  isOver: boolean;
}

export class Model {
  permits: number;
  perTenant: number;
  readonly held: Map<string, Held> = new Map();
  waiters: Waiter[] = [];
  #tickets = 0;

  constructor(permits: number, perTenant: number) {
    this.permits = permits;
    this.perTenant = perTenant;
  }

  get used(): number {
    return this.#sum([...this.held.values()]);
  }

  usedBy(tenant: string): number {
    return this.#sum([...this.held.values()].filter((held) => held.tenant === tenant));
  }

  /** `areDeadGone`: the server dropped dead waiters, for the queue was full. */
  acquire(
    asked: Omit<Waiter, "ticket" | "isSuspended">,
    { isTry, maxWaiters, areDeadGone }: { isTry: boolean; maxWaiters: number; areDeadGone: boolean },
  ): string {
    const { permitRecord, weight, tenant } = asked;
    const isRegained = this.held.size === 0;
    if (this.isTooHeavy(asked)) {
      if (isRegained) this.#grant([]);
      return "too-heavy";
    }
    if (this.#expirePermits() || areDeadGone || isRegained) this.#grant([permitRecord]);
    if (this.held.has(permitRecord)) return "granted";
    const known = this.waiters.find((waiter) => waiter.permitRecord === permitRecord);
    const waiting = this.waiters.length;
    const isFull =
      waiting >= maxWaiters &&
      (tenant === "" ||
        waiting >= 2 * maxWaiters ||
        this.waiters.some((waiter) => waiter.tenant === tenant && !waiter.isSuspended));
    const isRefused = (most: number): boolean => !known && (isTry || (isFull && this.waiters.length > most));
    const refusal = isTry ? "held" : "full";
    if (isRefused(maxWaiters - 1) && !this.#fits(weight, tenant)) return refusal;
    const mayFit = this.#fits(weight, tenant);
    if (known) known.isSuspended = false;
    else this.waiters.push({ ...asked, ticket: ++this.#tickets, isSuspended: false });
    // Where it may not come in, nobody looks whether those before it have died.
    if (mayFit) this.#grant([permitRecord]);
    if (this.held.has(permitRecord)) return "granted";
    if (!isRefused(maxWaiters)) return "queued";
    this.die(permitRecord);
    return refusal;
  }

  lapse(): void {
    this.held.clear();
  }

  release(permitRecord: string): string {
    const held = this.held.get(permitRecord);
    if (held) this.held.delete(permitRecord);
    else if (!this.die(permitRecord)) {
      if (this.held.size === 0) this.#grant([]);
      return "not-held";
    }
    this.#expirePermits();
    this.#grant([]);
    return held ? (held.isOver ? "not-held" : "released") : "left";
  }

  renew(permitRecord: string): string {
    const held = this.held.get(permitRecord);
    return held && !held.isOver ? "extended" : "gone";
  }

  heartbeat(permitRecords: readonly string[]): (number | string)[] {
    this.#expirePermits();
    for (const waiter of this.waiters) if (permitRecords.includes(waiter.permitRecord)) waiter.isSuspended = false;
    this.#grant(permitRecords);
    return permitRecords.map((permitRecord) =>
      this.held.has(permitRecord) ? "granted" : this.positionOf(permitRecord),
    );
  }

  /** The limits are less than what it waits for: the server forgets it when it comes across it. */
  isTooHeavy({ weight, tenant }: Pick<Waiter, "weight" | "tenant">): boolean {
    const most = Math.min(this.permits, this.#mostOf(tenant));
    return most > 0 && weight > most;
  }

  resize(permits: number, perTenant: number): void {
    this.permits = permits;
    this.perTenant = perTenant;
    this.#expirePermits();
    this.#grant([]);
  }

  /** Those who wait, in the order in which they are served within each tenant. */
  queue(tenant: string): Waiter[] {
    return this.waiters
      .filter((waiter) => waiter.tenant === tenant && !waiter.isSuspended)
      .toSorted((a, b) => a.priority - b.priority || a.ticket - b.ticket);
  }

  positionOf(permitRecord: string): number | string {
    const waiter = this.waiters.find((one) => one.permitRecord === permitRecord);
    return waiter ? this.queue(waiter.tenant).indexOf(waiter) : "unknown";
  }

  #grant(present: readonly string[]): void {
    for (;;) {
      const [next] = [...new Set(this.waiters.map(({ tenant }) => tenant))]
        .flatMap((tenant) => this.queue(tenant).find((waiter) => !this.isTooHeavy(waiter)) ?? [])
        .filter(({ weight, tenant }) => this.usedBy(tenant) + weight <= this.#mostOf(tenant))
        .toSorted((a, b) => a.priority - b.priority || a.ticket - b.ticket);
      if (!next) return;
      const fits = this.used + next.weight <= this.permits;
      const isHeard = present.includes(next.permitRecord) || !next.isUnreachable;
      // A waiter that does not fit blocks, unless it may be dead and permits are free.
      if (!fits && (isHeard || this.used >= this.permits)) return;
      if (isHeard) {
        this.die(next.permitRecord);
        this.held.set(next.permitRecord, { weight: next.weight, tenant: next.tenant, isOver: false });
      } else next.isSuspended = true;
    }
  }

  #fits(weight: number, tenant: string): boolean {
    return this.used + weight <= this.permits && this.usedBy(tenant) + weight <= this.#mostOf(tenant);
  }

  /** A permit without a tenant counts against the common limit alone. */
  #mostOf(tenant: string): number {
    return tenant === "" ? Infinity : this.perTenant;
  }

  /** Also of one that leaves: nobody will hear of it again. Returns whether it waited. */
  die(permitRecord: string): boolean {
    const before = this.waiters.length;
    this.waiters = this.waiters.filter((waiter) => waiter.permitRecord !== permitRecord);
    return this.waiters.length < before;
  }

  /** Returns whether anything was over. */
  #expirePermits(): boolean {
    const before = this.held.size;
    for (const [permitRecord, { isOver }] of this.held) if (isOver) this.held.delete(permitRecord);
    return this.held.size < before;
  }

  #sum(held: readonly Held[]): number {
    return held.reduce((sum, { weight }) => sum + weight, 0);
  }
}
