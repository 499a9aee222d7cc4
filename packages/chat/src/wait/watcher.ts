import { assertConnections, type Deadline, newToken, settled } from "@kit/core/toolkit";
import { startPosition } from "../read/position.js";
import { Reader } from "../read/reader.js";
import type { ChatStore } from "../store.js";
import { BlockedReads } from "./blocked-reads.js";
import { PositionSubscription } from "./subscription.js";
import { ofChat, ofLost, ofMember, WaitRegistry } from "./wait-registry.js";

/** A name for reading the position of the shards; no member can have it. */
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
  readonly subscription: PositionSubscription;

  constructor(store: ChatStore) {
    this.#store = store;
    this.subscription = new PositionSubscription(store);
    this.#reads = new BlockedReads(store, this.#registry, this.subscription);
    store.lost.onBack = () => this.#registry.forgetAll();
  }

  /**
   * Resolves with true when there is or may be news after a reader's position; with false at the deadline.
   *
   * @throws the error of the reader; `signal.reason`.
   */
  async wait(
    reader: Reader<unknown>,
    deadline: Deadline | undefined,
    signal: AbortSignal | undefined,
  ): Promise<boolean> {
    const { member, position, withPositions } = reader;
    const name = ofMember(member);
    const positions = (): string[] => this.#ofLiving(position.shards);
    const isWalking = (): boolean => !positions().every((one) => one === ofLost || one.startsWith("a "));
    for (
      let isFirst = true;
      isWalking() || !this.#registry.has(name) || this.#registry.isBehind(positions());
      isFirst = false
    ) {
      const isWithNames = isFirst || !isWalking();
      const shards = await reader.look(Infinity, isWithNames, signal);
      if (shards.some(({ changes, left, moved }) => changes.length + left.length + moved.length > 0)) return true;
      position.shards.splice(0, Infinity, ...shards.map((shard) => shard.position));
      if (shards.some(({ isMore }) => isMore) || !isWithNames) continue;
      // If a shard was lost then and is back now, its chats are unknown.
      if (shards.some(({ error }, shard) => error && !this.#store.lost.has(shard))) continue;
      const chats = shards.flatMap(({ names }) => names);
      if (!this.#registry.learn(name, positions(), chats)) return true;
    }
    return await this.#wait(name, positions(), deadline, signal, withPositions);
  }

  /** The present position in the shards. Read the chat after this and before `waitFor`, and nothing is missed. */
  async positionsFor(chat: string, signal: AbortSignal | undefined): Promise<readonly string[]> {
    const name = ofChat(chat);
    if (this.#registry.has(name)) return this.#registry.positions();
    const { keys } = await this.#store.open(signal);
    const reader = new Reader(this.#store, nobody, startPosition(keys.shards), false);
    const shards = await reader.look(1, false, signal);
    const positions = shards.map(({ error, position }) => (error ? ofLost : position));
    this.#registry.learn(name, positions, [chat]);
    return positions;
  }

  /** Resolves when something may have been added to a chat since `positions`, or at the deadline. */
  async waitFor(
    chat: string,
    positions: readonly string[],
    deadline: Deadline | undefined,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    await this.#wait(ofChat(chat), positions, deadline, signal);
  }

  /** Wakes all waits. The blocked reads end with the signal of the object's life. */
  close(): void {
    this.#registry.forgetAll();
  }

  /** Positions in lost shards do not end a reader's waits. All waits start over when a shard answers again. */
  #ofLiving(positions: readonly string[]): string[] {
    return positions.map((position, shard) => (this.#store.lost.has(shard) ? ofLost : position));
  }

  /** @throws `signal.reason` */
  async #wait(
    name: string,
    positions: readonly string[],
    deadline: Deadline | undefined,
    signal: AbortSignal | undefined,
    withPositions = false,
  ): Promise<boolean> {
    assertConnections(this.#store.context.client);
    const { groups } = await this.#store.open(signal);
    if (this.#store.life.isClosed || this.#registry.mayHaveMissed(name, positions, withPositions)) return true;
    return await settled<boolean>(
      { deadline, signal },
      ({ resolve }) => resolve(false),
      ({ resolve }) => {
        const remove = this.#registry.add(name, () => resolve(true), withPositions);
        this.#reads.start(groups);
        return remove;
      },
    );
  }
}
