// The ways to complete names, each behind the same small interface.
import { completeMember, joinGuild } from "@tooling/classic";
import type { Redis } from "ioredis";
import { connected } from "../../clients.js";
import { catalogOf, type Definition as AnyDefinition } from "../../implementation.js";
import type { Name } from "./names.js";

/** Settings with which every implementation of a case is opened. */
export interface AutocompleteSetup {
  readonly order: "alphabetical" | "weight";
  readonly match: "phrase" | "word-start";
}

/** A name as a search box displays it. */
interface Shown {
  readonly id: string;
  readonly text: string;
}

/** One of several concurrent callers. */
export interface Caller {
  suggest(query: string): Promise<readonly Shown[]>;
}

/** An implementation that is open in this process. */
export interface Completer {
  load(names: readonly Name[]): Promise<void>;
  /** Replaces all names while callers search. */
  readonly rebuild?: (names: Iterable<Name>) => Promise<void>;
  caller(): Promise<Caller>;
  /** Opens a search box: a function to call with each text that the user has typed. */
  box(): (query: string) => Promise<unknown>;
}

type Definition = AnyDefinition<Completer, AutocompleteSetup>;

const limit = 10;
const index = "guild";

const kit: Definition = {
  id: "kit",
  settings: "one index, limit 10; folds the query, gives displayed text and highlighted ranges",
  open: async (url, { order, match }, connect) => {
    const { createPrefixIndex } = await import("@kit/autocomplete");
    const names = createPrefixIndex(await connect(url), index, { order, match });
    return {
      load: async (all) => void (await names.putMany(all)),
      rebuild: async (all) => void (await names.rebuild(all)),
      caller: () => Promise.resolve({ suggest: async (query) => (await names.suggest(query, { limit })).items }),
      box: () => {
        const session = names.session({ limit });
        return (query) => session.type(query);
      },
    };
  },
};

/** Loads with many commands per round trip; the loading is not measured. */
const pipelined = async (
  redis: Redis,
  names: readonly Name[],
  commandsOf: (name: Name) => readonly (readonly [command: string, ...args: (string | number)[]])[],
): Promise<void> => {
  for (let at = 0; at < names.length; at += 1_000) {
    const pipeline = redis.pipeline();
    for (const name of names.slice(at, at + 1_000))
      for (const [command, ...args] of commandsOf(name)) pipeline.call(command, ...args.map(String));
    await pipeline.exec();
  }
};

/** An implementation without sessions: each keystroke is a call. */
const each = (suggest: Caller["suggest"], load: Completer["load"], caller?: Completer["caller"]): Completer => ({
  load,
  caller: caller ?? (() => Promise.resolve({ suggest })),
  box: () => suggest,
});

const classic: Definition = {
  id: "classic",
  settings:
    "ZADD, WATCH, ZRANK ZRANK, MULTI ZREM ZRANGE EXEC; again when another wrote meanwhile; a connection per caller",
  open: async (url) => {
    const redis = await connected(url);
    const suggestOn =
      (own: Redis): Caller["suggest"] =>
      async (query) =>
        (await completeMember(own, index, query)).map((text) => ({ id: text, text }));
    const load: Completer["load"] = async (names) => {
      // One ZADD per name, as the classic code does, but a thousand at once.
      for (let at = 0; at < names.length; at += 1_000)
        await Promise.all(names.slice(at, at + 1_000).map(({ text }) => joinGuild(redis, index, text)));
    };
    // The state of WATCH belongs to the connection.
    return each(suggestOn(redis), load, async () => ({ suggest: suggestOn(await connected(url)) }));
  },
};

const rowOf = ({ id, text }: Name): string => `${text}\0${id}`;
const shownOf = (row: string): Shown => {
  const at = row.indexOf("\0");
  return { id: row.slice(at + 1), text: row.slice(0, at) };
};

const byText = (redis: Redis, query: string): Promise<string[]> =>
  redis.zrangebylex(index, `[${query}`, `[${query}\xff`, "LIMIT", 0, limit);

const rawLex: Definition = {
  id: "raw ZRANGEBYLEX",
  peer: "floor",
  settings:
    "`text NUL id` in a sorted set, ZRANGEBYLEX LIMIT 0 10; lower-case text only, no record, no version of the rules",
  open: async (url) => {
    const redis = await connected(url);
    return each(
      async (query) => (await byText(redis, query)).map(shownOf),
      (names) => pipelined(redis, names, (name) => [["ZADD", index, 0, rowOf(name)]]),
    );
  },
};

