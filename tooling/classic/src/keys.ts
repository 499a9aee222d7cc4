/**
 * Gives the classic key names, each behind `prefix`.
 *
 * The classic code has no prefix. A prefix with a `{hash tag}` gives a race or a test its own copy of the market.
 */
// oxlint-disable-next-line typescript/explicit-function-return-type
export const classicKeys = (prefix = "") => ({
  /** string, the token of the holder. */
  lock: (name: string) => `${prefix}lock:${name}`,
  /** ZSET, token of a holder scored by the time of its acquire or last refresh, in seconds of its own clock. */
  semaphore: (name: string) => `${prefix}semaphore:${name}`,
  /** ZSET, token of a holder scored by its number in order of arrival. */
  semaphoreOwners: (name: string) => `${prefix}semaphore:${name}:owner`,
  /** string, the last number given out. */
  semaphoreCounter: (name: string) => `${prefix}semaphore:${name}:counter`,
  /** ZSET, `<item>.<seller>` scored by price. */
  market: `${prefix}market:`,
  /** A row of `market`. Ambiguous when an id contains a dot. */
  marketMember: (itemId: string, sellerId: string) => `${itemId}.${sellerId}`,
  /** hash with `name` and `funds`. */
  user: (userId: string) => `${prefix}users:${userId}`,
  /** SET of item ids. */
  inventory: (userId: string) => `${prefix}inventory:${userId}`,
  /** hash, token to user. */
  login: `${prefix}login:`,
  /** ZSET, token scored by the time it was last seen. */
  recent: `${prefix}recent:`,
  /** ZSET, item scored by the time it was viewed, one key per token. */
  viewed: (token: string) => `${prefix}viewed:${token}`,
  /** ZSET, item scored by minus its number of views, so that rank 0 is the most viewed. */
  views: `${prefix}viewed:`,
  /** ZSET of names, all with score 0. */
  guild: (guild: string) => `${prefix}members:${guild}`,
  /** ZSET, member of the chat scored by the last message that it has. */
  chatMembers: (chat: string) => `${prefix}chat:${chat}`,
  /** ZSET, packed message scored by its id. */
  chatMessages: (chat: string) => `${prefix}msgs:${chat}`,
  /** string, the last message's id. Collides with `chatCounter` for the chat `chat:`. */
  chatIds: (chat: string) => `${prefix}ids:${chat}`,
  /** string, the last number given to a chat. */
  chatCounter: `${prefix}ids:chat:`,
  /** ZSET, chat scored by the last message of it that the user has. */
  seen: (user: string) => `${prefix}seen:${user}`,
  /** string, the shipped part of a file. */
  log: (channel: string, file: string) => `${prefix}${channel}${file}`,
  /** string, the number of consumers that are done with a file. */
  logDone: (channel: string, file: string) => `${prefix}${channel}${file}:done`,
  /** list, names of files that a consumer has not read yet. */
  logNames: (channel: string, id: string) => `${prefix}names:${channel}:${id}`,
  /** ZSET, `<precision in seconds>:<counter>`, all with score 0. */
  knownCounters: `${prefix}known:`,
  /** hash, first second of a slice to its count. */
  counter: (precision: number, name: string) => `${prefix}count:${String(precision)}:${name}`,
  /** ZSET with `min`, `max`, `sum`, `sumsq` and `count`. Further keys end in `:start`, `:last` and `:pstart`. */
  summary: (context: string, type: string) => `${prefix}stats:${context}:${type}`,
  /** ZSET, `<city id>_<row>` scored by the first address of a range. */
  ipToCity: `${prefix}ip2cityid:`,
  /** hash, city id to city, region and country as JSON. */
  cities: `${prefix}cityid2city:`,
  /** list of jobs as JSON, the next one first. */
  queue: (name: string) => `${prefix}queue:${name}`,
  /** ZSET, job as JSON scored by the time it is due, in seconds of its client's clock. */
  delayed: `${prefix}delayed:`,
});

export type ClassicKeys = ReturnType<typeof classicKeys>;
