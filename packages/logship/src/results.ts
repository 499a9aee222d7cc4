import { integerOption, textOption } from "@kit/core/toolkit";

/** One result as the commit script takes it: kind, name, field, value. */
type Effect = readonly [kind: "h+" | "h=" | "s" | "z", name: string, field: string, value: string | number];

/** The results of a commit, as operands of its script. */
export interface Effects {
  readonly names: readonly string[];
  /** JSON, as one operand: a commit may have more fields than a call has places. */
  readonly results: string;
}

export const noEffects: Effects = { names: [], results: "[]" };

/**
 * Results of the lines since the last commit, kept in memory and written together with the position. Sums of the same field become one
 * number, so memory and the commit depend on the number of fields and not on the number of lines.
 */
export class Results {
  readonly #sums = new Map<string, Map<string, number>>();
  readonly #ranks = new Map<string, Map<string, number>>();
  readonly #texts = new Map<string, Map<string, string>>();
  readonly #sets = new Map<string, Set<string>>();
  #fields = 0;

  /** How many different fields are to be written. */
  get size(): number {
    return this.#fields;
  }

  /**
   * Adds `by` to `field` of the hash `name`.
   *
   * @throws {TypeError | RangeError} `by`, or the sum until the next commit, is no integer within ±(2^53 − 1).
   */
  increment(name: string, field: string, by = 1): this {
    return this.#sum(this.#sums, name, field, by);
  }

  /** Adds `by` to the score of `member` of the sorted set `name`. Limits as of `increment`. */
  rank(name: string, member: string, by = 1): this {
    return this.#sum(this.#ranks, name, member, by);
  }

  /** Sets `field` of the hash `name`; of several values until the next commit the last one is written. */
  set(name: string, field: string, value: string): this {
    const fields = this.#texts.get(name) ?? this.#named(this.#texts, name, new Map<string, string>());
    if (!fields.has(field)) this.#fields++;
    fields.set(field, value);
    return this;
  }

  /** Adds `member` to the set `name`. */
  add(name: string, member: string): this {
    const members = this.#sets.get(name) ?? this.#named(this.#sets, name, new Set<string>());
    if (!members.has(member)) this.#fields++;
    members.add(member);
    return this;
  }

  /** Everything in the form of the commit script. */
  effects(): Effects {
    const numbers = new Map<string, number>();
    const results: string[] = [];
    for (const [kind, name, field, value] of this.#all()) {
      let number = numbers.get(name);
      if (number === undefined) numbers.set(name, (number = numbers.size + 1));
      results.push(kind, String(number), field, String(value));
    }
    return { names: [...numbers.keys()], results: jsonOf(results) };
  }

  *#all(): Generator<Effect> {
    for (const [name, fields] of this.#sums) for (const [field, sum] of fields) yield ["h+", name, field, sum];
    for (const [name, fields] of this.#texts) for (const [field, value] of fields) yield ["h=", name, field, value];
    for (const [name, members] of this.#sets) for (const member of members) yield ["s", name, member, ""];
    for (const [name, members] of this.#ranks) for (const [member, sum] of members) yield ["z", name, member, sum];
  }

  #sum(kind: Map<string, Map<string, number>>, name: string, field: string, by: number): this {
    const fields = kind.get(name) ?? this.#named(kind, name, new Map<string, number>());
    const known = fields.get(field);
    if (known === undefined) this.#fields++;
    const sum = (known ?? 0) + by;
    if (!Number.isSafeInteger(sum)) integerOption("by", by, -Number.MAX_SAFE_INTEGER);
    if (!Number.isSafeInteger(sum)) throw new RangeError("Expected a sum within ±(2^53 − 1)");
    fields.set(field, sum);
    return this;
  }

  #named<T>(kind: Map<string, T>, name: string, made: T): T {
    kind.set(textOption("name", name, 400), made);
    return made;
  }
}

/** Half a surrogate pair, which JSON escapes and Lua's decoder rejects, is replaced as in all text that goes to Redis. */
const jsonOf = (texts: readonly string[]): string => {
  const json = JSON.stringify(texts);
  return /\\ud[89a-f]/.test(json) ? JSON.stringify(texts.map((text) => Buffer.from(text).toString())) : json;
};
