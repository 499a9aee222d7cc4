/** The names of the classic keys. */
export interface ClassicKeys {
  /** string, the token of the holder. */
  lock(name: string): string;
  /** ZSET, token of a holder scored by the time of its acquire or last refresh, in seconds of its own clock. */
  semaphore(name: string): string;
  /** ZSET, token of a holder scored by its number in order of arrival. */
  semaphoreOwners(name: string): string;
  /** string, the last number given out. */
  semaphoreCounter(name: string): string;
  /** ZSET, `<item>.<seller>` scored by price. */
  readonly market: string;
  /** A row of `market`. Ambiguous when an id contains a dot. */
  marketMember(itemId: string, sellerId: string): string;
  /** hash with `name` and `funds`. */
  user(userId: string): string;
  /** SET of item ids. */
  inventory(userId: string): string;
  /** hash, token to user. */
  readonly login: string;
  /** ZSET, token scored by the time it was last seen. */
  readonly recent: string;
  /** ZSET, item scored by the time it was viewed, one key per token. */
  viewed(token: string): string;
  /** ZSET, item scored by minus its number of views, so that rank 0 is the most viewed. */
  readonly views: string;
  /** list, the newest contact first. */
  contacts(user: string): string;
  /** ZSET of names, all with score 0. */
  guild(guild: string): string;
  /** ZSET, member of the chat scored by the last message that it has. */
  chatMembers(chat: string): string;
  /** ZSET, packed message scored by its id. */
  chatMessages(chat: string): string;
  /** string, the last message's id. Collides with `chatCounter` for the chat `chat:`. */
  chatIds(chat: string): string;
  /** string, the last number given to a chat. */
  readonly chatCounter: string;
  /** ZSET, chat scored by the last message of it that the user has. */
  seen(user: string): string;
  /** list, the oldest message first. */
  mailbox(user: string): string;
  /** string, the shipped part of a file. */
  log(channel: string, file: string): string;
  /** string, the number of consumers that are done with a file. */
  logDone(channel: string, file: string): string;
  /** list, names of files that a consumer has not read yet. */
  logNames(channel: string, id: string): string;
  /** ZSET, country scored by its number of lines. */
  dailyCountry(day: string): string;
  /** string, the file that is being processed. */
  readonly progressFile: string;
  /** string, the offset in that file. */
  readonly progressPosition: string;
  /** ZSET, token scored by the time it was written, while a client waits for a replica. */
  readonly syncWait: string;
  /** list, the newest message first. */
  recentLog(name: string, severity: string): string;
  /** ZSET, message scored by its count. Further keys are this one with `:start`, `:last` and `:pstart` appended. */
  commonLog(name: string, severity: string): string;
  /** ZSET, `<precision in seconds>:<counter>`, all with score 0. */
  readonly knownCounters: string;
  /** hash, first second of a slice to its count. */
  counter(precision: number, name: string): string;
  /** ZSET with `min`, `max`, `sum`, `sumsq` and `count`. Further keys as with {@link commonLog}. */
  summary(context: string, type: string): string;
  /** ZSET, context scored by its average access time in seconds. */
  readonly slowest: string;
  /** ZSET, `<city id>_<row>` scored by the first address of a range. */
  readonly ipToCity: string;
  /** hash, city id to city, region and country as JSON. */
  readonly cities: string;
  /** list of jobs as JSON, the next one first. */
  queue(name: string): string;
  /** ZSET, job as JSON scored by the time it is due, in seconds of its client's clock. */
  readonly delayed: string;
}

/**
 * Gives the classic key names, each behind `prefix`.
 *
 * The classic code has no prefix. A prefix with a `{hash tag}` gives a race or a test its own copy of the market.
 */
export function classicKeys(prefix = ""): ClassicKeys {
  return {
    lock: (name) => `${prefix}lock:${name}`,
    semaphore: (name) => `${prefix}semaphore:${name}`,
    semaphoreOwners: (name) => `${prefix}semaphore:${name}:owner`,
    semaphoreCounter: (name) => `${prefix}semaphore:${name}:counter`,
    market: `${prefix}market:`,
    marketMember: (itemId, sellerId) => `${itemId}.${sellerId}`,
    user: (userId) => `${prefix}users:${userId}`,
    inventory: (userId) => `${prefix}inventory:${userId}`,
    login: `${prefix}login:`,
    recent: `${prefix}recent:`,
    viewed: (token) => `${prefix}viewed:${token}`,
    views: `${prefix}viewed:`,
    contacts: (user) => `${prefix}recent:${user}`,
    guild: (guild) => `${prefix}members:${guild}`,
    chatMembers: (chat) => `${prefix}chat:${chat}`,
    chatMessages: (chat) => `${prefix}msgs:${chat}`,
    chatIds: (chat) => `${prefix}ids:${chat}`,
    chatCounter: `${prefix}ids:chat:`,
    seen: (user) => `${prefix}seen:${user}`,
    mailbox: (user) => `${prefix}mailbox:${user}`,
    log: (channel, file) => `${prefix}${channel}${file}`,
    logDone: (channel, file) => `${prefix}${channel}${file}:done`,
    logNames: (channel, id) => `${prefix}names:${channel}:${id}`,
    dailyCountry: (day) => `${prefix}daily:country:${day}`,
    progressFile: `${prefix}progress:file`,
    progressPosition: `${prefix}progress:position`,
    syncWait: `${prefix}sync:wait`,
    recentLog: (name, severity) => `${prefix}recent:${name}:${severity}`,
    commonLog: (name, severity) => `${prefix}common:${name}:${severity}`,
    knownCounters: `${prefix}known:`,
    counter: (precision, name) => `${prefix}count:${String(precision)}:${name}`,
    summary: (context, type) => `${prefix}stats:${context}:${type}`,
    slowest: `${prefix}slowest:AccessTime`,
    ipToCity: `${prefix}ip2cityid:`,
    cities: `${prefix}cityid2city:`,
    queue: (name) => `${prefix}queue:${name}`,
    delayed: `${prefix}delayed:`,
  };
}
