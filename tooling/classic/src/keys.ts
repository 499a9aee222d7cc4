/** The names of the classic keys. */
export interface ClassicKeys {
  /** string, the token of the holder. */
  lock(name: string): string;
  /** ZSET, token of a holder scored by the time it asked, or last refreshed, in seconds of its own clock. */
  semaphore(name: string): string;
  /** ZSET, token of a holder scored by its number in the order of asking. */
  semaphoreOwners(name: string): string;
  /** string, the last number given out. */
  semaphoreCounter(name: string): string;
  /** ZSET, `<item>.<seller>` scored by price. */
  readonly market: string;
  /** A row of `market`. Ambiguous when an id holds a dot. */
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
  /** ZSET, token scored by the time it was written, while somebody waits for a replica. */
  readonly syncWait: string;
  /** list of jobs as JSON, the next one first. */
  queue(name: string): string;
  /** ZSET, job as JSON scored by the time it is due, in seconds of its client's clock. */
  readonly delayed: string;
}

/**
 * Gives the classic key names, each behind `prefix`.
 *
 * The classic code has no prefix; one that holds a `{hash tag}` gives a race or a test its own copy of the market.
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
    syncWait: `${prefix}sync:wait`,
    queue: (name) => `${prefix}queue:${name}`,
    delayed: `${prefix}delayed:`,
  };
}
