import { eventually, type RedisServer } from "@kit/testing";
import type { Span } from "../records.js";
import { Lab, type LabOptions, type Surroundings } from "./lab.js";
import type { Worker } from "./worker.js";

/** The holders, by the server's own word. */
export interface Holder {
  readonly name: string;
  readonly token: string;
  readonly worker: string;
  /** Server time, epoch milliseconds. */
  readonly seenAt: number;
  readonly endsAt: number;
  /** The workers in line, in order. */
  readonly waiting: readonly string[];
}

/** A server, contenders for what it leases, and what is done to them. */
export abstract class LeaseLab<H extends Holder> extends Lab {
  readonly leaseMs: number;
  /** Shorter than a lease, so that a silent server is noticed while there is something to lose. */
  readonly deadlineMs: number;
  readonly dataLosses: Span[] = [];
  readonly #client: ReturnType<RedisServer["client"]> | undefined;

  constructor(options: LabOptions, around: Surroundings) {
    super(options, around);
    this.leaseMs = [300, 400, 500][Math.floor(this.random() * 3)] ?? 400;
    this.deadlineMs = Math.round(this.leaseMs * 0.6);
    this.#client = this.server.mode === "sentinel" ? undefined : this.server.client();
  }

  /** Asks whoever serves the keys now. */
  protected async ask(command: string, ...args: string[]): Promise<unknown> {
    if (!this.#client) return await (await this.server.master()).call(command, ...args);
    const client = this.#client;
    if (this.server.mode === "single") return await client.call(command, ...args);
    // A client that has not heard of a new master yet is told so, and asks again.
    return await eventually(() => client.call(command, ...args));
  }

  /** Everything that is held now. */
  abstract holders(): Promise<H[]>;

  /** All that hold or wait for anything. */
  protected abstract claimants(): Promise<string[]>;

  protected abstract noteDeath(holder: H): void;

  async victim({ isWaitedFor = false }: { readonly isWaitedFor?: boolean } = {}): Promise<Worker> {
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

  async claimsOf({ id }: Worker): Promise<ReadonlySet<string>> {
    return new Set((await this.holders()).filter(({ worker }) => worker === id).map(({ token }) => token));
  }

  async died({ id }: Worker, kind: string): Promise<number> {
    const orphaned = (await this.holders()).filter(({ worker }) => worker === id);
    for (const holder of orphaned) {
      this.noteDeath(holder);
      this.marks.push({ kind, at: holder.seenAt, name: holder.name });
    }
    return orphaned.length;
  }

  lostData(from: number, to: number): void {
    this.dataLosses.push({ from, to });
  }

  /** Starts the contenders; resolves when all of them work. */
  async begin(workers: number): Promise<void> {
    for (let i = 0; i < workers; i++) this.spawn();
    await Promise.all(this.workers.map((worker) => worker.started()));
    await eventually(
      () => {
        const idle = this.workers.filter((worker) => worker.logged("access") === 0);
        if (idle.length > 0)
          throw new Error(`${idle.map(({ id, printed }) => `${id} ${printed}`).join()} did nothing yet`);
      },
      { timeoutMs: 20_000 },
    );
  }

  // On a Cluster nobody can see that a waiter is dead, so it may be given one lease. Keys that are left when all have left shall
  // be theirs who left: the contenders go on until no dead waiter stands in line.
  override async finished(): Promise<void> {
    await super.finished();
    if (this.server.mode !== "cluster") return;
    const living = new Set(this.workers.map(({ id }) => id));
    await eventually(
      async () => {
        const dead = (await this.claimants()).filter((id) => id !== "" && !living.has(id));
        if (dead.length > 0) throw new Error(`${dead.join()} are dead and still in line`);
      },
      { timeoutMs: 20_000 },
    );
  }

  override async stop(): Promise<void> {
    this.#client?.disconnect();
    await super.stop();
  }
}
