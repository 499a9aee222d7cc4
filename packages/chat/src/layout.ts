import { KitUnavailableError, KitUnknownOutcomeError } from "@kit/core";
import { addressOf, type ClientContext, Deadline, inTime, stored } from "@kit/core/toolkit";
import { layoutKey } from "./keys.js";
import { isPassing } from "./lost-shards.js";
import { chatRules } from "./options.js";
import * as scripts from "./scripts/index.js";

/** In how many shards a new process looks for a copy. */
const mostCopies = 16;

/**
 * The number of shards of a prefix. It has its own key, and each shard with chats has a copy. On a Cluster, a new process can
 * therefore use the chats of the other nodes while the key's node is lost.
 */
export class Layout {
  readonly #context: ClientContext;
  readonly #deadlineMs: number;

  constructor(context: ClientContext, deadlineMs: number) {
    this.#context = context;
    this.#deadlineMs = deadlineMs;
  }

  /**
   * Reads the number; stores `shards` if there is none. 0: only reads it.
   *
   * @throws {KitError} `KIT_LAYOUT`, or no reply of the server.
   */
  async find(shards: number, tag?: string): Promise<number> {
    const keys = { layout: layoutKey(this.#context.prefix, tag) };
    const options = { deadlineMs: this.#deadlineMs };
    const found = await scripts.layout.run(this.#context, keys, { shards }, options).catch((error: unknown) => {
      // The caller's own call was not sent, whatever the outcome of this read is.
      throw error instanceof KitUnknownOutcomeError
        ? new KitUnavailableError(error.message, addressOf(this.#context.client))
        : error;
    });
    if (found !== 0) stored(keys.layout, { shards: found }, { shards: chatRules.shards });
    return found;
  }

  /**
   * Reads the number on a Cluster; 0: there is none. If the key's node does not reply within `soonMs`, a copy counts, and `onCopy` is
   * called.
   *
   * @throws {KitError} as `find`.
   */
  async read(soonMs: number, onCopy: () => void): Promise<number> {
    const reading = this.find(0);
    const found = await inTime(reading, { deadline: Deadline.in(soonMs) }).catch((error: unknown) => {
      if (!isPassing(error)) throw error;
    });
    if (found !== undefined) return found;
    const copying = this.copy().then((copy) => {
      if (copy === 0) return reading;
      onCopy();
      return copy;
    });
    return await Promise.any([reading, copying]).catch(() => reading);
  }

  /** Reads a copy; 0 if none is found. */
  async copy(): Promise<number> {
    const copies = Array.from({ length: mostCopies }, async (_, shard) => {
      const found = await this.find(0, String(shard));
      return found === 0 ? Promise.reject(new Error("none")) : found;
    });
    // The first copy that is found: others may be on lost nodes.
    return await Promise.any(copies).catch(() => 0);
  }
}