const rawLexRecords: Definition = {
  id: "ZRANGEBYLEX and HMGET",
  settings: "the same, then the displayed texts of the results: two round trips",
  open: async (url) => {
    const redis = await connected(url);
    return each(
      async (query) => {
        const ids = (await byText(redis, query)).map((row) => shownOf(row).id);
        const texts = ids.length === 0 ? [] : await redis.hmget("texts", ...ids);
        return ids.map((id, at) => ({ id, text: texts[at] ?? "" }));
      },
      (names) =>
        pipelined(redis, names, (name) => [
          ["ZADD", index, 0, rowOf(name)],
          ["HSET", "texts", name.id, name.text],
        ]),
    );
  },
};

const beginningsOf = (text: string, longest: number): string[] =>
  Array.from({ length: Math.min(longest, text.length) }, (_, at) => text.slice(0, at + 1));

const rawRanked: Definition = {
  id: "raw ZREVRANGE",
  peer: "floor",
  settings: "`text NUL id` by weight in a sorted set for each beginning of 1 to 3 characters, ZREVRANGE 0 9; no record",
  open: async (url) => {
    const redis = await connected(url);
    return each(
      async (query) => (await redis.zrevrange(`beginning:${query}`, 0, limit - 1)).map(shownOf),
      (names) =>
        pipelined(redis, names, (name) =>
          beginningsOf(name.text, 3).map((beginning) => ["ZADD", `beginning:${beginning}`, name.weight, rowOf(name)]),
        ),
    );
  },
};

/** The content of one of our suggestions, without the matched ranges. */
const recordOf = ({ id, text, weight }: Name): string => [id, String(weight), text, ""].join("\0");
const suggestionOf = (record: string): Shown & { readonly weight: number; readonly payload: string | undefined } => {
  const [id = "", weight, text = "", payload] = record.split("\0");
  return { id, text, weight: Number(weight), payload: payload === "" ? undefined : payload };
};

const rawLexWhole: Definition = {
  id: "ZRANGEBYLEX of records",
  settings:
    "displayed text, weight and payload in each row, read into the same objects; no ranges, no version of the rules",
  open: async (url) => {
    const redis = await connected(url);
    return each(
      async (query) => (await byText(redis, query)).map((row) => suggestionOf(row.slice(row.indexOf("\0") + 1))),
      (names) => pipelined(redis, names, (name) => [["ZADD", index, 0, `${name.text}\0${recordOf(name)}`]]),
    );
  },
};

const rankedScript = `local ids = redis.call('ZREVRANGE', KEYS[1], 0, ARGV[1])
  return #ids == 0 and '' or table.concat(redis.call('HMGET', KEYS[2], unpack(ids)), '\\1')`;

const rawRankedRecords: Definition = {
  id: "ZREVRANGE and HMGET in a script",
  settings: "the same sets with ids, and the records of the results, in one round trip, read into the same objects",
  open: async (url) => {
    const redis = await connected(url);
    const sha = String(await redis.script("LOAD", rankedScript));
    return each(
      async (query) => {
        const found = String(await redis.evalsha(sha, 2, `beginning:${query}`, "records", limit - 1));
        return found === "" ? [] : found.split("\u0001").map(suggestionOf);
      },
      (names) =>
        pipelined(redis, names, (name) => [
          ["HSET", "records", name.id, recordOf(name)],
          ...beginningsOf(name.text, 3).map((text) => ["ZADD", `beginning:${text}`, name.weight, name.id] as const),
        ]),
    );
  },
};

/** A sorted set for each beginning of a text. */
const expanded = (
  name: string,
  what: string,
  textsOf: (text: string, match: AutocompleteSetup["match"]) => readonly string[],
): Definition => ({
  id: name,
  peer: name,
  settings: `ids by weight in a sorted set for each beginning of ${what}, and a hash with the texts`,
  open: async (url, { match }) => {
    const redis = await connected(url);
    return each(
      async (query) => {
        const ids = await redis.zrevrange(`beginning:${query}`, 0, limit - 1);
        const texts = ids.length === 0 ? [] : await redis.hmget("texts", ...ids);
        return ids.map((id, at) => ({ id, text: texts[at] ?? "" }));
      },
      (names) =>
        pipelined(redis, names, ({ id, text, weight }) => [
          ["HSET", "texts", id, text],
          ...textsOf(text, match).flatMap((word) =>
            beginningsOf(word, Infinity).map((beginning) => ["ZADD", `beginning:${beginning}`, weight, id] as const),
          ),
        ]),
    );
  },
});

const expansion = expanded("full prefix expansion", "a name, also from its later words on", (text, match) => {
  const words = text.split(" ");
  return match === "phrase" ? [text] : words.map((_, at) => words.slice(at).join(" "));
});

/** Indexes single words, so it does not find `luc p`. */
const wordExpansion = expanded("expansion of single words", "each word, and no further", (text) => text.split(" "));

export const implementations = catalogOf<Completer, AutocompleteSetup>([
  kit,
  classic,
  rawLex,
  rawLexRecords,
  rawLexWhole,
  rawRanked,
  rawRankedRecords,
  expansion,
  wordExpansion,
]);
