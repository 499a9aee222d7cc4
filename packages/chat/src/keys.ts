import { keyspace } from "@kit/core";
import { slotOf } from "@kit/core/toolkit";

/**
 * Every key that this package writes. `<tag>` is the number of a shard, and the hash tag: all keys of a chat, and what its
 * members have there, lie in one slot. Names are percent-encoded where they would part a key.
 *
 * | Key                                  | Type   | Content                                                    | Life                       |
 * | ------------------------------------ | ------ | ---------------------------------------------------------- | -------------------------- |
 * | `kit:chat:{shards}:layout`           | hash   | `layout`, `shards`                                         | permanent                  |
 * | `kit:chat:{<tag>}:heads`             | hash   | chat → `head floor headAt bytes floorBytes`                | while the shard has chats  |
 * | `kit:chat:{<tag>}:activity`          | stream | what changed: `c` chat, `s` sequence, `j` joined, `l` left | permanent, ~4,096 entries  |
 * | `kit:chat:{<tag>}:member:<user>`     | hash   | chat → `position from joinId epoch`                      | while it has chats there   |
 * | `kit:chat:{<tag>}:meta:<chat>`       | hash   | `layout`, `epoch`, `config`, `createdAt`, `losses`         | until `delete()`           |
 * | `kit:chat:{<tag>}:messages:<chat>`   | stream | `<sequence>-<ms>`: `f` sender; body `s`, `j` or `x`; `t`   | until `delete()`, or `ageMs` |
 * | `kit:chat:{<tag>}:positions:<chat>`  | zset   | member → position                                          | until `delete()`           |
 * | `kit:chat:{<tag>}:sent-even:<chat>`  | hash   | sender and client id → `sequence ms`, in windows of `dedupeMs` | twice `dedupeMs`       |
 * | `kit:chat:{<tag>}:sent-odd:<chat>`   | hash   | the same, of every other window                            | twice `dedupeMs`           |
 * | `kit:chat:{<tag>}:mailbox:<chat>`    | hash   | sequence → `deadline deliveries token`; empty field: `cursor seenAt epoch` | until `delete()` |
 */
export interface ChatKeys {
  readonly meta: string;
  readonly heads: string;
  readonly messages: string;
  readonly positions: string;
  readonly activity: string;
  readonly sentEven: string;
  readonly sentOdd: string;
  readonly mailbox: string;
}

/** Where the division into shards is stored. */
export const layoutKey = (prefix: string): string => keyspace("chat", prefix).key("shards", "layout");

/** The keys under one prefix, divided into so many shards. */
export class Keys {
  readonly shards: number;
  readonly #space: ReturnType<typeof keyspace>;
  readonly #tagAt: number;

  constructor(prefix: string, shards: number) {
    this.shards = shards;
    this.#space = keyspace("chat", prefix);
    this.#tagAt = this.#space.base("x").length - "x}:".length;
  }

  /** @throws {KitError} `KIT_NAME`: the name is empty, over 512 bytes, or not well-formed Unicode. */
  shardOf(chat: string): number {
    return slotOf(this.#escaped(chat)) % this.shards;
  }

  activity(shard: number): string {
    return `${this.#base(shard)}activity`;
  }

  heads(shard: number): string {
    return `${this.#base(shard)}heads`;
  }

  /** @throws {KitError} `KIT_NAME`, as `shardOf`. */
  member(shard: number, user: string): string {
    return `${this.#base(shard)}member:${this.#escaped(user)}`;
  }

  /** @throws {KitError} `KIT_NAME`, as `shardOf`. */
  chat(name: string): ChatKeys {
    const shard = this.shardOf(name);
    const base = this.#base(shard);
    const escaped = this.#escaped(name);
    return {
      meta: `${base}meta:${escaped}`,
      heads: `${base}heads`,
      messages: `${base}messages:${escaped}`,
      positions: `${base}positions:${escaped}`,
      activity: `${base}activity`,
      sentEven: `${base}sent-even:${escaped}`,
      sentOdd: `${base}sent-odd:${escaped}`,
      mailbox: `${base}mailbox:${escaped}`,
    };
  }

  #base(shard: number): string {
    return this.#space.base(String(shard));
  }

  #escaped(name: string): string {
    return this.#space.base(name).slice(this.#tagAt, -"}:".length);
  }
}
