import type { ClientContext } from "@kit/core/toolkit";
import type { ServerTime } from "./clock.js";
import * as scripts from "./scripts/index.js";
import type { Sender } from "./sender.js";

/** So many keys are read by one call. */
const maxKeys = 500;

/** What all metrics of one statistics object work with. */
export class Shared {
  readonly context: ClientContext;
  readonly clock: ServerTime;
  readonly sender: Sender;
  readonly deadlineMs: number;
  /** A metric has no room for another series. */
  readonly overflow: (metric: string, maxSeries: number) => void;
  /** Something failed that no caller waits for. */
  readonly failed: (error: unknown) => void;

  constructor(of: {
    readonly context: ClientContext;
    readonly clock: ServerTime;
    readonly sender: Sender;
    readonly deadlineMs: number;
    readonly overflow: (metric: string, maxSeries: number) => void;
    readonly failed: (error: unknown) => void;
  }) {
    this.context = of.context;
    this.clock = of.clock;
    this.sender = of.sender;
    this.deadlineMs = of.deadlineMs;
    this.overflow = of.overflow;
    this.failed = of.failed;
  }

  get prefix(): string {
    return this.context.prefix;
  }

  /** The server's epoch milliseconds, by what is known; asks if nothing is. */
  async serverNow(): Promise<number> {
    await this.sender.learnTime();
    return this.clock.now();
  }

  /** Reads sorted sets of one slot; `limit` 0: all of each. */
  async lists(keys: readonly string[], limit: number): Promise<scripts.ListsReply> {
    if (keys.length === 0) return [];
    return await scripts.lists.run(this.context, { lists: keys }, { limit }, { deadlineMs: this.deadlineMs });
  }

  /** Reads hashes of one slot; many of them in several calls, so not at one instant. `now` is that of the last. */
  async read(keys: readonly string[]): Promise<scripts.HashesReply> {
    const hashes: ReadonlyMap<string, string>[] = [];
    let now = this.clock.now();
    for (let first = 0; first < keys.length; first += maxKeys) {
      const sentAt = performance.now();
      const part = keys.slice(first, first + maxKeys);
      const reply = await scripts.read.run(this.context, { hashes: part }, {}, { deadlineMs: this.deadlineMs });
      this.clock.observe(sentAt, reply.now);
      now = reply.now;
      hashes.push(...reply.hashes);
    }
    return { now, hashes };
  }
}
