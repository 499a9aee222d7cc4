import type { PermitRecord, Step } from "./history.js";

interface Held {
  readonly permitRecord: PermitRecord;
  readonly endsAt: number;
}

/** Scripts compare whole milliseconds. */
const isLive = ({ endsAt }: Held, at: number): boolean => endsAt > Math.floor(at);

/** Replays the history of one semaphore: the permits with their ends, and the waiters in their order. */
export class Replay {
  limit: number | undefined;
  perTenant: number | undefined;
  /** Contains expired permits until a script removes them. */
  readonly #permits = new Map<string, Held>();
  readonly #waiting = new Map<string, PermitRecord>();
  /** Suspended waiters. A waiter that returns gets its old place. */
  readonly #suspended = new Map<string, PermitRecord>();
  readonly #arrivals = new Map<string, number>();
  /** When each waiter last joined. A heartbeat joins again. */
  readonly #joinedAt = new Map<string, number>();
  readonly #left = new Map<string, number>();
  #arrived = 0;

  apply(step: Step): void {
    switch (step.what) {
      case "add":
      case "set":
        this.#permits.set(step.permitRecord.text, step);
        break;
      case "rem":
        this.#permits.delete(step.permitRecord.text);
        break;
      case "join":
        this.#join(step.permitRecord, step.at);
        break;
      case "leave":
        if (this.#waiting.delete(step.permitRecord.text)) this.#left.set(step.permitRecord.text, step.at);
        break;
      case "suspend":
        this.#suspended.set(step.permitRecord.text, step.permitRecord);
        break;
      case "resume":
        this.#suspended.delete(step.permitRecord.text);
        break;
      case "permits":
        this.limit = step.limit;
        break;
      case "perTenant":
        this.perTenant = step.limit;
    }
  }

  /** A waiter that leaves and rejoins at one instant keeps its place. One that left earlier goes to the end. */
  #join(permitRecord: PermitRecord, at: number): void {
    const { text } = permitRecord;
    const isBack = this.#waiting.has(text) || this.#suspended.has(text) || this.#left.get(text) === at;
    if (!isBack || !this.#arrivals.has(text)) this.#arrivals.set(text, ++this.#arrived);
    this.#left.delete(text);
    this.#joinedAt.set(text, at);
    this.#waiting.set(text, permitRecord);
  }

  /** Whether a permit record has a permit that has not expired. */
  isLive({ text }: PermitRecord, at: number): boolean {
    const held = this.#permits.get(text);
    return held !== undefined && isLive(held, at);
  }

  /** The sum of the weights in use. */
  usedAt(at: number, tenant?: string): number {
    let used = 0;
    for (const held of this.#permits.values())
      if ((tenant === undefined || held.permitRecord.tenant === tenant) && isLive(held, at))
        used += held.permitRecord.weight;
    return used;
  }

  /** The ends of all permits, in order. */
  endings(): number[] {
    return [...this.#permits.values()].map(({ endsAt }) => endsAt).toSorted((a, b) => a - b);
  }

  /** The waiters that must be served before a permit record that is granted now. */
  before(permitRecord: PermitRecord, at: number): PermitRecord[] {
    return [...this.#waiting.values()].filter(
      (other) =>
        other.text !== permitRecord.text &&
        this.#precedes(other, permitRecord) &&
        (other.tenant === permitRecord.tenant || this.#hasRoom(other, at)),
    );
  }

  /** The next waiter to be granted: the first one whose tenant has room, if enough permits are free for it. */
  next(at: number): PermitRecord | undefined {
    return this.#nextOf([...this.#waiting.values()], at);
  }

  /** As `next`, among the waiters for which `isOwed` holds, suspended ones included. */
  nextOfAll(at: number, isOwed: (permitRecord: PermitRecord, joinedAt: number) => boolean): PermitRecord | undefined {
    const all = new Map([...this.#waiting, ...this.#suspended]);
    const owed = [...all.values()].filter((permitRecord) =>
      isOwed(permitRecord, this.#joinedAt.get(permitRecord.text) ?? -Infinity),
    );
    return this.#nextOf(owed, at);
  }

  #nextOf(permitRecords: readonly PermitRecord[], at: number): PermitRecord | undefined {
    if (permitRecords.length === 0 || this.limit === undefined || this.usedAt(at) >= this.limit) return undefined;
    let first: PermitRecord | undefined;
    for (const permitRecord of permitRecords)
      if (
        (!first || this.#precedes(permitRecord, first)) &&
        this.#leads(permitRecord, permitRecords) &&
        this.#hasRoom(permitRecord, at)
      )
        first = permitRecord;
    return first && this.usedAt(at) + first.weight <= this.limit ? first : undefined;
  }

  get waiting(): Iterable<PermitRecord> {
    return this.#waiting.values();
  }

  /** Whether a permit record is the first of its tenant. */
  #leads(permitRecord: PermitRecord, permitRecords: readonly PermitRecord[]): boolean {
    if (this.perTenant === undefined) return true;
    for (const other of permitRecords)
      if (other.tenant === permitRecord.tenant && this.#precedes(other, permitRecord)) return false;
    return true;
  }

  #hasRoom({ tenant, weight }: PermitRecord, at: number): boolean {
    return this.perTenant === undefined || this.usedAt(at, tenant) + weight <= this.perTenant;
  }

  #precedes(one: PermitRecord, other: PermitRecord): boolean {
    if (one.text === other.text) return false;
    if (one.priority !== other.priority) return one.priority < other.priority;
    return this.#arrivalOf(one) < this.#arrivalOf(other);
  }

  #arrivalOf({ text }: PermitRecord): number {
    // A request that was never queued comes after all queued ones.
    return this.#waiting.has(text) || this.#left.has(text) ? (this.#arrivals.get(text) ?? Infinity) : Infinity;
  }
}
