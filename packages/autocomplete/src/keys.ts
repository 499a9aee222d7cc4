import { createHash } from "node:crypto";
import { keyspace } from "@kit/core";

/**
 * Every key of a prefix index. All keys of one shard share a hash tag, and so a slot: `{name}`, or `{name:<shard>/<shards>}` with
 * several shards. A rebuild fills the staged keys, and then renames them.
 *
 * | Key                                      | Type | Content                                                                                                                                                   | Life                                                    |
 * | ---------------------------------------- | ---- | --------------------------------------------------------------------------------------------------------------------------------------------------------- | ------------------------------------------------------- |
 * | `kit:autocomplete:{name}:index`          | hash | `layout`; `settings`; `staging`: token of a rebuild; `staged`: its settings; `batches`: how many it wrote; `switched`: token of the last finished rebuild; `revision` (only in shard 0 of several)           | no expiry                                               |
 * | `kit:autocomplete:{name}:rows`           | zset | score 0, one row for each word start. By weight: `suffix NUL kind id`. Alphabetical: `tag suffix NUL kind id NUL weight NUL text NUL [payload]`           | no expiry                                               |
 * | `kit:autocomplete:{name}:ranked`         | zset | score 0: `prefix NUL rank rest NUL kind id`; by weight only                                                                                               | no expiry                                               |
 * | `kit:autocomplete:{name}:items`          | hash | id → `revision NUL weight NUL starts NUL fold NUL text [NUL payload]`                                                                                     | no expiry                                               |
 * | `kit:autocomplete:{name}:ops`            | zset | operation id → server ms, and after the decimal point a mark of the change; the last 10,000                                                                      | one minute                                              |
 * | `kit:autocomplete:{name}:live`           | set  | ids that were written while a rebuild ran                                                                                                                 | as the staged data                                      |
 * | `kit:autocomplete:{name}:staged:rows`    | zset | as `rows`, of a rebuild                                                                                                                                   | ten minutes after the last batch; renamed by the switch |
 * | `kit:autocomplete:{name}:staged:ranked`  | zset | as `ranked`, of a rebuild                                                                                                                                 | as `staged:rows`                                        |
 * | `kit:autocomplete:{name}:staged:items`   | hash | as `items`, of a rebuild; the empty id → the token of the rebuild                                                                                         | as `staged:rows`                                        |
 * | `kit:autocomplete:{name}:absent`         | hash | never exists: while the slot moves, a server refuses a script that names it                                                                                 | none                                                    |
 */
export interface IndexKeys {
  readonly index: string;
  readonly ops: string;
  readonly live: string;
  readonly rows: string;
  readonly ranked: string;
  readonly items: string;
  readonly stagedRows: string;
  readonly stagedRanked: string;
  readonly stagedItems: string;
}

/**
 * The beginning of all rows of an alphabetical index: eight hexadecimal digits of the SHA-1 of its settings. A row has all that a
 * reader needs, so a read is one plain range. A read whose query was folded by other settings finds nothing, and reads the settings.
 */
export const rowTag = (settings: string): string => createHash("sha1").update(settings).digest("hex").slice(0, 8);

/**
 * Every key of a contact book. All have the hash tag `{owner}`, and expire together.
 *
 * | Key                                 | Type | Content                                                                               | Life                           |
 * | ----------------------------------- | ---- | ------------------------------------------------------------------------------------- | ------------------------------ |
 * | `kit:autocomplete:{owner}:book`     | hash | `layout`; `version`; `ops`: the last eight operation ids, each with a mark            | `keepMs` after the last change; null: no expiry |
 * | `kit:autocomplete:{owner}:contacts` | zset | id → the server ms at which one event would weigh as much as all events of the contact | as `book`                      |
 * | `kit:autocomplete:{owner}:cards`    | hash | id → `text [NUL payload]`                                                             | as `book`                      |
 * | `kit:autocomplete:{owner}:blocked`  | zset | id → server ms; the last 1,000                                                        | as `book`                      |
 *
 * A colon in a name is written `%3A`.
 */
export interface BookKeys {
  readonly book: string;
  readonly contacts: string;
  readonly cards: string;
  readonly blocked: string;
}

/** The beginning of all keys of one shard of an index. Names have their colons escaped: no name is taken for a shard. */
const shardBase = (prefix: string, name: string, shard: number, shards: number): string => {
  const base = keyspace("autocomplete", prefix).base(name);
  return shards === 1 ? base : `${base.slice(0, -2)}:${String(shard)}/${String(shards)}}:`;
};

/** The keys of one shard of an index. */
export const indexKeys = (prefix: string, name: string, shard = 0, shards = 1): IndexKeys => {
  const base = shardBase(prefix, name, shard, shards);
  return {
    index: `${base}index`,
    ops: `${base}ops`,
    live: `${base}live`,
    rows: `${base}rows`,
    ranked: `${base}ranked`,
    items: `${base}items`,
    stagedRows: `${base}staged:rows`,
    stagedRanked: `${base}staged:ranked`,
    stagedItems: `${base}staged:items`,
  };
};

/** A key that never exists: a server refuses a script that names it while the slot moves. */
export const absentKey = ({ index }: IndexKeys): string => index.replace(/index$/, "absent");

/** The keys of one contact book. */
export const bookKeys = (prefix: string, owner: string): BookKeys => {
  const base = keyspace("autocomplete", prefix).base(owner);
  return { book: `${base}book`, contacts: `${base}contacts`, cards: `${base}cards`, blocked: `${base}blocked` };
};
