import { eventually } from "@kit/testing";
import { patience } from "../patience.js";
import { Lab, type LabOptions } from "./lab.js";
import { historyOf } from "./recorder.js";
import type { Surroundings } from "./surroundings.js";
import type { Worker } from "./worker.js";

/** The holders, according to the server. */
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

/** Lines of a history in one reply. */
const pageLines = 20_000;

/** A server, and workers that contend for its leases. */
export abstract class LeaseLab<R extends { readonly kind: string }, H extends Holder> extends Lab<R> {
  override readonly leaseMs: number;
  /** Shorter than a lease, so that calls to a silent server fail while their leases still last. */
  override readonly deadlineMs: number;
  protected override readonly heard = ["access"];

  constructor(options: LabOptions, around: Surroundings) {
    super(options, around);
    this.leaseMs = [300, 400, 500][Math.floor(this.random() * 3)] ?? 400;
    this.deadlineMs = Math.round(this.leaseMs * 0.6);
  }

  /** Everything that is held now. */
  abstract holders(): Promise<H[]>;

  /** All workers that hold or wait for anything. */
  protected abstract claimants(): Promise<string[]>;

  protected abstract noteDeath(holder: H): void;

  /** The lines that scripts recorded under a name. */
  protected async recorded(name: string): Promise<string[]> {
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
      this.noteDeath(holder);
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
        const dead = (await this.claimants()).filter((id) => id !== "" && !living.has(id));
        if (dead.length > 0) throw new Error(`${dead.join()} are dead and still in the wait queue`);
      },
      { timeoutMs: 20_000 * patience },
    );
  }
}
