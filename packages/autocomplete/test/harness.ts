import { expect } from "vitest";
import type { RedisMode, RedisNode, TestRedis } from "@kit/testing";
import { clientsOf, type Login, nodeOf } from "@tooling/vitest/helpers";
import type { Redis } from "ioredis";
import {
  type ContactBook,
  type ContactBookOptions,
  createContactBook,
  createPrefixIndex,
  type PrefixIndex,
  type PrefixIndexOptions,
  type Suggestions,
} from "../src/index.js";
import { type BookKeys, bookKeys, type IndexKeys, indexKeys, rowTag } from "../src/keys.js";

/** The index, and the owner, of a test, unless it has several. */
export const name = "guild";

type Named<Options> = Options & { readonly name?: string };
/** Options of an index. */
type IndexWith = Named<PrefixIndexOptions>;
/** Options of a contact book. */
type BookWith = Named<ContactBookOptions>;

/** A server as tests use it. */
export interface Fixture {
  /** A new client of the user whose indexes are tested, gone after the test. */
  connect: TestRedis<RedisMode>["connect"];
  /** An index on the shared client under the test's prefix, closed after the test. */
  index<Payload = unknown>(options?: IndexWith): PrefixIndex<Payload>;
  /** The same on a given client. */
  indexOn<Payload = unknown>(
    client: Parameters<typeof createPrefixIndex>[0],
    options?: IndexWith,
  ): PrefixIndex<Payload>;
  book<Payload = unknown>(options?: BookWith): ContactBook<Payload>;
  bookOn<Payload = unknown>(client: Parameters<typeof createContactBook>[0], options?: BookWith): ContactBook<Payload>;
  keysOf(own?: string, shard?: number, shards?: number): IndexKeys;
  bookKeysOf(own?: string): BookKeys;
  /** Commands for the keys; on a Cluster they are routed. */
  readonly db: Redis;
  /** The server process that serves a key. */
  nodeOf(key: string): Promise<RedisNode>;
}

/** With a `login` all objects run as that user; only the tests' own commands go over the shared client. */
export const fixtureOf = (redis: TestRedis<RedisMode>, login?: Login): Fixture => {
  const clients = clientsOf(redis, login);
  const indexOn: Fixture["indexOn"] = <Payload>(
    client: Parameters<typeof createPrefixIndex>[0],
    { name: own = name, ...options }: IndexWith = {},
  ) => {
    const index = createPrefixIndex<Payload>(client, own, { prefix: redis.prefix, deadlineMs: 10_000, ...options });
    redis.defer(() => index.close({ timeoutMs: 0 }));
    return index;
  };
  const bookOn: Fixture["bookOn"] = <Payload>(
    client: Parameters<typeof createContactBook>[0],
    { name: own = name, ...options }: BookWith = {},
  ) => {
    const book = createContactBook<Payload>(client, own, { prefix: redis.prefix, deadlineMs: 10_000, ...options });
    redis.defer(() => book.close({ timeoutMs: 0 }));
    return book;
  };
  return {
    connect: clients.connect,
    index: (options) => indexOn(clients.shared(), options),
    indexOn,
    book: (options) => bookOn(clients.shared(), options),
    bookOn,
    keysOf: (own = name, shard = 0, shards = 1) => indexKeys(redis.prefix, own, shard, shards),
    bookKeysOf: (own = name) => bookKeys(redis.prefix, own),
    get db() {
      // A Cluster has the same commands.
      return redis.client as Redis;
    },
    nodeOf: (key) => nodeOf(redis.server.nodes, key),
  };
};

/** Entries whose ids are their texts. */
export const named = (...texts: readonly string[]): { id: string; text: string }[] =>
  texts.map((text) => ({ id: text, text }));

/** The texts of an answer. */
export const texts = ({ items }: Pick<Suggestions, "items">): string[] => items.map(({ text }) => text);

/** The ids of an answer. */
export const ids = ({ items }: Pick<Suggestions, "items">): string[] => items.map(({ id }) => id);

/** Keys that may stay without expiry: an index is data, and so is a book that was made to be kept for ever. */
export const permanentKeys: readonly string[] = [
  "autocomplete:*:index",
  ...["rows", "ranked", "items"].map((part) => `autocomplete:{*}:${part}`),
];

