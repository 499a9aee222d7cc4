import { KitError } from "@kit/core";

/**
 * Codes of this package's own errors. One code has no class:
 *
 * - `KIT_AUTOCOMPLETE_EMPTY`: a rebuild had no entry that can be stored, and `allowEmpty` is not set. The index is unchanged
 */
export type AutocompleteErrorCode =
  "KIT_AUTOCOMPLETE_ENTRY" | "KIT_AUTOCOMPLETE_REBUILD" | "KIT_AUTOCOMPLETE_EMPTY" | "KIT_AUTOCOMPLETE_DAMAGED";

declare module "@kit/core" {
  interface KitErrorCodes {
    autocomplete: AutocompleteErrorCode;
  }
}

/**
 * Why an entry cannot be stored.
 *
 * - `id`: it is empty, longer than 256 bytes, contains U+0001, or is not well-formed Unicode
 * - `text-empty`: nothing searchable is left of the text after folding
 * - `text-too-long`: the text has over 512 UTF-16 units, or over 2,048 bytes once folded
 * - `text-ill-formed`: the text contains a lone surrogate
 * - `text-control`: the text contains a control character other than white space
 * - `payload-too-large`: the JSON of the payload is longer than `maxPayloadBytes`
 * - `payload-not-json`: the payload cannot be written as JSON: a bigint, a cycle, a function
 */
export type EntryFault =
  "id" | "text-empty" | "text-too-long" | "text-ill-formed" | "text-control" | "payload-too-large" | "payload-not-json";

const faults: Readonly<Record<EntryFault, string>> = {
  id: "its id must be well-formed Unicode of 1 to 256 bytes, without U+0001",
  "text-empty": "its text has no letters or digits to search for",
  "text-too-long": "its text has more than 512 characters, or 2,048 bytes after folding",
  "text-ill-formed": "its text has half a surrogate pair",
  "text-control": "its text has a control character",
  "payload-too-large": "its payload is larger than maxPayloadBytes",
  "payload-not-json": "its payload cannot be written as JSON",
};

/** The id, the text or the payload of an entry cannot be stored; `fault` names the reason. Nothing of the entry was written. */
export class InvalidEntryError extends KitError {
  /** @internal */
  static override readonly brand: string = "InvalidEntryError";
  /** The entry's id; empty if the id is at fault. */
  readonly id: string;
  readonly fault: EntryFault;

  constructor(id: string, fault: EntryFault) {
    super("KIT_AUTOCOMPLETE_ENTRY", `An entry cannot be stored: ${faults[fault]}`);
    this.id = id;
    this.fault = fault;
  }
}

/**
 * A rebuild ended before it replaced the index: another rebuild started, it wrote nothing for ten minutes, or the server restarted and
 * lost a part of it. The index is unchanged. Retryable.
 */
export class RebuildLostError extends KitError {
  /** @internal */
  static override readonly brand: string = "RebuildLostError";
  /** The index's name. */
  readonly index: string;

  constructor(index: string) {
    super(
      "KIT_AUTOCOMPLETE_REBUILD",
      `The rebuild of ${JSON.stringify(index)} was lost: another rebuild replaced it, it wrote nothing for ten minutes, or the server lost data. Rebuild again`,
      { retryable: true },
    );
    this.index = index;
  }
}

/**
 * Items that a query found have no record, because a key was evicted or deleted. Only the event `error` reports it. A rebuild restores
 * the records.
 */
export class DamagedIndexError extends KitError {
  /** @internal */
  static override readonly brand: string = "DamagedIndexError";
  /** The index's name. */
  readonly index: string;

  constructor(index: string) {
    super(
      "KIT_AUTOCOMPLETE_DAMAGED",
      `The index ${JSON.stringify(index)} has lost records. Rebuild it to restore them`,
    );
    this.index = index;
  }
}
