/** Which arguments of a command are keys, counted from its first argument; `step` 2 takes every other one. */
export interface KeyPositions {
  readonly from: number;
  /** The last one; -1 is the last argument. */
  readonly to: number;
  readonly step: number;
}

// The commands that Redis 6.2 allows in a script, without those for administrators, by where their keys are.
const BY_KEYS: readonly (readonly [KeyPositions | undefined, string])[] = [
  [
    { from: 0, to: 0, step: 1 },
    `append bitcount bitfield bitfield_ro bitpos decr decrby dump expire expireat geoadd geodist geohash geopos
     georadius georadius_ro georadiusbymember georadiusbymember_ro geosearch get getbit getdel getex getrange getset
     hdel hexists hget hgetall hincrby hincrbyfloat hkeys hlen hmget hmset hrandfield hscan hset hsetnx hstrlen hvals
     incr incrby incrbyfloat lindex linsert llen lpop lpos lpush lpushx lrange lrem lset ltrim persist pexpire
     pexpireat pfadd psetex pttl restore rpop rpush rpushx sadd scard set setbit setex setnx setrange sismember
     smembers smismember sort spop srandmember srem sscan strlen substr ttl type xack xadd xautoclaim xclaim xdel xlen
     xpending xrange xrevrange xsetid xtrim zadd zcard zcount zdiffstore zincrby zinterstore zlexcount zmscore zpopmax
     zpopmin zrandmember zrange zrangebylex zrangebyscore zrank zrem zremrangebylex zremrangebyrank zremrangebyscore
     zrevrange zrevrangebylex zrevrangebyscore zrevrank zscan zscore zunionstore`,
  ],
  [{ from: 0, to: 1, step: 1 }, "copy geosearchstore lmove rename renamenx rpoplpush smove zrangestore"],
  [
    { from: 0, to: -1, step: 1 },
    "del exists mget pfcount pfmerge sdiff sdiffstore sinter sinterstore sunion sunionstore touch unlink",
  ],
  [{ from: 0, to: -1, step: 2 }, "mset msetnx"],
  [{ from: 1, to: -1, step: 1 }, "bitop"],
  [undefined, "dbsize echo info memory object ping publish pubsub randomkey scan time xgroup xinfo xread xreadgroup"],
  [undefined, "zdiff zinter zunion"],
];

/** Upper bounds and words of commands for which a later Redis or Valkey accepts more than 6.2. */
export interface OptionLimits {
  /** Most arguments, all counted. */
  readonly max?: number;
  /** The only texts that are valid at `from` or later. */
  readonly only?: { readonly from: number; readonly words: readonly string[] };
  /** Texts that are invalid anywhere after the key. */
  readonly never?: readonly string[];
}

const STREAM_REFERENCES: readonly string[] = ["KEEPREF", "DELREF", "ACKED", "IDMP", "IDMPAUTO"];

const LIMITS: Readonly<Record<string, OptionLimits>> = {
  bitcount: { max: 3 },
  bitop: { only: { from: 0, words: ["AND", "OR", "XOR", "NOT"] } },
  bitpos: { max: 4 },
  expire: { max: 2 },
  expireat: { max: 2 },
  getex: { only: { from: 1, words: ["EX", "PX", "EXAT", "PXAT", "PERSIST"] } },
  hscan: { never: ["NOVALUES"] },
  info: { max: 1 },
  lmove: { only: { from: 2, words: ["LEFT", "RIGHT"] } },
  pexpire: { max: 2 },
  pexpireat: { max: 2 },
  set: { only: { from: 2, words: ["EX", "PX", "EXAT", "PXAT", "NX", "XX", "KEEPTTL", "GET"] } },
  xadd: { never: STREAM_REFERENCES },
  xgroup: { never: ["ENTRIESREAD"] },
  xreadgroup: { never: ["CLAIM"] },
  xsetid: { max: 2 },
  xtrim: { never: STREAM_REFERENCES },
  zrange: { only: { from: 3, words: ["BYSCORE", "BYLEX", "REV", "LIMIT", "WITHSCORES"] } },
  zrangestore: { only: { from: 4, words: ["BYSCORE", "BYLEX", "REV", "LIMIT"] } },
  zrank: { max: 2 },
  zrevrank: { max: 2 },
};

const KEY_POSITIONS: ReadonlyMap<string, KeyPositions | undefined> = new Map(
  BY_KEYS.flatMap(([positions, names]) => names.split(/\s+/).map((name) => [name, positions] as const)),
);

/** The arguments that a command of Redis 6.2 takes, or undefined if it had no such command (in lower case). */
export function commandOf62(name: string): { keys: KeyPositions | undefined; limits: OptionLimits } | undefined {
  if (!KEY_POSITIONS.has(name)) return undefined;
  return { keys: KEY_POSITIONS.get(name), limits: LIMITS[name] ?? {} };
}

/** All commands known, in lower case. */
export const commandNames = (): string[] => [...KEY_POSITIONS.keys()];
