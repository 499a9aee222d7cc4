import { KitError } from "@kit/core";
import { backoffMs, type ObjectLife, type OutageReporter, pause } from "@kit/core/toolkit";

/** Whether the server may answer later, or another one will. */
export const isPassing = (error: unknown): error is KitError => error instanceof KitError && error.retryable;

/** A group of shards that does not answer. */
interface Loss {
  readonly error: KitError;
  readonly back: Promise<void>;
}

/**
 * The groups of shards of a Cluster whose node does not answer. Reads skip them, so that reads of other nodes don't wait for a
 * deadline. One loop for each group finds out when it answers again.
 */
export class LostShards {
  readonly #life: ObjectLife;
  readonly #outage: OutageReporter;
  /** By the first shard of the group. */
  readonly #lost = new Map<number, Loss>();
  /** Called when a group answers again: readers have skipped it. */
  onBack: () => void = () => undefined;

  constructor(life: ObjectLife, outage: OutageReporter) {
    this.#life = life;
    this.#outage = outage;
  }

  /** A group, by its first shard. */
  has(shard: number): boolean {
    return this.#lost.has(shard);
  }

  /** Resolves when the group answers again, or its object is closed. */
  async back(shard: number): Promise<void> {
    await this.#lost.get(shard)?.back;
  }

  errorOf(shard: number): KitError | undefined {
    return this.#lost.get(shard)?.error;
  }

  /** A read of the group failed. `probe` reads anything of it. */
  add(shard: number, error: KitError, probe: () => Promise<unknown>): void {
    if (this.#lost.has(shard) || this.#life.isClosed) return;
    this.#lost.set(shard, { error, back: this.#untilBack(shard, error, probe) });
  }

  async #untilBack(shard: number, error: KitError, probe: () => Promise<unknown>): Promise<void> {
    const loop = `reading shard ${String(shard)}`;
    this.#outage.failed(loop, error);
    const { signal } = this.#life;
    for (let attempt = 2; !signal.aborted; attempt++)
      try {
        await pause(Math.max(10, backoffMs(attempt, 50, 1_000)), signal);
        await probe();
        this.#outage.worked(loop);
        break;
      } catch (reason) {
        // Its readers get this error from now on.
        if (!isPassing(reason)) break;
      }
    this.#outage.ended(loop);
    this.#lost.delete(shard);
    this.onBack();
  }
}
