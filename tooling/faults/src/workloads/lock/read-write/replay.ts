import { otherMode, type Caller, type Step } from "./history.js";

export interface Waiter {
  readonly caller: Caller;
  readonly ticket: number;
  aliveUntil: number;
  inbox: string;
  /** When it was asked for a heartbeat; 0 or negative if it was not, or has sent one. */
  asked: number;
}

/** What one step did to a read/write lock. */
export interface Effect {
  /** The leases that others held before, and still hold; a lease whose mode was changed has its new mode. */
  readonly beside: readonly Caller[];
  readonly granted: readonly Caller[];
  readonly changed: readonly Caller[];
  /** The tickets of those that had waited before. */
  readonly tickets: ReadonlyMap<string, number>;
  /** Leases that were extended after their end. */
  readonly revived: readonly Caller[];
  /** Leases that were ended before their end, neither by their owner nor by a change of their mode. */
  readonly taken: readonly Caller[];
}

/** Replays the history of one read/write lock: the leases with their ends, and the waiters in their order. */
export class Replay {
  readonly #leases = new Map<string, { readonly caller: Caller; readonly endsAt: number }>();
  readonly #queue = new Map<string, Waiter>();
  newestToken = 0n;

  /** The leases that have not ended. Scripts compare whole milliseconds. */
  held(at: number): { readonly caller: Caller; readonly endsAt: number }[] {
    return [...this.#leases.values()].filter(({ endsAt }) => endsAt > Math.floor(at));
  }

  /** The waiters that count as alive, in the order of their arrival. */
  waiting(at: number): Waiter[] {
    return [...this.#queue.values()]
      .filter(({ aliveUntil }) => aliveUntil > at)
      .toSorted((one, other) => one.ticket - other.ticket);
  }

  apply({ at, writes }: Step): Effect {
    const live = new Map(this.held(at).map(({ caller }) => [caller.text, caller]));
    const tickets = new Map([...this.#queue].map(([text, { ticket }]) => [text, ticket]));
    const beside = new Map(live);
    const [granted, changed, revived, taken]: Caller[][] = [[], [], [], []];
    const renamed = new Set<string>();
    for (const write of writes) {
      if (write.what !== "hold" || live.has(write.caller.text)) continue;
      const former = otherMode(write.caller);
      if (!live.has(former)) {
        granted?.push(write.caller);
        continue;
      }
      renamed.add(former);
      changed?.push(write.caller);
      beside.set(write.caller.text, write.caller);
    }
    for (const write of writes) {
      if (write.what === "end") {
        beside.delete(write.caller.text);
        const { text } = write.caller;
        if (live.has(text) && !write.isOwn && !renamed.has(text)) taken?.push(write.caller);
      }
      if (write.what === "extend" && !live.has(write.caller.text)) revived?.push(write.caller);
      this.#write(write);
    }
    return {
      beside: [...beside.values()],
      granted: granted ?? [],
      changed: changed ?? [],
      revived: revived ?? [],
      taken: taken ?? [],
      tickets,
    };
  }

  #write(write: Step["writes"][number]): void {
    switch (write.what) {
      case "hold":
      case "extend":
        this.#leases.set(write.caller.text, write);
        break;
      case "end":
        this.#leases.delete(write.caller.text);
        break;
      case "join":
        this.#queue.set(write.caller.text, { ...write, aliveUntil: Infinity, inbox: "", asked: 0 });
        break;
      case "leave":
        this.#queue.delete(write.caller.text);
        break;
      case "stand": {
        const waiter = this.#queue.get(write.caller.text);
        if (waiter) Object.assign(waiter, { aliveUntil: write.aliveUntil, inbox: write.inbox, asked: write.asked });
        break;
      }
      case "fence":
        this.newestToken = write.token;
    }
  }
}
