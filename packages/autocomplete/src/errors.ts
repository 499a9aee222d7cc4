import { KitError } from "@kit/core";

/**
 * Codes of this package's own errors.
 *
 * - `KIT_AUTOCOMPLETE_ENTRY`: an id, a text or a payload that cannot be stored
 * - `KIT_AUTOCOMPLETE_REBUILD`: a rebuild ended before it could switch; the index is unchanged
 * - `KIT_AUTOCOMPLETE_EMPTY`: a rebuild without entries; the index is unchanged
 * - `KIT_AUTOCOMPLETE_DAMAGED`: found items have no record; only as an `error` event
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
 * - `id`: it is empty, longer than 256 bytes, has U+0001, or is not well-formed Unicode
 * - `text-empty`: nothing searchable is left of it
 * - `text-too-long`: over 512 UTF-16 units, or over 2,048 bytes once folded
 * - `text-ill-formed`: it has a lone surrogate
 * - `text-control`: it has a control character other than white space
 * - `payload-too-large`: its JSON is longer than `maxPayloadBytes`
 * - `payload-not-json`: it cannot be written as JSON: a bigint, a cycle, a function
 */
export type EntryFault =
  "id" | "text-empty" | "text-too-long" | "text-ill-formed" | "text-control" | "payload-too-large" | "payload-not-json";

const faults: Readonly<Record<EntryFault, string>> = {
  id: "its id must be well-formed text of 1 to 256 bytes, without U+0001",
  "text-empty": "nothing of its text can be searched for",
  "text-too-long": "its text has over 512 characters, or 2,048 bytes once folded",
  "text-ill-formed": "its text has half a surrogate pair",
  "text-control": "its text has a control character",
  "payload-too-large": "its payload is larger than maxPayloadBytes",
  "payload-not-json": "its payload cannot be written as JSON",
};

/** An entry that cannot be stored. Nothing was written of it. */
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
 * A rebuild ended before it could switch: another rebuild took its place, or it wrote nothing for ten minutes. The index is
 * unchanged.
 */
export class RebuildLostError extends KitError {
  /** @internal */
  static override readonly brand: string = "RebuildLostError";
  /** The index's name. */
  readonly index: string;

  constructor(index: string) {
    super(
      "KIT_AUTOCOMPLETE_REBUILD",
      `The rebuild of ${JSON.stringify(index)} is over: another one took its place, or it wrote nothing for ten minutes`,
      { retryable: true },
    );
    this.index = index;
  }
}

/** Found items have no record: a key was evicted or deleted. A rebuild restores it. */
export class DamagedIndexError extends KitError {
  /** @internal */
  static override readonly brand: string = "DamagedIndexError";
  /** The index's name. */
  readonly index: string;

  constructor(index: string) {
    super("KIT_AUTOCOMPLETE_DAMAGED", `The index ${JSON.stringify(index)} has lost records: a rebuild restores them`);
    this.index = index;
  }
}
