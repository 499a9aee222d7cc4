import type { KitError } from "@kit/core";
import { asKitError, OutageReporter } from "@kit/core/toolkit";
import type { ChatStore } from "../store.js";

/** A note in the server lasts this long, so that a process that has died is not told for ever. */
const leaseMs = 30_000;
/** It is renewed by readers, and at the end of a blocked read, which takes 10 s at most. */
const renewMs = 10_000;

/**
 * Keeps a note in each shard that somebody hears of positions that move: only while there is one do acknowledgements announce
 * them. A position is stored in any case, so that a note that is late or lost costs readers a hint.
 */
export class Hearing {
  readonly #store: ChatStore;
  readonly #outage: OutageReporter;
  #renewedAt = -Infinity;
  #renewing = Promise.resolve();

  constructor(store: ChatStore, onError: (error: KitError) => void) {
    this.#store = store;
    this.#outage = new OutageReporter(onError);
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
      await Promise.all(commands.groups.map((group) => commands.hear(group, leaseMs)));
      this.#outage.worked("hearing");
    } catch (error) {
      this.#renewedAt = -Infinity;
      this.#outage.failed("hearing", asKitError(error, "Hearing of positions"));
    }
  }
}
