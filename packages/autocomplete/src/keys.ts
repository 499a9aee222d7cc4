import { createHash } from "node:crypto";
import { keyspace } from "@kit/core";

/**
 * Every key of a prefix index. All of one shard have one hash tag, so they lie in one slot: `{name}`, or
 * `{name:<shard>/<shards>}` where there are several. A rebuild fills the staged keys, and then renames them.
 *
 * | Key                               | Type | Content                                                     | Life                    |
 * | --------------------------------- | ---- | ----------------------------------------------------------- | ----------------------- |
 * | `kit:autocomplete:{name}:index`   | hash | `layout`, `settings`, `staging`, `staged`, `switched`, `revision` | permanent         |
 * | `kit:autocomplete:{name}:ops`     | zset | operation id → server ms                                     | 1 minute                |
 * | `kit:autocomplete:{name}:live`    | set  | ids written during a rebuild                                 | as staged data          |
 * | `kit:autocomplete:{name}:rows`    | zset | score 0: `suffix NUL kind id`; alphabetical: see {@link rowTag} | permanent            |
 * | `kit:autocomplete:{name}:ranked`  | zset | score 0: `prefix NUL rank rest NUL kind id`                  | permanent               |
 * | `kit:autocomplete:{name}:items`   | hash | id → `revision NUL weight NUL starts NUL fold NUL text [NUL payload]` | permanent      |
 * | `kit:autocomplete:{name}:staged:…` |     | the same three; among the items the empty id → token of the rebuild | 10 min after the last batch |
 * | `kit:autocomplete:{name}:absent`  | hash | never exists: a script that names it is refused while its slot moves | none                    |
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
 * The beginning of all rows of an alphabetical index: eight hexadecimal digits of the SHA-1 of its settings. Such a row is all
 * that a reader needs, `tag suffix NUL kind id NUL weight NUL text NUL payload`, so a read is one plain range; and one that
 * was folded by other settings than the stored ones finds nothing, and looks again.
 */
export const rowTag = (settings: string): string => createHash("sha1").update(settings).digest("hex").slice(0, 8);

/**
 * Every key of a contact book. All have the hash tag `{owner}`, and expire together `keepMs` after the last write.
 *
 * | Key                                 | Type | Content                                               |
 * | ----------------------------------- | ---- | ----------------------------------------------------- |
 * | `kit:autocomplete:{owner}:book`     | hash | `layout`, `version`, `ranking`, `ops`                 |
 * | `kit:autocomplete:{owner}:contacts` | zset | id → server µs of the last event, or the log2 of its decayed frequency |
 * | `kit:autocomplete:{owner}:cards`    | hash | id → `text [NUL payload]`                             |
 * | `kit:autocomplete:{owner}:blocked`  | zset | id → server ms                                        |
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
