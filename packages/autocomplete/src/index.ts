export { createContactBook } from "./contact-book.js";
export { DamagedIndexError, InvalidEntryError, RebuildLostError } from "./errors.js";
export { fold, foldVersion } from "./fold/index.js";
export { createPrefixIndex } from "./prefix-index.js";

export type { Contact, ContactBook, ContactCard, ContactList, ContactSuggestions } from "./contact-book.js";
export type { AutocompleteErrorCode, EntryFault } from "./errors.js";
export type { FoldOptions } from "./fold/index.js";
export type { Range } from "./highlight.js";
export type { Suggestion, Suggestions } from "./matching.js";
export type {
  CallOptions,
  ChangeOptions,
  ContactBookOptions,
  Entry,
  PrefixIndexOptions,
  PutManyOptions,
  RebuildOptions,
  SessionOptions,
  SuggestOptions,
  TouchOptions,
  WordOrder,
} from "./options.js";
export type {
  PrefixIndex,
  PrefixIndexEvents,
  PrefixIndexInspection,
  RebuildResult,
  StoredRules,
} from "./prefix-index.js";
export type { SessionAnswer, SuggestSession } from "./session.js";
export type { Match } from "./words.js";
export type { CloseOptions } from "@kit/core/toolkit";
