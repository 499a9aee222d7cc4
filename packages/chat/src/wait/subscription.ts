import { asKitError, OutageReporter } from "@kit/core/toolkit";
import type { ChatStore } from "../store.js";

/** A note in the server lasts this long, so that acknowledgements announce nothing for long to a process that died. */
const leaseMs = 30_000;
/** Readers renew it, and so does a blocked read at its end, after 10 s at most. */
const renewMs = 10_000;

/**
 * Subscribes a chat object to positions that move: it keeps a note in each shard, and acknowledgements announce positions only while
 * a shard has one. A position is stored in any case, so a note that is late or lost costs readers a hint.
 */
export class PositionSubscription {
  readonly #store: ChatStore;
  readonly #outage: OutageReporter;
  #renewedAt = -Infinity;
  #renewing = Promise.resolve();

  constructor(store: ChatStore) {
    this.#store = store;
    this.#outage = new OutageReporter(store.onError);
  }

  /** Resolves when there is a note, or it failed, which is reported; never rejects. */
  renew(): Promise<void> {
    if (performance.now() - this.#renewedAt < renewMs) return this.#renewing;
    this.#renewedAt = performance.now();
    return (this.#renewing = this.#renew());
  }

  async #renew(): Promise<void> {
    try {
      const commands = await this.#store.open();
      const living = commands.groups.filter(([shard = 0]) => !this.#store.lost.has(shard));
      await Promise.all(living.map((group) => commands.subscribe(group, leaseMs)));
      this.#outage.worked("subscription");
    } catch (error) {
      this.#renewedAt = -Infinity;
      this.#outage.failed("subscription", asKitError(error, "Subscribing to positions"));
    }
  }
}
