import { connect, type Connection } from "@kit/core";
import { createPrefixIndex, type PrefixIndex } from "@kit/autocomplete";

/** Mail goes to members of one's own guild: a player without one completes nothing. */
class GuildDirectory {
  readonly #redis: Connection;
  readonly #guilds = new Map<string, PrefixIndex>();

  constructor(redis: Connection) {
    this.#redis = redis;
  }

  async join(player: string, guild: string): Promise<void> {
    await this.leave(player);
    await this.#redis.hset("guild-of", player, guild);
    await this.#members(guild).put({ id: player, text: player });
  }

  async leave(player: string): Promise<void> {
    const guild = await this.#redis.hget("guild-of", player);
    if (guild === null) return;
    await this.#members(guild).delete(player);
    await this.#redis.hdel("guild-of", player);
  }

  async complete(player: string, typed: string): Promise<string[]> {
    const guild = await this.#redis.hget("guild-of", player);
    if (guild === null) return [];
    const { items } = await this.#members(guild).suggest(typed);
    return items.map(({ text }) => text);
  }

  async close(): Promise<void> {
    for (const members of this.#guilds.values()) await members.close();
  }

  #members(guild: string): PrefixIndex {
    let members = this.#guilds.get(guild);
    if (!members) this.#guilds.set(guild, (members = createPrefixIndex(this.#redis, `guild:${guild}`)));
    return members;
  }
}

const redis = await connect();
const directory = new GuildDirectory(redis);
for (const player of ["abc", "abcd", "abcz", "abcx", "abcy", "abci", "abcj", "abd"])
  await directory.join(player, "red");
await directory.join("abcq", "blue");

console.log((await directory.complete("abd", "abc")).join()); // prints: abc,abcd,abci,abcj,abcx,abcy,abcz
console.log((await directory.complete("abcq", "ABC")).join()); // prints: abcq
console.log((await directory.complete("stranger", "abc")).length); // prints: 0
await directory.leave("abcd");
console.log((await directory.complete("abd", "abc")).join()); // prints: abc,abci,abcj,abcx,abcy,abcz

await directory.close();
await redis.close();
