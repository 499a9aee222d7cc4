import type { Overview } from "@kit/queue/manage";

/** The numbers of a queue at one time. */
export interface Sample {
  /** In epoch ms of the server. */
  readonly at: number;
  readonly ready: number;
  readonly active: number;
  readonly completed: number;
  readonly died: number;
}

/** How long samples are kept, the minimum time between two samples, and the maximum number of queues. */
const keptMs = 1_800_000;
const betweenMs = 4_000;
const maxQueues = 50;

/** The numbers that the pages of queues have shown. They are in memory, because charts need them and Redis stores no history. */
export class Samples {
  readonly #byQueue = new Map<string, Sample[]>();

  /** Adds a sample, and returns all of the last half hour. */
  take(queue: string, seen: Overview): readonly Sample[] {
    const { now, waiting, prioritised, suspended, grouped, active, completed, died } = seen;
    const sample = { at: now, ready: waiting + prioritised + suspended + grouped, active, completed, died };
    const last = this.#byQueue.get(queue)?.at(-1);
    // A queue that was deleted starts again.
    const isSame = last !== undefined && last.completed <= completed && last.died <= died && last.at <= now;
    const kept = isSame ? (this.#byQueue.get(queue) ?? []).filter(({ at }) => now - at <= keptMs) : [];
    const [before, newest] = kept.slice(-2);
    if (before && newest && newest.at - before.at < betweenMs) kept.pop();
    kept.push(sample);
    this.#byQueue.delete(queue);
    this.#byQueue.set(queue, kept);
    const [oldest = ""] = this.#byQueue.keys();
    if (this.#byQueue.size > maxQueues) this.#byQueue.delete(oldest);
    return kept;
  }
}
