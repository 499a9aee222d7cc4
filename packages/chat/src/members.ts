import { newToken } from "@kit/core/toolkit";
import { assertDone, type ChatCommands } from "./commands.js";
import type { Creation, ResolvedMembersOptions } from "./options.js";
import type { ChatStore } from "./store.js";

/** The most members in one script. */
const pageSize = 500;

/** Replies of `create.lua`: a deletion of a chat of that name is not finished; the number of shards must be read. */
const unfinished = 2;
const unsure = 3;

/** A page of members. */
export interface MembersPage {
  readonly members: readonly { readonly member: string; readonly position: number; readonly unread: number }[];
  /** For the next page; undefined after the last page. */
  readonly cursor: string | undefined;
}

/** Makes and deletes chats, and changes their members. */
export class Members {
  readonly #store: ChatStore;

  constructor(store: ChatStore) {
    this.#store = store;
  }

  async create(chat: string, creation: Creation): Promise<{ readonly created: boolean }> {
    const { members } = creation;
    let commands = await this.#store.enter();
    const shard = commands.keys.shardOf(chat);
    // If one of the names is invalid, nothing is created.
    for (const name of members) commands.keys.member(shard, name);
    const epoch = newToken().replaceAll("-", "").slice(0, 16);
    let isSure = false;
    const make = () => commands.create(chat, creation, epoch, isSure, members.slice(0, pageSize));
    let code = await make();
    for (; code === unfinished || code === unsure; code = await make())
      if (code === unfinished) await forget(commands, chat, []);
      else [commands, isSure] = [await this.#store.reopen(), true];
    if (code !== 0) return { created: false };
    for (let from = pageSize; from < members.length; from += pageSize)
      await this.join(chat, members.slice(from, from + pageSize), "none");
    return { created: true };
  }

  /** Resolves with their positions. */
  async join(chat: string, names: readonly string[], history: string): Promise<readonly number[]> {
    const commands = await this.#store.enter();
    const [code = 0, ...positions] = await commands.join(chat, names, history);
    assertDone(code, chat);
    return positions;
  }

  async leave(chat: string, user: string): Promise<void> {
    const commands = await this.#store.enter();
    await commands.leave(chat, user, "");
  }

  /** Also while the chat object closes. Resolves with whether it was removed: it stays if its position is beyond `upTo` by now. */
  async removeLagging(chat: string, user: string, upTo: string): Promise<boolean> {
    const commands = await this.#store.open();
    return (await commands.leave(chat, user, upTo)) === 1;
  }

  async list(chat: string, options: ResolvedMembersOptions): Promise<MembersPage> {
    const commands = await this.#store.enter();
    const { code, members, cursor } = await commands.members({ chat, ...options });
    assertDone(code, chat);
    return { members, cursor: cursor === "0" ? undefined : cursor };
  }

  async delete(chat: string): Promise<void> {
    const commands = await this.#store.enter();
    const names = await commands.remove(chat);
    if (names.length > 0) await forget(commands, chat, names);
  }
}

/** Removes these and all other members of a deleted chat; none if the chat was made again. */
const forget = async (commands: ChatCommands, chat: string, some: readonly string[]): Promise<void> => {
  let names = some;
  do names = await commands.forget(chat, names);
  while (names.length > 0);
};
