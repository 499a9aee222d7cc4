import { keyspace } from "@kit/core";

/**
 * Every key of a prefix index. All of one shard have one hash tag, so they lie in one slot: `{name}`, or
 * `{name:<shard>/<shards>}` where there are several. An index has two generations, `a` and `b`; one is current, the other
 * is there only while a rebuild fills it.
 *
 * | Key                              | Type | Content                                                      | Life                    |
 * | -------------------------------- | ---- | ------------------------------------------------------------ | ----------------------- |
 * | `kit:autocomplete:{name}:index`  | hash | `layout`, `current`, `a`, `b` (settings), `staging`, `switched`, `revision` | permanent |
 * | `kit:autocomplete:{name}:ops`    | zset | operation id → server ms                                      | 1 minute                |
 * | `kit:autocomplete:{name}:live`   | set  | ids written during a rebuild                                  | as staged data          |
 * | `kit:autocomplete:{name}:a:rows` | zset | score 0: `suffix NUL kind id`                                 | permanent; staged: 10 min after the last batch |
 * | `kit:autocomplete:{name}:a:ranked` | zset | score 0: `prefix NUL rank rest NUL kind id` | as the rows             |
 * | `kit:autocomplete:{name}:a:items` | hash | id → `revision NUL weight NUL starts NUL fold NUL text [NUL payload]`; empty id → token of a rebuild | as the rows |
 * | `kit:autocomplete:{name}:b:…`    |      | the same                                                      | the same                |
 */
export interface IndexKeys {
  readonly index: string;
  readonly ops: string;
  readonly live: string;
  readonly aRows: string;
  readonly aRanked: string;
  readonly aItems: string;
  readonly bRows: string;
  readonly bRanked: string;
  readonly bItems: string;
}

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

/** What stands before the parts of one shard of an index. Names have their colons escaped: no name is taken for a shard. */
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
    aRows: `${base}a:rows`,
    aRanked: `${base}a:ranked`,
    aItems: `${base}a:items`,
    bRows: `${base}b:rows`,
    bRanked: `${base}b:ranked`,
    bItems: `${base}b:items`,
  };
};

/** The keys of one contact book. */
export const bookKeys = (prefix: string, owner: string): BookKeys => {
  const base = keyspace("autocomplete", prefix).base(owner);
  return { book: `${base}book`, contacts: `${base}contacts`, cards: `${base}cards`, blocked: `${base}blocked` };
};
