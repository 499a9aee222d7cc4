import type { Claim, Step } from "./history.js";

interface Held {
  readonly claim: Claim;
  readonly endsAt: number;
}

/** The instants at which a permit ends are whole milliseconds, and so is what scripts compare them with. */
const isLive = ({ endsAt }: Held, at: number): boolean => endsAt > Math.floor(at);

/** The state of one semaphore, as its history goes on: who holds how much until when, and who waits in which order. */
export class Replay {
  limit: number | undefined;
  perTenant: number | undefined;
  /** Those whose time is over among them, until they are swept. */
  readonly #permits = new Map<string, Held>();
  readonly #waiting = new Map<string, Claim>();
  /** They come back to their old places, whenever that is. */
  readonly #aside = new Map<string, Claim>();
  readonly #arrivals = new Map<string, number>();
  /** When each last joined, which a sign of life does, too. */
  readonly #joinedAt = new Map<string, number>();
  readonly #left = new Map<string, number>();
  #arrived = 0;

  apply(step: Step): void {
    switch (step.what) {
      case "add":
      case "set":
        this.#permits.set(step.claim.text, step);
        break;
      case "rem":
        this.#permits.delete(step.claim.text);
        break;
      case "join":
        this.#join(step.claim, step.at);
        break;
      case "leave":
        if (this.#waiting.delete(step.claim.text)) this.#left.set(step.claim.text, step.at);
        break;
      case "aside":
        this.#aside.set(step.claim.text, step.claim);
        break;
      case "back":
        this.#aside.delete(step.claim.text);
        break;
      case "permits":
        this.limit = step.limit;
        break;
      case "perTenant":
        this.perTenant = step.limit;
    }
  }

  /** Within one step of the server a waiter may leave and come back; who had left before comes last. */
  #join(claim: Claim, at: number): void {
    const { text } = claim;
    const isBack = this.#waiting.has(text) || this.#aside.has(text) || this.#left.get(text) === at;
    if (!isBack || !this.#arrivals.has(text)) this.#arrivals.set(text, ++this.#arrived);
    this.#left.delete(text);
    this.#joinedAt.set(text, at);
    this.#waiting.set(text, claim);
  }

  /** Whether a claim has a permit that lives. */
  isLive({ text }: Claim, at: number): boolean {
    const held = this.#permits.get(text);
    return held !== undefined && isLive(held, at);
  }

  /** By weight. */
  usedAt(at: number, tenant?: string): number {
    let used = 0;
    for (const held of this.#permits.values())
      if ((tenant === undefined || held.claim.tenant === tenant) && isLive(held, at)) used += held.claim.weight;
    return used;
  }

  /** When the permits that are held now end, in order. */
  endings(): number[] {
    return [...this.#permits.values()].map(({ endsAt }) => endsAt).toSorted((a, b) => a - b);
  }

  /** Those in line who have to be served before a claim that is granted now. */
  before(claim: Claim, at: number): Claim[] {
    return [...this.#waiting.values()].filter(
      (other) =>
        other.text !== claim.text &&
        this.#precedes(other, claim) &&
        (other.tenant === claim.tenant || this.#hasRoom(other, at)),
    );
  }

  /** The next to be granted something: the first of those whose tenant has room, if there is enough for it. */
  next(at: number): Claim | undefined {
    return this.#nextOf([...this.#waiting.values()], at);
  }

  /** The same of those who are owed it, of all who wait: those who stand aside among them. */
  nextOfAll(at: number, isOwed: (claim: Claim, joinedAt: number) => boolean): Claim | undefined {
    const all = new Map([...this.#waiting, ...this.#aside]);
    const owed = [...all.values()].filter((claim) => isOwed(claim, this.#joinedAt.get(claim.text) ?? -Infinity));
    return this.#nextOf(owed, at);
  }

  #nextOf(claims: readonly Claim[], at: number): Claim | undefined {
    if (claims.length === 0 || this.limit === undefined || this.usedAt(at) >= this.limit) return undefined;
    let first: Claim | undefined;
    for (const claim of claims)
      if ((!first || this.#precedes(claim, first)) && this.#leads(claim, claims) && this.#hasRoom(claim, at))
        first = claim;
    return first && this.usedAt(at) + first.weight <= this.limit ? first : undefined;
  }

  get waiting(): Iterable<Claim> {
    return this.#waiting.values();
  }

  /** Whether it is the first of its tenant. */
  #leads(claim: Claim, claims: readonly Claim[]): boolean {
    if (this.perTenant === undefined) return true;
    for (const other of claims) if (other.tenant === claim.tenant && this.#precedes(other, claim)) return false;
    return true;
  }

  #hasRoom({ tenant, weight }: Claim, at: number): boolean {
    return this.perTenant === undefined || this.usedAt(at, tenant) + weight <= this.perTenant;
  }

  #precedes(one: Claim, other: Claim): boolean {
    if (one.text === other.text) return false;
    if (one.priority !== other.priority) return one.priority < other.priority;
    return this.#arrivalOf(one) < this.#arrivalOf(other);
  }

  #arrivalOf({ text }: Claim): number {
    // A request that was never queued comes after all that are.
    return this.#waiting.has(text) || this.#left.has(text) ? (this.#arrivals.get(text) ?? Infinity) : Infinity;
  }
}
