import { integerOption } from "@kit/core/toolkit";
import { nameOption } from "../keys.js";

/** The kinds in the commit script: sums and texts in hashes, members of sets, sums in sorted sets. */
const kinds = ["h+", "h=", "s", "z"] as const;
type Kind = (typeof kinds)[number];
/** The fields or members of each result. */
type Named = Map<string, Map<string, string | number>>;

/** The results of a commit, as operands of its script. */
export interface Effects {
  readonly names: readonly string[];
  /** JSON in one operand, because a commit may have more fields than a call can have operands. */
  readonly results: string;
}

/** The results of a commit, perhaps in pieces. Pieces are stored with the position, and applied one after another. */
export interface Stored {
  readonly effects: Effects;
  readonly pieces?: readonly Effects[];
}

export const noEffects: Effects = { names: [], results: "[]" };

/** More fields than this would keep the server busy for long. */
export const mostFields = 5_000;

/**
 * Results of the lines since the last commit. They stay in memory and are written together with the position. Sums of the same field become
 * one number, so memory and the commit grow with the number of fields, not of lines.
 */
export class Results {
  #kinds: Readonly<Record<Kind, Named>> = { "h+": new Map(), "h=": new Map(), s: new Map(), z: new Map() };

  /** The number of different fields to write. */
  get size(): number {
    let size = 0;
    for (const kind of kinds) for (const fields of this.#kinds[kind].values()) size += fields.size;
    return size;
  }

  /**
   * Adds `by` to `field` of the hash `name`.
   *
   * @throws {TypeError | RangeError} `by`, or the sum until the next commit, is not an integer within ±(2^53 − 1).
   */
  increment(name: string, field: string, by = 1): this {
    return this.#sum("h+", name, field, by);
  }

  /** Adds `by` to the score of `member` of the sorted set `name`. The limits are the same as for `increment`. */
  rank(name: string, member: string, by = 1): this {
    return this.#sum("z", name, member, by);
  }

  /** Sets `field` of the hash `name`. The last value before the next commit is written. */
  set(name: string, field: string, value: string): this {
    this.#fieldsOf("h=", name, field).set(field, value);
    return this;
  }

  /** Adds `member` to the set `name`. */
  add(name: string, member: string): this {
    this.#fieldsOf("s", name, member).set(member, "");
    return this;
  }

  /** Moves everything into another object, for a commit. @internal */
  take(): Results {
    const taken = new Results();
    [taken.#kinds, this.#kinds] = [this.#kinds, taken.#kinds];
    return taken;
  }

  /** Takes back results that were not stored, before the results collected since. @internal */
  putBack(taken: Results): void {
    const since = this.#kinds;
    this.#kinds = taken.#kinds;
    for (const kind of kinds)
      for (const [name, fields] of since[kind])
        for (const [field, value] of fields)
          if (typeof value === "number" && kind !== "h=") this.#sum(kind, name, field, value);
          else this.#fieldsOf(kind, name, field).set(field, value);
  }

  /** Everything in the form of the commit script. */
  effects(): Effects {
    return this.pieces(Infinity)[0]!;
  }

  /** Everything, or pieces of it if there are more fields than `most`. */
  stored(most: number): Stored {
    return this.size > most ? { effects: noEffects, pieces: this.pieces(mostFields) } : { effects: this.effects() };
  }

  /** Everything in pieces of at most `most` fields. */
  pieces(most: number): readonly Effects[] {
    let numbers = new Map<string, number>();
    let results: string[] = [];
    const pieces: Effects[] = [];
    const end = (): void => {
      pieces.push({ names: [...numbers.keys()], results: jsonOf(results) });
      [numbers, results] = [new Map(), []];
    };
    for (const kind of kinds)
      for (const [name, fields] of this.#kinds[kind])
        for (const [field, value] of fields) {
          if (results.length === 4 * most) end();
          const number = numbers.get(name) ?? numbers.size + 1;
          numbers.set(name, number);
          results.push(kind, String(number), field, String(value));
        }
    if (results.length > 0 || pieces.length === 0) end();
    return pieces;
  }

  #sum(kind: Kind, name: string, field: string, by: number): this {
    const fields = this.#fieldsOf(kind, name, field);
    const sum = Number(fields.get(field) ?? 0) + by;
    if (!Number.isSafeInteger(sum)) integerOption("by", by, -Number.MAX_SAFE_INTEGER);
    if (!Number.isSafeInteger(sum)) throw new RangeError("Expected each sum to be within ±(2^53 − 1)");
    fields.set(field, sum);
    return this;
  }

  #fieldsOf(kind: Kind, name: string, field: string): Map<string, string | number> {
    // Any other value would make the commit script fail halfway.
    if (typeof field !== "string") throw new TypeError("Expected the field or member of a result to be a string");
    const names = this.#kinds[kind];
    let fields = names.get(name);
    if (!fields) names.set(nameOption("name", name, 400), (fields = new Map<string, string | number>()));
    return fields;
  }
}

/** The commit that stores pieces of results as texts of one hash, to be applied later. A repeat uses the same names. */
export const deferred = (pieces: readonly Effects[], commit: string): string =>
  JSON.stringify(
    pieces.flatMap(({ names, results }, at) => [
      "h=",
      "1",
      `${commit} ${String(at)}`,
      `[${JSON.stringify(names)},${results}]`,
    ]),
  );

/** Replaces a lone surrogate, as in all text that goes to Redis: JSON escapes it and Lua's decoder rejects it. */
const jsonOf = (texts: readonly string[]): string => {
  const json = JSON.stringify(texts);
  return /\\ud[89a-f]/.test(json) ? JSON.stringify(texts.map((text) => Buffer.from(text).toString())) : json;
};
