import { KitUnavailableError, KitUnknownOutcomeError, type RedisLike, type RunOptions } from "@kit/core";
import { addressOf, type ClientContext, inTime, ObjectLife } from "@kit/core/toolkit";
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
  readonly life: ObjectLife;
  readonly context: ClientContext;
  readonly settings: ChatSettings;
  #division: Promise<Division> | undefined;
  /** The last answer. */
  #known: Division | undefined;
  #isChecked = false;
  #isCluster = false;
  /** Called at each call, with a key of each group of shards. */
  onUse: (key: string) => void = () => undefined;

  constructor(redis: RedisLike, settings: ChatSettings) {
    this.life = new ObjectLife(redis, settings, "The chat");
    this.context = this.life.context;
    this.settings = settings;
    // After a reconnect the server may be empty, and another process may choose another number of shards.
    const stopListening = this.context.executor.onDrop(() => {
      this.#isChecked = false;
      // On a Cluster the number has a node of its own, and chats on the others go on without that one.
      if (!this.#isCluster) this.#division = undefined;
    });
    this.life.onClosed(stopListening);
  }

  /** @throws {KitError} `KIT_LAYOUT`, or the server cannot be asked; `signal.reason`. */
  async open(signal?: AbortSignal): Promise<Division> {
    signal?.throwIfAborted();
    const asked = this.#divided();
    if (!this.#isChecked && this.#known) this.#check(this.#known);
    // Others wait for the same answer, so a signal ends only its caller's wait.
    const division = await (signal ? inTime(asked, { signal }) : asked);
    for (const [shard = 0] of division.groups) this.onUse(division.keys.heads(shard));
    return division;
  }

  #divided(): Promise<Division> {
    if (this.#division) return this.#division;
    this.#isChecked = true;
    const asked = this.#ask();
    this.#division = asked;
    asked.catch(() => {
      if (this.#division === asked) this.#division = undefined;
    });
    return asked;
  }

  /** Asks behind the calls whether the number is still the known one; stores it where it was lost. */
  #check({ keys }: Division): void {
    this.#isChecked = true;
    const checked = this.#ask(keys.shards);
    checked.then(
      () => (this.#division = checked),
      () => (this.#isChecked = false),
    );
  }

  /** Settings of every script call. */
  call(signal?: AbortSignal): RunOptions {
    return { deadlineMs: this.settings.deadlineMs, signal };
  }

  async #ask(wanted = this.settings.shards): Promise<Division> {
    const { deadlineMs } = this.settings;
    const isCluster = (this.#isCluster = await this.context.isCluster(deadlineMs));
    const { prefix, client } = this.context;
    const asked = { shards: wanted };
    const shards = await layout
      .run(this.context, { layout: layoutKey(prefix) }, asked, { deadlineMs })
      .catch((error: unknown) => {
        // The caller's own call was not sent, whatever the outcome of this one.
        throw error instanceof KitUnknownOutcomeError
          ? new KitUnavailableError(error.message, addressOf(client))
          : error;
      });
    const all = Array.from({ length: shards }, (_, shard) => shard);
    this.#known = { keys: new Keys(prefix, shards), groups: isCluster ? all.map((shard) => [shard]) : [all] };
    return this.#known;
  }
}
