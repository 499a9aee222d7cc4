import { integerOption } from "@kit/core/toolkit";
import { type EntryFault, InvalidEntryError } from "./errors.js";
import { foldPrefix } from "./fold/index.js";
import { formsOf } from "./forms.js";
import { type Entry, type MatchRules, mostWeight } from "./options.js";
import { ascii, joinedMark, wordStarts } from "./words.js";

const surrogate = /\p{Surrogate}/u;
const control = /\p{Cc}/u;
/** Separates the parts of a reply. Rows and records never contain it, since no id, text or JSON does. */
export const listSeparator = "\u0001";
const mostIdBytes = 256;
const mostTextUnits = 512;
/** The longest folded text, in bytes. */
export const mostFoldBytes = 2_048;

/** Whether no name can contain this text. Such a query matches nothing. Folding a long one would block the event loop. */
export const isUnsearchable = (query: string): boolean =>
  query.length > mostTextUnits || surrogate.test(query) || control.test(query.replace(/\s/g, ""));

/** @throws {InvalidEntryError} it cannot be an id. */
export const checkId = (id: string): string => {
  if (typeof id !== "string") throw new TypeError(`Expected \`id\` to be a string, got ${typeof id}`);
  const isLong = id.length > mostIdBytes || Buffer.byteLength(id) > mostIdBytes;
  if (id === "" || isLong || surrogate.test(id) || id.includes(listSeparator)) throw new InvalidEntryError("", "id");
  return id;
};

const textFault = (text: string): EntryFault | undefined => {
  if (text.length > mostTextUnits) return "text-too-long";
  if (surrogate.test(text)) return "text-ill-formed";
  return isUnsearchable(text) ? "text-control" : undefined;
};

const payloadText = (id: string, payload: unknown, maxBytes: number): string | undefined => {
  if (payload === undefined) return undefined;
  let json: string | undefined;
  try {
    json = JSON.stringify(payload);
  } catch {
    // A bigint, a cycle, or a toJSON that throws: the error may contain the payload.
  }
  if (json === undefined) throw new InvalidEntryError(id, "payload-not-json");
  if (json.length > maxBytes || Buffer.byteLength(json) > maxBytes)
    throw new InvalidEntryError(id, "payload-too-large");
  return json;
};

/** A text with a payload, as both structures store it: `text [NUL payload]`. Neither text nor JSON contains a NUL. */
export const tailOf = ({ id, text, payload }: Entry, maxBytes: number): string => {
  if (typeof text !== "string") throw new TypeError(`Expected \`text\` to be a string, got ${typeof text}`);
  const fault = textFault(text);
  if (fault) throw new InvalidEntryError(id, fault);
  const json = payloadText(id, payload, maxBytes);
  return json === undefined ? text : `${text}\0${json}`;
};

/** The searched form of a text: folded, with a space at its end, and the positions where its words start. */
export interface Folded {
  readonly fold: string;
  /** Offsets in UTF-16 units. */
  readonly starts: readonly number[];
}

/**
 * A query that ends with a space means that its last word is complete, so a text has one at its end. With word starts, "O'Neil, D.C."
 * is found as "o neil d c" and as "oneil dc". A form for which there is no room is left out.
 */
export const foldText = (text: string, rules: MatchRules): Folded => {
  const [first, ...others] = (rules.match === "phrase" ? [text] : formsOf(text)).map(
    (form) => `${foldPrefix(form, rules.fold).trimEnd()} `,
  );
  let fold = first ?? "";
  for (const other of others) {
    const longer = fold + joinedMark + other;
    if (Buffer.byteLength(longer) <= mostFoldBytes) fold = longer;
  }
  return { fold, starts: wordStarts(fold, rules.match) };
};

/** @throws {InvalidEntryError} the folded text is empty or too long. */
export const checkFolded = (id: string, folded: Folded): Folded => {
  if (folded.fold === " ") throw new InvalidEntryError(id, "text-empty");
  if (Buffer.byteLength(folded.fold) > mostFoldBytes) throw new InvalidEntryError(id, "text-too-long");
  return folded;
};

