import type { KitError } from "@kit/core";
import { type Deadline, newToken, OutageReporter, settled } from "@kit/core/toolkit";
import { BlockedReads } from "./blocked-reads.js";
import { Hearing } from "./hearing.js";
import { Reader } from "../read/reader.js";
import type { ChatStore } from "../store.js";
import { nowhere } from "../read/token.js";
import { ofChat, ofMember, WaitRegistry } from "./wait-registry.js";

/** A name for reading the place of the shards; no member can have it. */
const nobody = newToken();
/**
 * Waits for news of members and of single chats, without polling.
 *
 * The first wait of a member reads its chats; later joins and leaves in the activity keep them right.
 */
export class Watcher {
  readonly #store: ChatStore;
  readonly #registry = new WaitRegistry();
  readonly #reads: BlockedReads;
  /** Of the blocked reads, and of the listeners. */
  readonly outage: OutageReporter;
  readonly hearing: Hearing;

  constructor(store: ChatStore, onError: (error: KitError) => void) {
    this.#store = store;
    this.outage = new OutageReporter(onError);
    this.hearing = new Hearing(store, onError);
    this.#reads = new BlockedReads(store, this.#registry, this.hearing, this.outage);
  }

  /**
   * Resolves with true when there is or may be news behind a reader's place; with false at the deadline.
   *
   * @throws the error of the reader; `signal.reason`.
   */
  async wait(
    reader: Reader<unknown>,
    deadline: Deadline | undefined,
    signal: AbortSignal | undefined,
  ): Promise<boolean> {
    const { member, standing, hearing } = reader;
    const name = ofMember(member);
    const isWalking = (): boolean => !standing.parts.every((part) => part.startsWith("a "));
    for (
      let isFirst = true;
      isWalking() || !this.#registry.has(name) || this.#registry.isBehind(standing.parts);
      isFirst = false
    ) {
      const isWithNames = isFirst || !isWalking();
      const shards = await reader.look(Infinity, isWithNames, signal);
      if (shards.some(({ changes, left, moved }) => changes.length + left.length + moved.length > 0)) return true;
      standing.parts.splice(0, Infinity, ...shards.map(({ part }) => part));
      if (shards.some(({ isMore }) => isMore) || !isWithNames) continue;
      const chats = shards.flatMap(({ names }) => names);
      if (!this.#registry.learn(name, standing.parts, chats)) return true;
    }
    return await this.#wait(name, standing.parts, deadline, signal, hearing !== undefined);
  }

  /** The present place of the shards. Read the chat after this and before `waitFor`, and nothing is missed. */
  async standingFor(chat: string, signal: AbortSignal | undefined): Promise<readonly string[]> {
    const name = ofChat(chat);
    if (this.#registry.has(name)) return this.#registry.place();
    const { keys } = await this.#store.open(signal);
    const reader = new Reader(this.#store, nobody, nowhere(keys.shards), false);
    const parts = (await reader.look(1, false, signal)).map(({ part }) => part);
    this.#registry.learn(name, parts, [chat]);
    return parts;
  }

  /** Resolves when something may have been added to a chat since `parts`, or at the deadline. */
  async waitFor(
    chat: string,
    parts: readonly string[],
    deadline: Deadline | undefined,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    await this.#wait(ofChat(chat), parts, deadline, signal);
  }

  /** Wakes everybody and ends all connections. */
  close(): void {
    this.#reads.close();
    this.#registry.forgetAll();
  }

  /** @throws `signal.reason` */
  async #wait(
    name: string,
    parts: readonly string[],
    deadline: Deadline | undefined,
    signal: AbortSignal | undefined,
    hears = false,
  ): Promise<boolean> {
    const { groups } = await this.#store.open(signal);
    if (this.#reads.isClosed || this.#registry.mayHaveMissed(name, parts, hears)) return true;
    return await settled<boolean>(
      { deadline, signal },
      ({ resolve }) => resolve(false),
      ({ resolve }) => {
        const remove = this.#registry.add(name, () => resolve(true), hears);
        this.#reads.start(groups);
        return remove;
      },
    );
  }
}
