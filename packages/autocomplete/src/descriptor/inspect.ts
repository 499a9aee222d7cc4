import type { Connection } from "@kit/core";
import { counted, countText, dated, type Facts, type Inspector } from "@kit/core/toolkit";
import { createContactBook, createPrefixIndex, foldVersion, type PrefixIndexInspection } from "../index.js";
import { bookKeys, indexKeys } from "../keys.js";

/** An index at one instant; what `kit inspect autocomplete NAME --json` prints. */
interface IndexReport extends PrefixIndexInspection {
  readonly index: string;
  readonly shards: number;
}

const indexReportOf = async (
  redis: Connection,
  prefix: string,
  name: string,
  shards: number | undefined,
): Promise<IndexReport> => {
  const index = createPrefixIndex(redis, name, { prefix, shards });
  try {
    return { index: name, shards: shards ?? 1, ...(await index.inspect()) };
  } finally {
    await index.close();
  }
};

const indexFactsOf = ({ index, shards, rules, items, rows, ranked, staged }: IndexReport): Facts => {
  const named: Facts = [["index", index], ...(shards === 1 ? [] : [["shards", String(shards)] as const])];
  const rebuild = ["rebuild", staged === null ? "none" : `running, ${counted(staged, "item")} written`] as const;
  if (rules === null) return [...named, ["items", "none: this index was never written"], rebuild];
  const { order, match, rankedLength, empty, marks, locale, foldVersion: version } = rules;
  const folding = [
    marks === "fold" ? "ignores accents" : "keeps accents",
    ...(locale === "" ? [] : [`locale ${locale}`]),
    version === foldVersion
      ? `version ${version}`
      : `version ${version}, this release uses ${foldVersion}: rebuild the index`,
  ];
  const note = shards === 1 ? "" : " (an item in several shards counts in each)";
  return [
    ...named,
    ["items", `${String(items)}${note}`],
    ["word starts", String(rows)],
    [
      "order",
      order === "weight"
        ? `weight; ${counted(ranked, "row")} for the first ${counted(rankedLength, "character")}`
        : order,
    ],
    ["match", match],
    ["empty query", empty],
    ["folding", folding.join(", ")],
    rebuild,
  ];
};

/** `kit inspect autocomplete NAME`. */
export const indexInspector: Inspector = {
  thing: "autocomplete",
  about: "a prefix index: size, rules and rebuild progress",
  options: [{ name: "shards", takes: "integer", about: "number of shards, as in the index's option `shards`" }],
  look: async ({ redis, prefix, integer }, name: string) => {
    const data = await indexReportOf(redis, prefix, name, integer("shards"));
    // Each shard counts the items that it holds.
    const place = data.shards === 1 ? "" : ` in ${String(data.shards)} shards`;
    const summary = `${counted(data.items, "item")}${place}, ${counted(data.rows, "word start")}`;
    return { data, facts: indexFactsOf(data), summary, isUnknown: data.rules === null && data.staged === null };
  },
  // The keys of a shard have its number and the number of all in the tag: `{name:0/16}`. Names have their colons escaped.
  listed: {
    things: "indexes",
    keys: ["{NAME}:index"],
    columns: ["items", "word starts", "order", "rebuild"],
    thingOf: (text) => {
      const [name = text, shard] = text.split(":");
      return shard === undefined ? { name } : { name, options: { shards: Number(shard.split("/")[1]) } };
    },
  },
  keys: (prefix, name: string) => Object.values(indexKeys(prefix, name)),
};

/** A contact book at one instant; what `kit inspect contact-book OWNER --json` prints. Payloads are not shown. */
interface BookReport {
  readonly owner: string;
  /** Changes with the book; empty if there is none. */
  readonly bookVersion: string;
  /** The best first. `since`: when a single event would weigh as much as all its events together. */
  readonly contacts: readonly { readonly id: string; readonly text: string; readonly since: string }[];
  readonly blocked: readonly string[];
}

const bookReportOf = async (redis: Connection, prefix: string, owner: string): Promise<BookReport> => {
  const book = createContactBook(redis, owner, { prefix });
  try {
    const { items, blocked, version } = await book.list();
    const contacts = items.map(({ id, text, score }) => ({ id, text, since: dated(score) ?? "" }));
    return { owner, bookVersion: version, contacts, blocked };
  } finally {
    await book.close();
  }
};

const shownBlocked = 10;

/** `kit inspect contact-book OWNER`. */
export const bookInspector: Inspector = {
  thing: "contact-book",
  about: "a contact book: contacts, best first, and blocked ids",
  args: [{ name: "owner", about: "owner of the book" }],
  look: async ({ redis, prefix }, owner: string) => {
    const data = await bookReportOf(redis, prefix, owner);
    const { contacts, blocked, bookVersion } = data;
    if (bookVersion === "") {
      const facts: Facts = [
        ["owner", owner],
        ["state", "unknown: this owner has no contact book"],
      ];
      return { data, facts, isUnknown: true };
    }
    const facts: Facts = [
      ["owner", owner],
      ["contacts", String(contacts.length)],
      ["blocked", countText(blocked.length, blocked.slice(0, shownBlocked))],
      ["version", bookVersion],
    ];
    const rows = contacts.map(({ id, text, since }) => [id, text, since]);
    const table = { columns: ["contact", "name", "ranks like an event at"], rows };
    const summary = `${counted(contacts.length, "contact")}, ${String(blocked.length)} blocked`;
    return { data, facts, summary, ...(contacts.length > 0 && { table }) };
  },
  listed: { things: "contact-books", keys: ["{NAME}:book"], columns: ["contacts", "blocked"] },
  keys: (prefix, owner: string) => Object.values(bookKeys(prefix, owner)),
};
