import type { Machine } from "./lab.js";

const KEY = "acknowledged";
const LOOPS = 64;

/** The part of its acknowledged writes that a machine still has. */
export interface Loss {
  readonly acknowledged: number;
  readonly lost: number;
  /** How long before the fault the oldest of the lost writes was acknowledged. */
  readonly ageMs: number;
}

let written = 0;

/** The members of a client that the load needs. */
export interface Writer {
  readonly status: string;
  sadd(key: string, member: number): Promise<number>;
  wait(replicas: number, ms: number): Promise<number>;
  disconnect(): void;
}

/** Writes a number that was not written before. Resolves when it counts as acknowledged. */
export type Write = (client: Writer, n: number) => Promise<unknown>;

const plain: Write = (client, n) => client.sadd(KEY, n);

/** Writers that record each acknowledgement. */
export class Load {
  readonly #client: Writer;
  readonly #write: Write;
  readonly #acknowledgedAt: Map<string, number> = new Map();
  readonly #loops: Promise<void>[] = [];
  #going = true;
  #stopped: number | undefined;

  /** Begins at once. */
  constructor(client: Writer, write: Write = plain) {
    this.#client = client;
    this.#write = write;
    for (let n = 0; n < LOOPS; n += 1) this.#loops.push(this.#loop());
  }

  get acknowledged(): number {
    return this.#acknowledgedAt.size;
  }

  /** When the newest write was acknowledged. */
  get lastAt(): number {
    return this.#instants.at(-1) ?? 0;
  }

  /** The longest time without any acknowledgement. */
  get longestPause(): number {
    const instants = this.#instants;
    return instants.reduce((longest, at, index) => Math.max(longest, at - (instants[index - 1] ?? at)), 0);
  }

  /** Resolves once the load has run for this long from now, and this many writes are acknowledged in that time. */
  async lasts(ms: number, atLeast = 0): Promise<void> {
    const from = performance.now();
    while (performance.now() - from < ms || this.acknowledged < atLeast) await this.#writeOne();
  }

  /** Injects the fault, and ends the loops. */
  async endsBy(inject: () => Promise<void>): Promise<void> {
    this.#stopped = performance.now();
    await inject();
    this.#going = false;
    this.#client.disconnect();
    await Promise.all(this.#loops);
  }

  /** The part of it on this machine, which has to be running. */
  async lossOn(machine: Machine): Promise<Loss> {
    const client = machine.client();
    const kept = new Set(await client.smembers(KEY));
    client.disconnect();
    const lost = [...this.#acknowledgedAt].filter(([n]) => !kept.has(n)).map(([, at]) => at);
    const oldest = lost.reduce((least, at) => Math.min(least, at), this.#stopped ?? performance.now());
    return { acknowledged: this.acknowledged, lost: lost.length, ageMs: (this.#stopped ?? oldest) - oldest };
  }

  get #instants(): number[] {
    return [...this.#acknowledgedAt.values()];
  }

  async #loop(): Promise<void> {
    while (this.#going) {
      try {
        await this.#writeOne();
      } catch {
        // The fault: unacknowledged writes do not count.
        if (this.#client.status === "end") return;
      }
    }
  }

  async #writeOne(): Promise<void> {
    const n = (written += 1);
    await this.#write(this.#client, n);
    this.#acknowledgedAt.set(String(n), performance.now());
  }
}

/** How many writes there are on this machine. */
export const countOn = async (machine: Machine): Promise<number> => {
  const client = machine.client();
  const count = await client.scard(KEY);
  client.disconnect();
  return count;
};

/** Makes this many writes; returns when all are acknowledged. */
export const write = async (machine: Machine, count: number): Promise<void> => {
  const client = machine.client();
  await Promise.all(Array.from({ length: count }, () => plain(client, (written += 1))));
  client.disconnect();
};
