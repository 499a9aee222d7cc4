import { type Deadline, newToken } from "@kit/core/toolkit";
import { Reader } from "./reader.js";
import type { ChatStore } from "./store.js";
import { nowhere } from "./token.js";
import type { Watcher } from "./watcher.js";

/** Waits for what is sent to one chat, for somebody who need not be a member. */
export class ChatWatch {
  readonly #store: ChatStore;
  readonly #watcher: Watcher;
  readonly #chat: string;
  /** Under which the watcher knows it; no member has this name. */
  readonly #name = newToken();

  constructor(store: ChatStore, watcher: Watcher, chat: string) {
    this.#store = store;
    this.#watcher = watcher;
    this.#chat = chat;
  }

  /** Where the shards stand now. Look at the chat after this and before `wait`, and nothing is missed. */
  async standing(signal: AbortSignal | undefined): Promise<readonly string[]> {
    const known = this.#watcher.standing(this.#name);
    if (known) return known;
    const { keys } = await this.#store.open(signal);
    const reader = new Reader(this.#store, this.#name, nowhere(keys.shards), false);
    const parts = (await reader.look(1, false, signal)).map(({ part }) => part);
    this.#watcher.learn(this.#name, parts, [[this.#chat]]);
    return parts;
  }

  /** Resolves when something may have come since `parts`, or at the deadline. */
  async wait(parts: readonly string[], deadline: Deadline | undefined, signal: AbortSignal | undefined): Promise<void> {
    await this.#watcher.wait(this.#name, parts, deadline, signal);
  }
}
