import { KitUnavailableError, KitUnknownOutcomeError, type RedisLike, type RunOptions } from "@kit/core";
import { addressOf, attach, type ClientContext, Deadline, reading, unlessAborted } from "@kit/core/toolkit";
import { Keys, layoutKey } from "./keys.js";
import type { ChatSettings } from "./options.js";
import { layout } from "./scripts/index.js";

/** How the chats of a prefix are divided. */
export interface Division {
  readonly keys: Keys;
  /** Shards that one script may reach together: all of a single server, each for itself on a Cluster. */
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
    // Behind the next connection may be an emptied server, whose chats somebody else divides otherwise.
    this.#stopListening = this.context.executor.onDrop(() => {
      this.#division = undefined;
    });
  }

  /** @throws {KitError} `KIT_LAYOUT`, or the server cannot be asked; `signal.reason`. */
  async open(signal?: AbortSignal): Promise<Division> {
    signal?.throwIfAborted();
    const asked = this.#divided();
    // Others wait for the same answer, so that a signal ends only its own wait.
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

  /** How each script is called. */
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
        // The call that wants to know has not been sent, whatever became of this one.
        throw error instanceof KitUnknownOutcomeError
          ? new KitUnavailableError(error.message, addressOf(client))
          : error;
      });
    const all = Array.from({ length: shards }, (_, shard) => shard);
    return { keys: new Keys(prefix, shards), groups: isCluster ? all.map((shard) => [shard]) : [all] };
  }

  /** Tells once whether the server may evict our keys; a server that does not say is not asked again. */
  async evictionPolicy(): Promise<string | undefined> {
    const call = reading("INFO memory", Deadline.in(2_000));
    const info = await this.context.executor.run("INFO", ["memory"], call).then(String, () => "");
    const policy = /maxmemory_policy:(\S+)/.exec(info)?.[1];
    return policy?.startsWith("allkeys") ? policy : undefined;
  }
}
