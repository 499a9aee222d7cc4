import type { KitError, RedisLike } from "@kit/core";
import { type ClientContext, inTime, isClusterClient, ObjectLife, OutageReporter } from "@kit/core/toolkit";
import { ChatCommands } from "./commands.js";
import { Layout } from "./layout.js";
import { isPassing, LostShards } from "./lost-shards.js";
import type { ChatSettings } from "./options.js";

/** The client, settings and life of a chat object, for all its parts. Gives out the commands for the present number of shards. */
export class ChatStore {
  readonly life: ObjectLife;
  readonly context: ClientContext;
  readonly settings: ChatSettings;
  readonly onError: (error: KitError) => void;
  /** Shared by all loops that read. */
  readonly outage: OutageReporter;
  readonly lost: LostShards;
  readonly #layout: Layout;
  #commands: Promise<ChatCommands> | undefined;
  /** The last commands that were found; they may be outdated. */
  #known: ChatCommands | undefined;
  #isChecked = false;
  #isCluster: boolean;
  /** Called by each `open`, with a key of each group of shards. */
  onUse: (key: string) => void = () => undefined;

  constructor(redis: RedisLike, settings: ChatSettings, onError: (error: KitError) => void) {
    this.life = new ObjectLife(redis, settings, "The chat");
    this.context = this.life.context;
    this.settings = settings;
    this.onError = onError;
    this.outage = new OutageReporter(onError);
    this.lost = new LostShards(this.life, this.outage);
    this.#layout = new Layout(this.context, settings.deadlineMs);
    // Until the server has answered: a lost node would otherwise discard the number that is being read.
    this.#isCluster = isClusterClient(this.context.client);
    // After a reconnect the server may be empty, and another process may choose another number of shards.
    const stopListening = this.context.executor.onDrop(() => {
      this.#isChecked = false;
      // On a Cluster, one node has the number. Chats on other nodes continue without that node.
      if (!this.#isCluster) this.#commands = undefined;
    });
    this.life.onClosed(stopListening);
  }

  /**
   * `open`, for a call that starts.
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
    if (!this.#isChecked && this.#known) this.#check();
    // Other callers wait for the same reply, so a signal ends only its caller's wait.
    const commands = await (signal ? inTime(found, { signal }) : found);
    for (const [shard = 0] of commands.groups) this.onUse(commands.keys.heads(shard));
    return commands;
  }

  /**
   * Reads the number of shards again, since a shard is new or the server has lost data. If it has lost the number as well, the present
   * one is stored.
   *
   * @throws {KitError} `KIT_LAYOUT`, or no reply of the server.
   */
  async reopen(): Promise<ChatCommands> {
    try {
      const found = await this.#again();
      this.#commands = Promise.resolve(found);
      return found;
    } catch (error) {
      // On a Cluster, one node has the number.
      if (!this.#isCluster || !isPassing(error) || !this.#known) throw error;
      return this.#known;
    }
  }

  /** The same behind the next call. */
  recheck(): void {
    this.#isChecked = false;
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
  #check(): void {
    this.#isChecked = true;
    const checked = this.#again();
    checked.then(
      () => (this.#commands = checked),
      () => (this.#isChecked = false),
    );
  }

  async #again(): Promise<ChatCommands> {
    return this.#made(await this.#layout.find(this.#known?.keys.shards ?? this.settings.shards));
  }

  async #find(): Promise<ChatCommands> {
    // On a Cluster, a lost node must not use up the time of a call to another node.
    const soonMs = Math.ceil(this.settings.deadlineMs / 8);
    this.#isCluster = await this.#asked(soonMs);
    if (!this.#isCluster) return await this.#again();
    const found = await this.#layout.read(soonMs, () => (this.#isChecked = false));
    return this.#made(found || (await this.#layout.find((await this.#layout.copy()) || this.settings.shards)));
  }

  /** Any node answers. If a Cluster client asked a lost one, the server is taken for what the client expects. */
  async #asked(soonMs: number): Promise<boolean> {
    const isExpected = isClusterClient(this.context.client);
    try {
      return await this.context.isCluster(isExpected ? soonMs : 4 * soonMs);
    } catch (error) {
      if (isPassing(error) && isExpected) return true;
      throw error;
    }
  }

  #made(shards: number): ChatCommands {
    return (this.#known = new ChatCommands(this.context, this.settings.deadlineMs, shards, this.#isCluster));
  }
}
