import {
  asKitError,
  backoffMs,
  Deadline,
  type ExclusiveConnection,
  onAbort,
  type OutageReporter,
  pause,
} from "@kit/core/toolkit";
import type { Keys } from "../keys.js";
import type { ChatStore } from "../store.js";
import { entriesOf, isAfter, streamsOf } from "./activity.js";
import type { PositionSubscription } from "./subscription.js";
import type { WaitRegistry } from "./wait-registry.js";

/** A read blocks for this long and is then sent again, so that a silent connection is noticed. */
const blockMs = 10_000;
const answerMs = 2_000;
/** The largest number of shards. */
const mostConnections = 256;
const pageEntries = 500;
/** A single reconnect is not reported. */
const reportedAttempt = 2;

/**
 * Reads the activity by blocked reads on dedicated connections while there are waits: one for all shards, on a Cluster one for each.
 * A new connection continues after the last known entry, if the server still has it; otherwise all waiters are woken and read for
 * themselves.
 */
export class BlockedReads {
  readonly #store: ChatStore;
  readonly #registry: WaitRegistry;
  readonly #subscription: PositionSubscription;
  readonly #outage: OutageReporter;
  /** Groups of shards that are being read, by their numbers: after each reconnect the store has new lists. */
  readonly #running = new Set<string>();

  constructor(store: ChatStore, registry: WaitRegistry, subscription: PositionSubscription) {
    this.#store = store;
    this.#registry = registry;
    this.#subscription = subscription;
    this.#outage = store.outage;
  }

  /** Reads these groups of shards until there is no wait. */
  start(groups: readonly (readonly number[])[]): void {
    for (const group of groups) if (!this.#running.has(group.join())) void this.#run(group);
  }

  /** Reads a group of shards until there is no wait, reconnecting as needed. */
  async #run(group: readonly number[]): Promise<void> {
    this.#running.add(group.join());
    const loop = `waiting for ${group.join()}`;
    const { signal } = this.#store.life;
    let attempt = 0;
    // After its end, a client receives no news.
    while (this.#registry.hasWaiters() && !signal.aborted && !this.#store.context.executor.isEnded) {
      let connection: ExclusiveConnection | undefined;
      // Then all waits start again.
      await this.#store.lost.back(group[0] ?? 0);
      try {
        const { keys } = await this.#store.open(signal);
        const pool = this.#store.context.pool("chat", mostConnections);
        connection = await pool.checkOut(keys.activity(group[0] ?? 0), Deadline.in(answerMs), signal);
        const stopListening = onAbort(signal, () => connection?.returnToPool(false));
        try {
          const isWhole = await this.#read(connection, keys, group, loop, () => {
            attempt = 0;
          });
          if (!isWhole) this.#registry.forgetAll();
        } finally {
          stopListening();
        }
      } catch (error) {
        connection?.misrouted(replyOf(error));
        if (!signal.aborted && ++attempt >= reportedAttempt)
          this.#outage.failed(loop, asKitError(error, "Waiting for messages"));
        await pause(Math.max(10, backoffMs(attempt + 1, 50, 1_000)), signal).catch(() => undefined);
      } finally {
        connection?.returnToPool(false);
      }
    }
    this.#running.delete(group.join());
    this.#outage.ended(loop);
    this.#registry.forget(group);
  }

  /** Reads on one connection until there is no wait; false if the server no longer has all entries. */
  async #read(
    connection: ExclusiveConnection,
    keys: Keys,
    group: readonly number[],
    loop: string,
    onReply: () => void,
  ): Promise<boolean> {
    const names = group.map((shard) => keys.activity(shard));
    let isSure = false;
    while (this.#registry.hasWaiters() && !this.#store.life.signal.aborted) {
      const tails = group.map((shard) => this.#registry.tailOf(shard));
      const lasts = tails.flatMap((tail) => (tail ? [tail.last] : []));
      if (lasts.length < tails.length) return false;
      if (!isSure) {
        const areThere = await this.#areThere(connection, names, lasts);
        this.#outage.connected(loop);
        if (!areThere) return false;
      }
      if (this.#registry.hasPositionWaits) void this.#subscription.renew();
      const args = ["BLOCK", blockMs, "COUNT", pageEntries, "STREAMS", ...names, ...lasts];
      const reply = streamsOf(await connection.call("XREAD", args, blockMs + answerMs));
      onReply();
      this.#outage.worked(loop);
      // The shards were read again meanwhile, perhaps from an earlier entry.
      if (group.some((shard, index) => this.#registry.tailOf(shard) !== tails[index])) return false;
      isSure = true;
      for (const [name, raw] of reply) {
        // A full page may be followed by more entries than the server keeps.
        if (raw.length === pageEntries) isSure = false;
        // The client may add its own prefix.
        const shard = group[names.findIndex((own) => name.endsWith(own))];
        const tail = this.#registry.tailOf(shard ?? -1);
        if (tail)
          for (const entry of entriesOf(raw)) if (isAfter(entry.id, tail.last)) this.#registry.take(tail, entry);
      }
    }
    return true;
  }

  /**
   * Whether the server still has the last known entry of each shard: then no later one was dropped or belongs to another
   * history.
   */
  async #areThere(connection: ExclusiveConnection, names: string[], lasts: string[]): Promise<boolean> {
    const found = await Promise.all(
      names.map((name, index) => connection.call("XRANGE", [name, lasts[index] ?? "", lasts[index] ?? ""], answerMs)),
    );
    return found.every((entries, index) => lasts[index] === "0-0" || (entries as unknown[]).length > 0);
  }
}

const replyOf = (error: unknown): string => (error instanceof Error ? error.message : "");