/** A client that dies with its process at its nth script or read: before that reaches the server, or before the reply comes. */
export const mortal = (
  client: Redis,
  dieAt: number,
  when: "before" | "after",
): { client: Redis; isDead(): boolean; signal: AbortSignal } => {
  const send = client.call.bind(client) as (...of: unknown[]) => Promise<unknown>;
  let scripts = 0;
  let isDead = false;
  const dead = new Error("the process died");
  // Nobody is there any more to try again.
  const death = new AbortController();
  const call = async (command: string, ...args: unknown[]): Promise<unknown> => {
    if (isDead) throw dead;
    if (!/^(?:eval|zrangebylex)/i.test(command)) return await send(command, ...args);
    if (++scripts < dieAt) {
      try {
        return await send(command, ...args);
      } catch (error) {
        // The text is sent instead of the hash: that is the same script.
        if (String(error).includes("NOSCRIPT")) scripts--;
        throw error;
      }
    }
    isDead = true;
    if (when === "before") death.abort(dead);
    if (when === "after")
      await send(command, ...args).catch(async (error: unknown) => {
        if (!String(error).includes("NOSCRIPT")) throw error;
        isDead = false;
        scripts--;
        throw error;
      });
    death.abort(dead);
    throw dead;
  };
  Object.assign(client, { call });
  return { client, isDead: () => isDead, signal: death.signal };
};

/** The rows that a record calls for, by the layout that DESIGN.md describes. */
const rowsOf = (id: string, record: string, settings: string): { rows: string[]; ranked: string[] } => {
  const [, weight = "", starts = "", fold = "", text = "", payload = ""] = record.split("\0");
  const isRanked = settings.includes("order=weight");
  const rankedLength = Number(/ranked=(\d)/.exec(settings)![1]);
  const rows: string[] = [];
  const ranked: string[] = [];
  for (const start of starts.split(",")) {
    const suffix = Buffer.from(fold).subarray(Number(start)).toString();
    const row = `${suffix}\0${start === "0" ? "0" : "1"}${id}`;
    rows.push(isRanked ? row : [`${rowTag(settings)}${row}`, weight, text, payload].join("\0"));
    if (!isRanked) continue;
    const rankOf = (isExact: boolean): string => {
      let left = 9_999_999_999_999n - BigInt(weight) + (isExact ? 0n : 10_000_000_000_000n);
      let digits = "";
      while (digits.length < 7) {
        digits = String.fromCodePoint(33 + Number(left % 94n)) + digits;
        left /= 94n;
      }
      return digits;
    };
    if (settings.includes("empty=top") && start === "0") ranked.push(`\0${rankOf(false)}${row}`);
    const characters = Array.from(suffix);
    for (let length = 1; length <= rankedLength && length <= characters.length; length++) {
      const prefix = characters.slice(0, length).join("");
      const isExact = start === "0" && `${prefix.trimEnd()} ` === fold;
      ranked.push(`${prefix}\0${rankOf(isExact)}${row.slice(prefix.length)}`);
    }
  }
  return { rows, ranked };
};

/** Fails unless every row of one shard has its record, every record its rows, and all that is staged will expire. */
export const expectWhole = async (db: Redis, keys: IndexKeys): Promise<void> => {
  const head = await db.hgetall(keys.index);
  for (const isCurrent of [true, false]) {
    const [rows, ranked, items] = isCurrent
      ? [keys.rows, keys.ranked, keys.items]
      : [keys.stagedRows, keys.stagedRanked, keys.stagedItems];
    // At one instant: scripts that were sent before a death may still be under way.
    const replies = await db.multi().hgetall(items).zrange(rows, "0", "-1").zrange(ranked, "0", "-1").exec();
    const [stored, storedRows, storedRanked] = replies!.map(([, reply]) => reply);
    const { "": marker, ...records } = stored as Record<string, string>;
    const settings = head[isCurrent ? "settings" : "staged"] ?? "order=alphabetical ranked=1";
    const wanted = Object.entries(records).map(([id, record]) => rowsOf(id, record, settings));
    const sorted = (list: readonly string[]): string[] =>
      list.toSorted((one, two) => Buffer.from(one).compare(Buffer.from(two)));
    expect(storedRows).toEqual(sorted(wanted.flatMap((one) => one.rows)));
    expect(storedRanked).toEqual(sorted(wanted.flatMap((one) => one.ranked)));
    if (isCurrent) expect(marker).toBeUndefined();
    for (const key of [rows, ranked, items]) {
      const ttl = await db.pttl(key);
      if (isCurrent) expect(ttl === -1 || ttl === -2).toBe(true);
      else expect(ttl === -2 || (ttl > 0 && ttl <= 600_000)).toBe(true);
    }
  }
};
