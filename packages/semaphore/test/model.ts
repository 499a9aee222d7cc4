/** What a semaphore is, without Redis: every rule in its plainest form, and nothing else. */

export interface Waiter {
  readonly claim: string;
  readonly weight: number;
  readonly tenant: string;
  readonly priority: number;
  readonly ticket: number;
  /** A message to it is not heard. */
  readonly isDeaf: boolean;
  /** It could not be told; it comes back by its next beat. */
  isAside: boolean;
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
  /** All permits have lapsed unseen, and what was counted of them is left. */
  #isLost = false;

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

  /** `areDeadGone`: the server dropped dead waiters, for the line was full. */
  acquire(
    asked: Omit<Waiter, "ticket" | "isAside">,
    { isTry, maxWaiters, areDeadGone }: { isTry: boolean; maxWaiters: number; areDeadGone: boolean },
  ): string {
    const { claim, weight, tenant } = asked;
    const isRecounted = this.#isLost;
    this.#isLost = false;
    if (this.isTooHeavy(asked)) return "too-heavy";
    if (this.#sweep() || areDeadGone) this.#grant([claim]);
    if (this.held.has(claim)) return "granted";
    const known = this.waiters.find((waiter) => waiter.claim === claim);
    const isRefused = (most: number): boolean => !known && (isTry || this.waiters.length > most);
    const refusal = isTry ? "held" : "full";
    if (isRefused(maxWaiters - 1) && !this.#fits(weight, tenant)) return refusal;
    const mayFit = isRecounted || this.#fits(weight, tenant);
    if (known) known.isAside = false;
    else this.waiters.push({ ...asked, ticket: ++this.#tickets, isAside: false });
    // Where it may not come in, nobody looks whether those before it have died.
    if (mayFit) this.#grant([claim]);
    if (this.held.has(claim)) return "granted";
    if (!isRefused(maxWaiters)) return "queued";
    this.die(claim);
    return refusal;
  }

  lapse(): void {
    this.#isLost = [...this.held.values()].some(({ weight, tenant }) => weight > 1 || tenant !== "");
    this.held.clear();
  }

  release(claim: string): string {
    const held = this.held.get(claim);
    if (held) this.held.delete(claim);
    else if (!this.die(claim)) return "not-held";
    this.#sweep();
    this.#grant([]);
    return held ? (held.isOver ? "not-held" : "released") : "left";
  }

  renew(claim: string): string {
    const held = this.held.get(claim);
    return held && !held.isOver ? "extended" : "gone";
  }

  beat(claims: readonly string[]): (number | string)[] {
    this.#sweep();
    for (const waiter of this.waiters) if (claims.includes(waiter.claim)) waiter.isAside = false;
    this.#grant(claims);
    return claims.map((claim) => (this.held.has(claim) ? "granted" : this.positionOf(claim)));
  }

  /** The limits are less than what it waits for: the server forgets it when it comes across it. */
  isTooHeavy({ weight, tenant }: Pick<Waiter, "weight" | "tenant">): boolean {
    const most = Math.min(this.permits, this.#mostOf(tenant));
    return most > 0 && weight > most;
  }

  resize(permits: number, perTenant: number): void {
    this.permits = permits;
    this.perTenant = perTenant;
    this.#sweep();
    this.#grant([]);
  }

  /** Those who wait, in the order in which they are served within each tenant. */
  line(tenant: string): Waiter[] {
    return this.waiters
      .filter((waiter) => waiter.tenant === tenant && !waiter.isAside)
      .toSorted((a, b) => a.priority - b.priority || a.ticket - b.ticket);
  }

  positionOf(claim: string): number | string {
    const waiter = this.waiters.find((one) => one.claim === claim);
    return waiter ? this.line(waiter.tenant).indexOf(waiter) : "unknown";
  }

  #grant(present: readonly string[]): void {
    this.#isLost = false;
    for (;;) {
      const [next] = [...new Set(this.waiters.map(({ tenant }) => tenant))]
        .flatMap((tenant) => this.line(tenant).find((waiter) => !this.isTooHeavy(waiter)) ?? [])
        .filter(({ weight, tenant }) => this.usedBy(tenant) + weight <= this.#mostOf(tenant))
        .toSorted((a, b) => a.priority - b.priority || a.ticket - b.ticket);
      if (!next || this.used + next.weight > this.permits) return;
      if (present.includes(next.claim) || !next.isDeaf) {
        this.die(next.claim);
        this.held.set(next.claim, { weight: next.weight, tenant: next.tenant, isOver: false });
      } else next.isAside = true;
    }
  }

  #fits(weight: number, tenant: string): boolean {
    return this.used + weight <= this.permits && this.usedBy(tenant) + weight <= this.#mostOf(tenant);
  }

  /** Who names no tenant is counted among all alone. */
  #mostOf(tenant: string): number {
    return tenant === "" ? Infinity : this.perTenant;
  }

  /** Also of one that leaves: nobody will hear of it again. Returns whether it waited. */
  die(claim: string): boolean {
    const before = this.waiters.length;
    this.waiters = this.waiters.filter((waiter) => waiter.claim !== claim);
    return this.waiters.length < before;
  }

  /** Returns whether anything was over. */
  #sweep(): boolean {
    const before = this.held.size;
    for (const [claim, { isOver }] of this.held) if (isOver) this.held.delete(claim);
    return this.held.size < before;
  }

  #sum(held: readonly Held[]): number {
    return held.reduce((sum, { weight }) => sum + weight, 0);
  }
}
