import {
  canary,
  choice,
  clientRules,
  type Conformance,
  conforming,
  integer,
  type OptionRules,
  refusing,
  signal,
} from "@tooling/vitest/conformance";
import {
  type CallOptions,
  type ChangeOptions,
  type ContactBook,
  createContactBook,
  createPrefixIndex,
  type PrefixIndex,
  type PutManyOptions,
  type SessionOptions,
  type SuggestOptions,
  type TouchOptions,
} from "../src/index.js";
import { name, permanentKeys } from "./harness.js";

const dayMs = 86_400_000;
const op = refusing("not an id", "", "x".repeat(129), 1, null);
const change: OptionRules = { op, signal };
const suggestRules: OptionRules = { limit: integer(1, 200), words: choice("in-order", "any-order"), signal };
const typos = integer(0, 1);
const matchRules: OptionRules = {
  match: choice("phrase", "word-start"),
  marks: choice("fold", "keep"),
  locale: refusing("", "not a locale", 1, null),
  maxPayloadBytes: integer(0, 65_536),
};
const entry = { id: "1", text: `${canary} Ann`, payload: { note: canary } };
const card = { text: entry.text, payload: entry.payload };
const filled = async (index: PrefixIndex): Promise<void> => await index.put(entry);
const known = async (book: ContactBook): Promise<void> => void (await book.record("1", card));
const many = refusing(1, "yes", null);

/** A prefix index and a contact book, for the conformance suites. */
export const conformance: Conformance = {
  name: "autocomplete",
  permanentKeys,
  objects: [
    conforming<PrefixIndex>({
      what: "a prefix index",
      make: (client, options) => createPrefixIndex(client, name, { order: "weight", ...options }),
      named: (client, named) => createPrefixIndex(client, named),
      options: {
        ...clientRules,
        ...matchRules,
        order: choice("alphabetical", "weight"),
        rankedLength: integer(1, 8),
        empty: choice("nothing", "top"),
        shards: integer(1, 64),
      },
      uses: (index) => index.suggest("an"),
      calls: {
        put: {
          options: change,
          run: (index, options: ChangeOptions) => index.put(entry, options),
          trace: ["kit:autocomplete.put", { index: name }],
        },
        putMany: {
          options: { onInvalid: many, signal },
          run: (index, options: PutManyOptions<unknown>) => index.putMany([entry], options),
          trace: ["kit:autocomplete.putMany", { index: name }],
        },
        delete: {
          options: change,
          prepare: filled,
          run: (index, options: ChangeOptions) => index.delete("1", options),
          trace: ["kit:autocomplete.delete", { index: name }],
        },
        touch: {
          options: { ...change, by: integer(-9_999_999_999_999, 9_999_999_999_999) },
          prepare: filled,
          run: (index, options: TouchOptions) => index.touch("1", options),
          trace: ["kit:autocomplete.touch", { index: name }],
        },
        suggest: {
          options: { ...suggestRules, typos },
          prepare: filled,
          run: (index, options: SuggestOptions) => index.suggest("an", options),
          trace: ["kit:autocomplete.suggest", { index: name }],
        },
        "suggest, of nothing": {
          options: { signal },
          run: (index, options: SuggestOptions) => index.suggest("an", options),
        },
        session: {
          options: { limit: integer(1, 200), typos, maxAgeMs: integer(0, dayMs), debounceMs: integer(0, 60_000) },
          run: (index, options: SessionOptions) => void index.session(options),
          isLocal: true,
        },
        "session.type": { prepare: filled, run: (index) => index.session().type("an") },
        rebuild: {
          options: { onInvalid: many, signal },
          run: (index, options: PutManyOptions<unknown>) => index.rebuild([entry], options),
          trace: ["kit:autocomplete.rebuild", { index: name }],
        },
        inspect: {
          options: { signal },
          prepare: filled,
          run: (index, options: CallOptions) => index.inspect(options),
          trace: ["kit:autocomplete.inspect", { index: name }],
        },
        purge: {
          options: { signal },
          prepare: filled,
          run: (index, options: CallOptions) => index.purge(options),
          trace: ["kit:autocomplete.purge", { index: name }],
        },
      },
    }),
    conforming<ContactBook>({
      what: "a contact book",
      make: (client, options) => createContactBook(client, name, options),
      named: (client, named) => createContactBook(client, named),
      options: {
        ...clientRules,
        ...matchRules,
        ranking: choice("recent", "frecent"),
        halfLifeMs: integer(1_000, 3_650 * dayMs),
        max: integer(1, 1_000),
        maxAgeMs: integer(0, dayMs),
        keepMs: refusing(999, 1.5, "1000"),
      },
      calls: {
        record: {
          options: change,
          run: (book, options: ChangeOptions) => book.record("1", card, options),
          trace: ["kit:autocomplete.book.record", {}],
        },
        remove: {
          options: change,
          prepare: known,
          run: (book, options: ChangeOptions) => book.remove("1", options),
          trace: ["kit:autocomplete.book.remove", {}],
        },
        block: {
          options: change,
          prepare: known,
          run: (book, options: ChangeOptions) => book.block("1", options),
          trace: ["kit:autocomplete.book.block", {}],
        },
        unblock: {
          options: change,
          prepare: async (book) => void (await book.block("1")),
          run: (book, options: ChangeOptions) => book.unblock("1", options),
          trace: ["kit:autocomplete.book.unblock", {}],
        },
        list: {
          options: { signal },
          prepare: known,
          run: (book, options: CallOptions) => book.list(options),
          trace: ["kit:autocomplete.book.list", {}],
        },
        suggest: {
          options: suggestRules,
          prepare: known,
          run: (book, options: SuggestOptions) => book.suggest("an", options),
          trace: ["kit:autocomplete.book.suggest", {}],
        },
        purge: {
          options: { signal },
          prepare: known,
          run: (book, options: CallOptions) => book.purge(options),
          trace: ["kit:autocomplete.book.purge", {}],
        },
      },
    }),
  ],
};
