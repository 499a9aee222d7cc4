import { KitError } from "@kit/core";
import type { ClientContext } from "@kit/core/toolkit";
import { RebuildLostError } from "../errors.js";
import { type IndexKeys, indexKeys, rowTag } from "../keys.js";
import { type IndexRules, type IndexSettings, parseRules, rulesText } from "../options.js";
import * as scripts from "../scripts/index.js";

/** One shard of an index: its keys, and the rules that it had at the last call. */
export interface Shard {
  readonly index: number;
  readonly keys: IndexKeys;
  rules: string;
  /** The tag at the beginning of its rows, by these rules. */
  tag: string;
  /** The rules of a rebuild under way; empty if none was seen. */
  staged: string;
}

/** Callbacks of an index. */
export interface ShardEvents {
  readonly mismatch: (stored: IndexRules) => void;
  /** A key of each shard, before a call. */
  readonly used: (key: string) => void;
}

/** Staged data expires when nothing was written to it for this long. */
export const stagedMs = 600_000;
/** A rebuild changes the rules; more changes than this within one call indicate an error. */
export const mostTries = 5;

/** FNV-1a of a code point's four bytes. */
const hashOf = (codePoint: number): number => {
  let hash = 0x811c9dc5;
  for (let shift = 0; shift < 32; shift += 8) hash = Math.imul(hash ^ ((codePoint >>> shift) & 0xff), 0x01000193);
  return hash >>> 0;
};

/** The shards of one index on its client, and their rules: what reading, changing and maintaining have in common. */
export class Shards {
  readonly context: ClientContext;
  readonly all: readonly Shard[];
  /** The first shard, which holds the rules of all. */
  readonly first: Shard;
  /** The rules of this object, as they are stored. */
  readonly own: string;
  readonly deadlineMs: number;
  readonly #name: string;
  readonly #events: ShardEvents;
  /** Rules by their text, so that a text is parsed once. */
  readonly #rules = new Map<string, IndexRules>();

  constructor(name: string, context: ClientContext, settings: IndexSettings, events: ShardEvents) {
    this.#name = name;
    this.context = context;
    this.deadlineMs = settings.deadlineMs;
    this.#events = events;
    const own = rulesText(settings.rules);
    this.own = own;
    this.#rules.set(own, settings.rules);
    const tag = rowTag(own);
    this.all = Array.from({ length: settings.shards }, (_, index): Shard => {
      const keys = indexKeys(context.prefix, name, index, settings.shards);
      return { index, keys, rules: own, tag, staged: "" };
    });
    this.first = this.all[0]!;
  }

  /** To be called before each call: it may use all shards. */
  used(): void {
    for (const { keys } of this.all) this.#events.used(keys.index);
  }

  /** The options of a script. */
  options(signal: AbortSignal | undefined, op?: string): { deadlineMs: number; signal?: AbortSignal; op?: string } {
    return { deadlineMs: this.deadlineMs, ...(signal && { signal }), ...(op !== undefined && { op }) };
  }

  /** The shard with all names that start with a folded text; undefined if they may be in any shard. */
  shardOf(prefix: string): Shard | undefined {
    if (this.all.length === 1) return this.first;
    const first = prefix.codePointAt(0);
    return first === undefined ? undefined : this.all[hashOf(first) % this.all.length];
  }

  /**
   * Parses the text of rules.
   *
   * @throws {KitError} `KIT_LAYOUT`: a newer version wrote it.
   */
  rulesOf(text: string): IndexRules {
    let rules = this.#rules.get(text);
    if (!rules) {
      rules = parseRules(text);
      if (!rules)
        throw new KitError(
          "KIT_LAYOUT",
          `A newer version of the package wrote the settings of index ${JSON.stringify(this.#name)}. Upgrade this process`,
        );
      this.#rules.set(text, rules);
    }
    return rules;
  }

  /** Takes over the rules in a reply of a shard. */
  learn(shard: Shard, rules: string, staged: string): void {
    const stored = this.rulesOf(rules);
    if (staged !== "") this.rulesOf(staged);
    shard.staged = staged;
    const before = shard.rules;
    if (rules === before) return;
    const isNew = this.all.every((one) => one.rules !== rules);
    const tag = rowTag(rules);
    // All shards have the same rules, except while a rebuild switches one after another.
    for (const one of this.all) if (one.rules === before) Object.assign(one, { rules, tag });
    if (isNew && rules !== this.own) this.#events.mismatch(stored);
  }

  /** Reads the rules and counts of a shard. */
  survey(shard: Shard, signal: AbortSignal | undefined): Promise<scripts.Survey> {
    return scripts.survey.run(this.context, shard.keys, {}, this.options(signal));
  }

  /** The error of a call during which the rules changed too often. */
  unsettled(): KitError {
    const message = `The settings of index ${JSON.stringify(this.#name)} changed at each try. Try again later`;
    return new KitError("KIT_CONFLICT", message, { retryable: true });
  }

  /** The error of a rebuild that is over. */
  rebuildLost(): RebuildLostError {
    return new RebuildLostError(this.#name);
  }
}
