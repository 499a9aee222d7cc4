// Completes the names of things and people while a visitor types.
import {
  type ContactBook,
  createContactBook,
  createPrefixIndex,
  type PrefixIndex,
  type Range,
} from "@kit/autocomplete";
import type { Connection } from "@kit/core";
import type { World } from "../seed/index.js";
import { guildMembers, guildOf, guilds, type Guild } from "../seed/guilds.js";

const booksKept = 50;
const bookSize = 50;
// Where nothing is found, so many words are looked up with a typing error, each in so many names.
const wordsRespelled = 6;
const namesRespelled = 20;
const spellingsTried = 6;

export interface Hit {
  readonly kind: "item" | "seller";
  readonly id: string;
  readonly text: string;
  readonly ranges: readonly Range[];
}

/** The answer to a query. */
export interface Found {
  /** The text that was looked for: the query, or that with one word spelled otherwise. */
  readonly asked: string;
  readonly hits: readonly Hit[];
}

export interface Addressee {
  readonly id: string;
  readonly text: string;
  readonly why: "contact" | "guild";
  readonly ranges: readonly Range[];
}

interface Payload {
  readonly kind: Hit["kind"];
}

export class Search {
  readonly #redis: Connection;
  readonly #prefix: string;
  readonly #world: World;
  readonly #personas: ReadonlySet<string>;
  readonly #names: ReadonlyMap<string, { readonly name: string; readonly isSeller: boolean }>;
  readonly #market: PrefixIndex<Payload>;
  readonly #guilds = new Map<string, PrefixIndex>();
  readonly #books = new Map<string, ContactBook>();

  constructor(redis: Connection, prefix: string, world: World, personas: ReadonlySet<string>) {
    this.#redis = redis;
    this.#prefix = prefix;
    this.#world = world;
    this.#personas = personas;
    this.#names = new Map(world.users.map(({ id, name, isSeller }) => [id, { name, isSeller }]));
    this.#market = createPrefixIndex<Payload>(redis, "market", { prefix });
    this.#market.on("error", () => undefined);
    for (const { id } of guilds) {
      const index = createPrefixIndex(redis, `guild ${id}`, { prefix });
      index.on("error", () => undefined);
      this.#guilds.set(id, index);
    }
  }

  /** Fills the indexes unless they are complete. An interrupted fill starts again. */
  async open(): Promise<void> {
    const { users, items } = this.#world;
    const sellers = users.filter(({ isSeller }) => isSeller);
    if ((await this.#market.inspect()).items >= sellers.length + items.length) return;
    const members = guildMembers(this.#world, this.#personas);
    await Promise.all([...this.#guilds].map(([id, index]) => index.putMany(members.get(id) ?? [])));
    // Filled last: when it is complete, so are the others.
    await this.#market.putMany([
      ...sellers.map(({ id, name }) => ({ id, text: name, payload: { kind: "seller" as const } })),
      ...items.map(({ id, title }) => ({ id, text: title, payload: { kind: "item" as const } })),
    ]);
  }

  /** Sellers and things with all words of the text, in any order; if there are none, with one word spelled otherwise. */
  async find(text: string, limit: number, signal?: AbortSignal): Promise<Found> {
    const asked = text.trim();
    const hits = await this.#named(asked, limit, signal);
    if (hits.length > 0 || asked === "") return { asked, hits };
    for (const other of await this.#respelled(asked, signal)) {
      const others = await this.#named(other, limit, signal);
      if (others.length > 0) return { asked: other, hits: others };
    }
    return { asked, hits };
  }

  async #named(text: string, limit: number, signal: AbortSignal | undefined): Promise<Hit[]> {
    const { items } = await this.#market.suggest(text, { limit, signal, words: "any-order" });
    return items.map(({ id, text: name, payload, ranges }) => ({
      id,
      text: name,
      kind: payload?.kind ?? "item",
      ranges,
    }));
  }

  /** The text with one of its words spelled as in a name, as if it had a typing error. */
  async #respelled(text: string, signal: AbortSignal | undefined): Promise<string[]> {
    const words = text.split(/\s+/).slice(0, wordsRespelled);
    const spelled = await Promise.all(
      words.map(async (word, at) => {
        const { items } = await this.#market.suggest(word, { limit: namesRespelled, typos: 1, signal });
        // To the end of the word: before the last word of a query, a beginning is a spelling error, too.
        const found = items.map(({ text: name, ranges: [[start] = [0]] }) =>
          (/^[\p{L}\p{M}\p{N}]*/u.exec(name.slice(start))?.[0] ?? "").toLowerCase(),
        );
        return found.filter((other) => other !== word.toLowerCase()).map((other) => words.with(at, other).join(" "));
      }),
    );
    return [...new Set(spelled.flat())].slice(0, spellingsTried);
  }

  guild(user: string): Guild | null {
    return guildOf(user, this.#names.get(user)?.isSeller ?? false, this.#personas);
  }

  /** Recent contacts first, then members of the same guild. */
  async addressees(user: string, text: string, limit: number): Promise<Addressee[]> {
    const words = "any-order";
    const found: Addressee[] = [];
    const { items: contacts } =
      text.trim() === "" ? await this.#book(user).list() : await this.#book(user).suggest(text, { limit, words });
    for (const { id, text: name, ...rest } of contacts.slice(0, limit))
      found.push({ id, text: name, why: "contact", ranges: "ranges" in rest ? rest.ranges : [] });
    const guild = this.guild(user);
    const index = guild && this.#guilds.get(guild.id);
    if (index && text.trim() !== "")
      for (const { id, text: name, ranges } of (await index.suggest(text, { limit, words })).items)
        if (id !== user && found.length < limit && !found.some((one) => one.id === id))
          found.push({ id, text: name, why: "guild", ranges });
    return found;
  }

  /** Records that two people wrote to each other: each becomes a contact of the other. */
  async wrote(from: string, to: string): Promise<void> {
    const name = (id: string): string => this.#names.get(id)?.name ?? id;
    await Promise.all([
      this.#book(from).record(to, { text: name(to) }),
      this.#book(to).record(from, { text: name(from) }),
    ]);
  }

  async close(): Promise<void> {
    await this.#market.close();
    for (const index of this.#guilds.values()) await index.close();
    for (const book of this.#books.values()) await book.close();
  }

  #book(user: string): ContactBook {
    let book = this.#books.get(user);
    if (!book) {
      if (this.#books.size >= booksKept) {
        const [oldest = ""] = this.#books.keys();
        void this.#books.get(oldest)?.close();
        this.#books.delete(oldest);
      }
      book = createContactBook(this.#redis, user, { prefix: this.#prefix, max: bookSize, ranking: "frecent" });
      this.#books.set(user, book);
    }
    return book;
  }
}