/** @throws {TypeError | RangeError} the value is no weight. */
const checkWeight = (weight: number | undefined): string =>
  weight === undefined ? "" : String(integerOption("weight", weight, 0, mostWeight));

/** An entry that can be stored. */
export interface CheckedEntry {
  readonly id: string;
  readonly weight: string;
  readonly tail: string;
  readonly text: string;
}

/**
 * @throws {TypeError | RangeError} it is no entry, or its weight is invalid.
 * @throws {InvalidEntryError} it cannot be stored.
 */
export const checkEntry = (entry: Entry, maxPayloadBytes: number): CheckedEntry => {
  const given: unknown = entry;
  if (typeof given !== "object" || given === null)
    throw new TypeError(`Expected an entry to be an object, got ${given === null ? "null" : typeof given}`);
  const id = checkId(entry.id);
  return { id, weight: checkWeight(entry.weight), tail: tailOf(entry, maxPayloadBytes), text: entry.text };
};

/** An item, as a reader receives it. */
export interface Item extends Folded {
  readonly id: string;
  readonly text: string;
  readonly weight: number;
  /** JSON; undefined if there is none. */
  readonly payload: string | undefined;
}

/** Splits `text [NUL payload]`. */
export const splitTail = (tail: string): { readonly text: string; readonly payload: string | undefined } => {
  const at = tail.indexOf("\0");
  return at < 0 ? { text: tail, payload: undefined } : { text: tail.slice(0, at), payload: tail.slice(at + 1) };
};

/** Reads a record of a script: `revision NUL weight NUL starts NUL fold NUL text [NUL payload]`. */
export const parseRecord = (id: string, record: string): Item => {
  const weightAt = record.indexOf("\0") + 1;
  const startsAt = record.indexOf("\0", weightAt) + 1;
  const foldAt = record.indexOf("\0", startsAt) + 1;
  const textAt = record.indexOf("\0", foldAt) + 1;
  const fold = record.slice(foldAt, textAt - 1);
  const starts = unitOffsets(fold, record.slice(startsAt, foldAt - 1));
  return { id, ...splitTail(record.slice(textAt)), weight: Number(record.slice(weightAt, startsAt - 1)), fold, starts };
};

/**
 * Reads a row of an alphabetical index, behind its tag: `suffix NUL kind id NUL weight NUL text NUL [payload]`. An id may hold
 * NUL.
 */
export const parseRow = (row: string, tagLength: number, rules: MatchRules): Item => {
  const suffixEnd = row.indexOf("\0", tagLength);
  const textEnd = row.lastIndexOf("\0");
  const weightEnd = row.lastIndexOf("\0", textEnd - 1);
  const idEnd = row.lastIndexOf("\0", weightEnd - 1);
  const text = row.slice(weightEnd + 1, textEnd);
  const isWhole = row[suffixEnd + 1] === "0";
  const suffix = row.slice(tagLength, suffixEnd);
  const { fold, starts } = isWhole ? { fold: suffix, starts: wordStarts(suffix, rules.match) } : foldText(text, rules);
  return {
    id: row.slice(suffixEnd + 2, idEnd),
    text,
    weight: Number(row.slice(idEnd + 1, weightEnd)),
    payload: row.slice(textEnd + 1) || undefined,
    fold,
    starts,
  };
};

/** Whether a row of an alphabetical index belongs to the start of a name, not to a later word. */
export const isNameRow = (row: string, tagLength: number): boolean => row[row.indexOf("\0", tagLength) + 1] === "0";

/** Offsets in UTF-16 units as offsets in bytes, which is what scripts count. */
export const byteOffsets = ({ fold, starts }: Folded): string =>
  (ascii.test(fold) ? starts : starts.map((start) => Buffer.byteLength(fold.slice(0, start)))).join(",");

const unitOffsets = (fold: string, starts: string): number[] => {
  if (starts === "0") return [0];
  const offsets = starts.split(",").map(Number);
  if (ascii.test(fold)) return offsets;
  const bytes = Buffer.from(fold);
  return offsets.map((offset) => bytes.toString("utf8", 0, offset).length);
};
