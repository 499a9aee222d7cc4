import { canary, type Conformance, conforming } from "@tooling/vitest/conformance";
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
import {
  bookRules,
  bookSuggestRules,
  callRules,
  changeRules,
  indexRules,
  putManyRules,
  rebuildRules,
  sessionRules,
  suggestRules,
  touchRules,
} from "../src/options.js";
import { name, permanentKeys } from "./harness.js";

const locale = ["", "not a locale", 1, null];
const onInvalid = [1, "yes", null];
const entry = { id: "1", text: `${canary} Ann`, payload: { note: canary } };
const card = { text: entry.text, payload: entry.payload };
const filled = async (index: PrefixIndex): Promise<void> => await index.put(entry);
const known = async (book: ContactBook): Promise<void> => void (await book.record("1", card));

/** A prefix index and a contact book, for the conformance suites. */
export const conformance: Conformance = {
  name: "autocomplete",
  permanentKeys,
  objects: [
    conforming<PrefixIndex>({
      what: "a prefix index",
      make: (client, options) => createPrefixIndex(client, name, { order: "weight", ...options }),
      named: (client, named) => createPrefixIndex(client, named),
      options: indexRules,
      refused: { locale },
      uses: (index) => index.suggest("an"),
      calls: {
        put: {
          options: changeRules,
          run: (index, options: ChangeOptions) => index.put(entry, options),
          trace: ["kit:autocomplete.put", { index: name }],
        },
        putMany: {
          options: putManyRules,
          refused: { onInvalid },
          run: (index, options: PutManyOptions<unknown>) => index.putMany([entry], options),
          trace: ["kit:autocomplete.putMany", { index: name }],
        },
        delete: {
          options: changeRules,
          prepare: filled,
          run: (index, options: ChangeOptions) => index.delete("1", options),
          trace: ["kit:autocomplete.delete", { index: name }],
        },
        touch: {
          options: touchRules,
          prepare: filled,
          run: (index, options: TouchOptions) => index.touch("1", options),
          trace: ["kit:autocomplete.touch", { index: name }],
        },
        suggest: {
          options: suggestRules,
          prepare: filled,
          run: (index, options: SuggestOptions) => index.suggest("an", options),
          trace: ["kit:autocomplete.suggest", { index: name }],
        },
        "suggest, of nothing": {
          options: callRules,
          run: (index, options: SuggestOptions) => index.suggest("an", options),
        },
        session: {
          options: sessionRules,
          refused: { prefetch: [9, 201, "1"] },
          run: (index, options: SessionOptions) => void index.session(options),
          isLocal: true,
        },
        "session.type": { prepare: filled, run: (index) => index.session().type("an") },
        rebuild: {
          options: rebuildRules,
          refused: { onInvalid },
          run: (index, options: PutManyOptions<unknown>) => index.rebuild([entry], options),
          trace: ["kit:autocomplete.rebuild", { index: name }],
        },
        inspect: {
          options: callRules,
          prepare: filled,
          run: (index, options: CallOptions) => index.inspect(options),
          trace: ["kit:autocomplete.inspect", { index: name }],
        },
        purge: {
          options: callRules,
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
      options: bookRules,
      refused: { locale },
      calls: {
        record: {
          options: changeRules,
          run: (book, options: ChangeOptions) => book.record("1", card, options),
          trace: ["kit:autocomplete.book.record", {}],
        },
        remove: {
          options: changeRules,
          prepare: known,
          run: (book, options: ChangeOptions) => book.remove("1", options),
          trace: ["kit:autocomplete.book.remove", {}],
        },
        block: {
          options: changeRules,
          prepare: known,
          run: (book, options: ChangeOptions) => book.block("1", options),
          trace: ["kit:autocomplete.book.block", {}],
        },
        unblock: {
          options: changeRules,
          prepare: async (book) => void (await book.block("1")),
          run: (book, options: ChangeOptions) => book.unblock("1", options),
          trace: ["kit:autocomplete.book.unblock", {}],
        },
        list: {
          options: callRules,
          prepare: known,
          run: (book, options: CallOptions) => book.list(options),
          trace: ["kit:autocomplete.book.list", {}],
        },
        suggest: {
          options: bookSuggestRules,
          prepare: known,
          run: (book, options: SuggestOptions) => book.suggest("an", options),
          trace: ["kit:autocomplete.book.suggest", {}],
        },
        purge: {
          options: callRules,
          prepare: known,
          run: (book, options: CallOptions) => book.purge(options),
          trace: ["kit:autocomplete.book.purge", {}],
        },
      },
    }),
  ],
};
