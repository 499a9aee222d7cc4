import { KitError, KitUnknownOutcomeError } from "@kit/core";
import { newToken } from "@kit/core/toolkit";
import { byteOffsets, type CheckedEntry, checkFolded, type Folded, foldText } from "../entry.js";
import type { IndexRules, ResolvedChange } from "../options.js";
import * as scripts from "../scripts/index.js";
import { mostTries, type Shard, type Shards, stagedMs } from "./shards.js";

/** A put of an entry, or a drop of an id. */
export type Change = { readonly put: CheckedEntry } | { readonly drop: string };
/** A change as a shard receives it; it may also add to the weight of an id. */
type ShardChange = Change | { readonly touch: string; readonly by: number };

/** A rebuild: its token, and how many batches each shard has confirmed. */
export interface Rebuild {
  readonly token: string;
  readonly batches: Map<Shard, number>;
}

/** The facts of one changing call. */
export interface WriteCall {
  readonly op: string;
  readonly signal: AbortSignal | undefined;
  readonly isRepeatable?: boolean;
  /** The rebuild that it is part of. */
  readonly rebuild?: Rebuild | undefined;
}

/** A row of `write.lua`. */
type ChangeRow = Parameters<typeof scripts.write.run>[2]["changes"][number];
const noChange = { weight: "", tail: "", fold: "", starts: "", secondFold: "", secondStarts: "" };

const isUnknown = (error: unknown): boolean => error instanceof KitUnknownOutcomeError;

const idOf = (change: Change): string => ("put" in change ? change.put.id : change.drop);

const signed = (by: number): string => (by < 0 ? String(by) : `+${String(by)}`);

/** Changes the entries of an index. */
export class IndexWriter {
  readonly #shards: Shards;
  /** The rules of this object, which a first put stores. */
  readonly #rules: IndexRules;

  constructor(shards: Shards, rules: IndexRules) {
    this.#shards = shards;
    this.#rules = rules;
  }

