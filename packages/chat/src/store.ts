import { KitUnavailableError, KitUnknownOutcomeError, type RedisLike, type RunOptions } from "@kit/core";
import { addressOf, attach, type ClientContext, Deadline, reading, unlessAborted } from "@kit/core/toolkit";
import { Keys, layoutKey } from "./keys.js";
import type { ChatSettings } from "./options.js";
import { layout } from "./scripts/index.js";

/** The division of a prefix's chats into shards. */
export interface Division {
  readonly keys: Keys;
  /** Groups of shards that one script may access: all of them on a single server, each one alone on a Cluster. */
  readonly groups: readonly (readonly number[])[];
}

/** The chats of one prefix on one client, for all parts of this package. */
export class ChatStore {
  readonly context: ClientContext;
  readonly settings: ChatSettings;
  readonly #stopListening: () => void;
  #division: Promise<Division> | undefined;

  constructor(redis: RedisLike, settings: ChatSettings) {
    this.context = attach(redis, settings);
    this.settings = settings;
    // After a reconnect the server may be empty, and another process may choose another number of shards.
    this.#stopListening = this.context.executor.onDrop(() => {
      this.#division = undefined;
    });
  }

  /** @throws {KitError} `KIT_LAYOUT`, or the server cannot be asked; `signal.reason`. */
  async open(signal?: AbortSignal): Promise<Division> {
    signal?.throwIfAborted();
    const asked = this.#divided();
    // Others wait for the same answer, so a signal ends only its caller's wait.
    return await (signal ? unlessAborted(asked, signal) : asked);
  }

  #divided(): Promise<Division> {
    if (this.#division) return this.#division;
    const asked = this.#ask();
    this.#division = asked;
    asked.catch(() => {
      if (this.#division === asked) this.#division = undefined;
    });
    return asked;
  }

  /** Settings of every script call. */
  call(signal?: AbortSignal): RunOptions {
    return { deadlineMs: this.settings.deadlineMs, signal };
  }

  close(): void {
    this.#stopListening();
    this.context.detach();
  }

  async #ask(): Promise<Division> {
    const { deadlineMs } = this.settings;
    const isCluster = await this.context.isCluster(deadlineMs);
    const { prefix, client } = this.context;
    const asked = { shards: this.settings.shards };
    const shards = await layout
      .run(this.context, { layout: layoutKey(prefix) }, asked, { deadlineMs })
      .catch((error: unknown) => {
        // The caller's own call was not sent, whatever the outcome of this one.
        throw error instanceof KitUnknownOutcomeError
          ? new KitUnavailableError(error.message, addressOf(client))
          : error;
      });
    const all = Array.from({ length: shards }, (_, shard) => shard);
    return { keys: new Keys(prefix, shards), groups: isCluster ? all.map((shard) => [shard]) : [all] };
  }

  /** Reports once whether the server may evict our keys; a server that does not reveal it is not asked again. */
  async evictionPolicy(): Promise<string | undefined> {
    const call = reading("INFO memory", Deadline.in(2_000));
    const info = await this.context.executor.run("INFO", ["memory"], call).then(String, () => "");
    const policy = /maxmemory_policy:(\S+)/.exec(info)?.[1];
    return policy?.startsWith("allkeys") ? policy : undefined;
  }
}
