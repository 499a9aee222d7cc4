import { keyspace } from "@kit/core";
import { slotOf } from "@kit/core/toolkit";

/**
 * Every key that this package writes. `<tag>` is the number of a shard, and the hash tag. All keys of a shard are in one slot.
 * Colons, braces, percent signs and control characters of a name are percent-encoded:
 * `XRANGE kit:chat:{7}:messages:order%3A17 - +` shows the messages of chat `order:17` if its shard is 7.
 *
 * | Key                                | Type   | Content                                                    | Life                       |
 * | ---------------------------------- | ------ | ---------------------------------------------------------- | -------------------------- |
 * | `kit:chat:{shards}:layout`         | hash   | `layout`, and the number of `shards`                       | permanent                  |
 * | `kit:chat:{<tag>}:layout`          | hash   | a copy, in each shard that ever had a chat                      | permanent                  |
 * | `kit:chat:{<tag>}:heads`           | hash   | chat → `head floor headAt bytes floorBytes`; empty field: until when positions are announced | while the shard has chats |
 * | `kit:chat:{<tag>}:activity`        | stream | changes, each with the chat as `c`: `s` sent sequence, `j` joined, `l` left, `d` left because the chat was deleted, `r` sequence that a worker returned, `p` position that moved | permanent, about 4,096 entries |
 * | `kit:chat:{<tag>}:member:<user>`   | hash   | chat → `position from joinId epoch`                        | while the user has chats in the shard   |
 * | `kit:chat:{<tag>}:meta:<chat>`     | hash   | `layout`, `epoch`, `config`, `createdAt`; `losses`: epochs started after a loss; `receipts`; `owners`, if fields `own:<user>` exist; `own:<user>`: the member's own messages after its position, `FIRST-LAST,…` | until `delete()` |
 * | `kit:chat:{<tag>}:messages:<chat>` | stream | `<sequence>-<ms>`: `f` sender; body as `s` text, `j` JSON or `x` bytes; `t` bytes of all messages so far, if `retain.bytes` is set | until `delete()`, or `retain.ageMs` after the last message |
 * | `kit:chat:{<tag>}:positions:<chat>` | zset  | member → position                                          | until `delete()`           |
 * | `kit:chat:{<tag>}:sent-even:<chat>` | hash  | sender and client id → `sequence ms`, in even windows of `dedupeMs`; caller → `number codes` of its last call with a refusal; empty field: number of the window | to the end of the next window |
 * | `kit:chat:{<tag>}:sent-odd:<chat>` | hash   | the same, in odd windows                                   | to the end of the next window |
 * | `kit:chat:{<tag>}:mailbox:<chat>`  | hash   | sequence → `deadline deliveries token` of each leased message, `acked token` of the last 256 messages that several workers had; empty field: `cursor seenAt epoch` | until `delete()` |
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

/** The key of the number of shards, or of its copy in a shard. */
export const layoutKey = (prefix: string, tag = "shards"): string => keyspace("chat", prefix).key(tag, "layout");

/** How many names are cached with their shards and keys; then the cache is cleared. */
const mostNames = 1_000;

/** The keys under one prefix, divided into this many shards. */
export class Keys {
  readonly shards: number;
  readonly #space: ReturnType<typeof keyspace>;
  readonly #tagAt: number;
  readonly #bases: readonly string[];
  readonly #escapes = new Map<string, string>();
  readonly #chats = new Map<string, { readonly shard: number; readonly keys: ChatKeys }>();

  constructor(prefix: string, shards: number) {
    this.shards = shards;
    this.#space = keyspace("chat", prefix);
    this.#tagAt = this.#space.base("x").length - "x}:".length;
    this.#bases = Array.from({ length: shards }, (_, shard) => this.#space.base(String(shard)));
  }

  /** @throws {KitError} `KIT_NAME`: the name is empty, over 512 bytes, or not well-formed Unicode. */
  shardOf(chat: string): number {
    return this.#placeOf(chat).shard;
  }

  activity(shard: number): string {
    return `${this.#bases[shard]!}activity`;
  }

  heads(shard: number): string {
    return `${this.#bases[shard]!}heads`;
  }

  /** @throws {KitError} `KIT_NAME`, as `shardOf`. */
  member(shard: number, user: string): string {
    return `${this.#bases[shard]!}member:${this.#escaped(user)}`;
  }

  /** @throws {KitError} `KIT_NAME`, as `shardOf`. */
  chat(name: string): ChatKeys {
    return this.#placeOf(name).keys;
  }

  #placeOf(name: string): { readonly shard: number; readonly keys: ChatKeys } {
    const known = this.#chats.get(name);
    if (known) return known;
    const escaped = this.#escaped(name);
    const shard = slotOf(escaped) % this.shards;
    const base = this.#bases[shard]!;
    const keys = {
      meta: `${base}meta:${escaped}`,
      heads: this.heads(shard),
      messages: `${base}messages:${escaped}`,
      positions: `${base}positions:${escaped}`,
      activity: this.activity(shard),
      sentEven: `${base}sent-even:${escaped}`,
      sentOdd: `${base}sent-odd:${escaped}`,
      mailbox: `${base}mailbox:${escaped}`,
    };
    return remembered(this.#chats, name, { shard, keys });
  }

  #escaped(name: string): string {
    return (
      this.#escapes.get(name) ??
      remembered(this.#escapes, name, this.#space.base(name).slice(this.#tagAt, -"}:".length))
    );
  }
}

const remembered = <T>(all: Map<string, T>, name: string, value: T): T => {
  if (all.size >= mostNames) all.clear();
  all.set(name, value);
  return value;
};