  /**
   * Makes changes, and resolves with how many of their items existed before. With several shards it adds first and drops afterwards,
   * so that an item is never missing in between. A change that is superseded by a later one removes what it added.
   */
  async write(given: readonly Change[], call: WriteCall): Promise<number> {
    if (this.#shards.all.length === 1) return (await this.#writeTo(this.#shards.first, () => given, "0", call)).known;
    const revision = await this.#revision(call.signal);
    const changes = await this.#weighed(given, call.signal);
    const superseded = new Set<string>();
    const each = async (phase: string, chosen: (shard: Shard) => readonly Change[]): Promise<number> => {
      const counts = await Promise.all(
        this.#shards.all.map(async (shard) => {
          const own = (): readonly Change[] => chosen(shard);
          const done = await this.#writeTo(shard, own, revision, { ...call, op: `${call.op}.${phase}` });
          for (const id of done.superseded) superseded.add(id);
          return done.known;
        }),
      );
      return counts.reduce((sum, count) => sum + count, 0);
    };
    const isAdd =
      (shard: Shard) =>
      (change: Change): boolean =>
        "put" in change && this.#belongs(change.put, shard, call);
    const added = new Map<Shard, readonly Change[]>();
    await each("add", (shard) => {
      const own = changes.filter(isAdd(shard));
      added.set(shard, own);
      return own;
    });
    // A shard whose rules have changed reports it at its first change: then more items may belong there.
    const known = await each("drop", (shard) =>
      changes
        .filter((change) => !added.get(shard)?.includes(change))
        .map((change) => (isAdd(shard)(change) ? change : { drop: idOf(change) })),
    );
    if (superseded.size > 0) await each("undo", () => [...superseded].map((id) => ({ drop: id })));
    return known;
  }

  /** @throws {InvalidEntryError} the folded text is empty or too long. */
  check({ id, text }: CheckedEntry): Folded {
    return checkFolded(id, foldText(text, this.#rules));
  }

  /** With another `op` it is another change. */
  async touch(id: string, by: number, call: ResolvedChange): Promise<boolean> {
    const sent = { ...call, isRepeatable: call.isGiven };
    const ends = await Promise.allSettled(
      this.#shards.all.map((shard) => this.#writeTo(shard, () => [{ touch: id, by }], "0", sent)),
    );
    const failures = ends.flatMap((end) => (end.status === "rejected" ? [end.reason as unknown] : []));
    const failure = failures.find(isUnknown) ?? failures[0];
    if (failure === undefined) return ends.some((end) => end.status === "fulfilled" && end.value.known > 0);
    // Some shards have the change: the same call would change them again.
    const isPartial = failures.length < ends.length && !call.isGiven && KitError.is(failure) && failure.retryable;
    throw isPartial ? new KitUnknownOutcomeError("Only some shards have the new weight", call.op, failure) : failure;
  }

  #foldFor({ text }: CheckedEntry, rules: string, shard: Shard): Folded {
    const { fold, starts } = foldText(text, this.#shards.rulesOf(rules));
    if (this.#shards.all.length === 1) return { fold, starts };
    return { fold, starts: starts.filter((start) => this.#shards.shardOf(fold.slice(start)) === shard) };
  }

  #belongs(entry: CheckedEntry, shard: Shard, { rebuild }: WriteCall): boolean {
    const rules = rebuild === undefined ? [shard.rules, shard.staged] : [this.#shards.own];
    return rules.some((text) => text !== "" && this.#foldFor(entry, text, shard).starts.length > 0);
  }

  /** The row of one change. */
  #rowOf(change: ShardChange, revision: string, shard: Shard, rules: string, staged: string): ChangeRow {
    if ("drop" in change) return { ...noChange, id: change.drop, revision };
    if ("touch" in change) return { ...noChange, id: change.touch, revision, weight: signed(change.by) };
    const { put } = change;
    const first = this.#foldFor(put, rules, shard);
    const second = staged === "" ? { fold: "", starts: [] } : this.#foldFor(put, staged, shard);
    return {
      ...{ id: put.id, revision, weight: put.weight, tail: put.tail },
      ...{ fold: first.fold, starts: byteOffsets(first) },
      ...{ secondFold: second.fold, secondStarts: byteOffsets(second) },
    };
  }

  /** Makes changes in one shard; `chosen` selects them again when its rules have changed. */
  async #writeTo(
    shard: Shard,
    chosen: () => readonly ShardChange[],
    revision: string,
    { op, signal, isRepeatable, rebuild }: WriteCall,
  ): Promise<{ readonly known: number; readonly superseded: readonly string[] }> {
    const token = rebuild?.token ?? "";
    for (let tries = 0; tries < mostTries; tries++) {
      const changes = chosen();
      if (changes.length === 0) return { known: 0, superseded: [] };
      const settings = token === "" ? shard.rules : this.#shards.own;
      const staged = token === "" && shard.staged !== settings ? shard.staged : "";
      const rows = changes.map((change) => this.#rowOf(change, revision, shard, settings, staged));
      const args = { op, token, settings, staged, keepMs: stagedMs, changes: rows };
      const sending = { ...this.#shards.options(signal, op), isRepeatable };
      const reply = await scripts.write.run(this.#shards.context, shard.keys, args, sending);
      if (reply.state === "done") {
        rebuild?.batches.set(shard, (rebuild.batches.get(shard) ?? 0) + 1);
        return reply;
      }
      if (reply.state === "lost") throw this.#shards.rebuildLost();
      this.#shards.learn(shard, reply.settings, reply.staged);
    }
    throw this.#shards.unsettled();
  }

  /** A put without a weight keeps the item's weight, even in shards that do not have the item yet. */
  async #weighed(changes: readonly Change[], signal: AbortSignal | undefined): Promise<readonly Change[]> {
    const ids = changes.flatMap((change) => ("put" in change && change.put.weight === "" ? [change.put.id] : []));
    if (ids.length === 0 || this.#rules.order !== "weight") return changes;
    const { all, context } = this.#shards;
    const options = this.#shards.options(signal);
    const found = await Promise.all(all.map(({ keys }) => scripts.weights.run(context, keys, { ids }, options)));
    const weights = new Map(
      ids.map((id, at) => [id, found.map((weights) => weights[at]).find((weight) => weight !== undefined)]),
    );
    return changes.map((change) => {
      const weight = "put" in change && change.put.weight === "" ? weights.get(change.put.id) : undefined;
      return "put" in change && weight !== undefined ? { put: { ...change.put, weight } } : change;
    });
  }

  /** The revision of a change. The first shard has the rules of all, including shards that are still empty. */
  async #revision(signal: AbortSignal | undefined): Promise<string> {
    const { first, context } = this.#shards;
    const args = { settings: first.rules };
    const options = this.#shards.options(signal, newToken());
    const { revision, settings } = await scripts.revision.run(context, first.keys, args, options);
    if (settings !== "") this.#shards.learn(first, settings, first.staged);
    return revision;
  }
}
