import type { RedisLike } from "@kit/core";
import { type ClientContext, inTime, ObjectLife } from "@kit/core/toolkit";
import { ChatCommands } from "./commands.js";
import type { ChatSettings } from "./options.js";

/** The client, settings and life of a chat object, for all its parts. Gives out the commands for the present number of shards. */
export class ChatStore {
  readonly life: ObjectLife;
  readonly context: ClientContext;
  readonly settings: ChatSettings;
  #commands: Promise<ChatCommands> | undefined;
  /** The last commands that were found; they may be outdated. */
  #known: ChatCommands | undefined;
  #isChecked = false;
  #isCluster = false;
  /** Called by each `open`, with a key of each group of shards. */
  onUse: (key: string) => void = () => undefined;

  constructor(redis: RedisLike, settings: ChatSettings) {
    this.life = new ObjectLife(redis, settings, "The chat");
    this.context = this.life.context;
    this.settings = settings;
    // After a reconnect the server may be empty, and another process may choose another number of shards.
    const stopListening = this.context.executor.onDrop(() => {
      this.#isChecked = false;
      // On a Cluster the number has a node of its own, and chats on the others go on without that one.
      if (!this.#isCluster) this.#commands = undefined;
    });
    this.life.onClosed(stopListening);
  }

  /**
   * `open`, for a call that begins.
   *
   * @throws {KitClosedError} the chat object was closed.
   */
  async enter(signal?: AbortSignal): Promise<ChatCommands> {
    this.life.assertOpen();
    return await this.open(signal);
  }

  /** @throws {KitError} `KIT_LAYOUT`, or no reply of the server; `signal.reason`. */
  async open(signal?: AbortSignal): Promise<ChatCommands> {
    signal?.throwIfAborted();
    const found = this.#found();
    if (!this.#isChecked && this.#known) this.#check(this.#known);
    // Other callers wait for the same reply, so a signal ends only its caller's wait.
    const commands = await (signal ? inTime(found, { signal }) : found);
    for (const [shard = 0] of commands.groups) this.onUse(commands.keys.heads(shard));
    return commands;
  }

  #found(): Promise<ChatCommands> {
    if (this.#commands) return this.#commands;
    this.#isChecked = true;
    const found = this.#find();
    this.#commands = found;
    found.catch(() => {
      if (this.#commands === found) this.#commands = undefined;
    });
    return found;
  }

  /** Reads in the background whether the number of shards is still the same; stores it if the server lost it. */
  #check({ keys }: ChatCommands): void {
    this.#isChecked = true;
    const checked = this.#find(keys.shards);
    checked.then(
      () => (this.#commands = checked),
      () => (this.#isChecked = false),
    );
  }

  async #find(shards = this.settings.shards): Promise<ChatCommands> {
    const { deadlineMs } = this.settings;
    this.#isCluster = await this.context.isCluster(deadlineMs);
    return (this.#known = await ChatCommands.find(this.context, deadlineMs, shards, this.#isCluster));
  }
}
