import { eventually } from "@kit/testing";
import { patience } from "../patience.js";
import { Lab, type LabOptions } from "./lab.js";
import { historyOf, isRecorded } from "./recorder.js";
import type { Surroundings } from "./surroundings.js";
import type { Worker } from "./worker.js";

/** A lease, according to the server. */
export interface Holder {
  readonly name: string;
  readonly token: string;
  readonly worker: string;
  /** Server time, epoch milliseconds. */
  readonly seenAt: number;
  readonly endsAt: number;
  /** The workers in the wait queue, in order. */
  readonly waiting: readonly string[];
}

/** The state of one name. */
export interface Sight<H extends Holder> {
  readonly holders: readonly H[];
  /** The workers in the wait queue, in order. */
  readonly waiting: readonly string[];
}

/** Lines of a history in one reply. */
const pageLines = 20_000;

/** A server, and workers that contend for its leases. */
export abstract class LeaseLab<R extends { readonly kind: string }, H extends Holder> extends Lab<R> {
  override readonly leaseMs: number;
  /** Shorter than a lease, so that calls to a silent server fail while their leases still last. */
  override readonly deadlineMs: number;
  protected override readonly heard = ["access"];
  /** The leases of killed workers, as the server had them when the workers were certainly dead. */
  readonly deaths: H[] = [];

  constructor(options: LabOptions, around: Surroundings) {
    super(options, around);
    this.leaseMs = [300, 400, 500][Math.floor(this.random() * 3)] ?? 400;
    this.deadlineMs = Math.round(this.leaseMs * 0.6);
  }

  /** For each name: everything that is held now, and the workers in the wait queue. */
  protected abstract sights(): Promise<Sight<H>[]>;

  /** Everything that is held now. */
  async holders(): Promise<H[]> {
    return (await this.sights()).flatMap(({ holders }) => holders);
  }

  /** The recorded steps of each name. There are none to judge by if the server lost some, or its clock jumped. */
  protected async steps<Step>(
    names: readonly string[],
    parse: (lines: readonly string[]) => Step[],
  ): Promise<Map<string, Step[]>> {
    const found = new Map<string, Step[]>();
    if (isRecorded(this.setting)) for (const name of names) found.set(name, parse(await this.#recorded(name)));
    return found;
  }

  /** The lines that scripts recorded under a name. */
  async #recorded(name: string): Promise<string[]> {
    const lines: string[] = [];
    for (let page: string[] = [], from = 0; from === 0 || page.length > 0; from += page.length) {
      page = (await this.ask("LRANGE", historyOf(name), String(from), String(from + pageLines - 1))) as string[];
      if (page.length === 0) break;
      lines.push(...page);
    }
    return lines;
  }

  /** The keys that live longer than they should, in milliseconds. */
  protected async outliving(lives: readonly (readonly [key: string, lifeMs: number])[]): Promise<string[]> {
    const found: string[] = [];
    for (const [key, life] of lives) {
      const left = Number(await this.ask("PTTL", key));
      if (left === -1 || left > life) found.push(`${key} lives for ${String(left)} ms more`);
    }
    return found;
  }

  override async victim({ isWaitedFor = false }: { readonly isWaitedFor?: boolean } = {}): Promise<Worker> {
    return await eventually(
      async () => {
        const living = new Map(this.workers.map((worker) => [worker.id, worker]));
        const holders = (await this.holders()).filter(
          (holder) => !isWaitedFor || holder.waiting.some((id) => id !== holder.worker && living.has(id)),
        );
        const worker = living.get(this.pick(holders)?.worker ?? "");
        if (!worker) throw new Error("nobody holds anything");
        return worker;
      },
      { intervalMs: 2 },
    );
  }

  override async claimsOf({ id }: Worker): Promise<ReadonlySet<string>> {
    return new Set((await this.holders()).filter(({ worker }) => worker === id).map(({ token }) => token));
  }

  override async died({ id }: Worker, kind: string): Promise<number> {
    const orphaned = (await this.holders()).filter(({ worker }) => worker === id);
    for (const holder of orphaned) {
      this.deaths.push(holder);
      this.marks.push({ kind, at: holder.seenAt, name: holder.name });
    }
    return orphaned.length;
  }

  // On a Cluster no script can detect a dead waiter, so each may be granted one lease. The contenders go on until no dead
  // waiter is in the wait queue, so that the keys left at the end belong to workers that left in order.
  override async finished(): Promise<void> {
    await super.finished();
    if (this.server.mode !== "cluster") return;
    const living = new Set(this.workers.map(({ id }) => id));
    await eventually(
      async () => {
        const claimants = (await this.sights()).flatMap(({ holders, waiting }) => [
          ...holders.map(({ worker }) => worker),
          ...waiting,
        ]);
        const dead = claimants.filter((id) => id !== "" && !living.has(id));
        if (dead.length > 0) throw new Error(`${dead.join()} are dead and still in the wait queue`);
      },
      { timeoutMs: 20_000 * patience },
    );
  }
}
