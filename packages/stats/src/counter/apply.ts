import type { RedisArgument } from "@kit/core";
import { custom, Deadline, integer, required, resolve, type RulesOf } from "@kit/core/toolkit";
import { seriesKeys } from "../keys.js";
import { wellFormedText } from "../metric/labels.js";
import { writeRules } from "../options.js";
import * as scripts from "../scripts/index.js";
import { refusalOf } from "../send/outcomes.js";
import type { Shared } from "../shared.js";
import { chunkLength, floorTo, maxAheadMs, totalKeepMs } from "../time/buckets.js";
import { dayMs } from "../time/days.js";
import type { Counter } from "./counter.js";
import { countOperands } from "./outbox.js";
import { amountOption } from "./series.js";

/** An amount for one series of a counter, as you pass it to `apply()`. */
export interface CounterDelta {
  /** The name of a counter of this object. */
  readonly name: string;
  /**
   * A value for each label of the counter.
   *
   * @default {}
   */
  readonly labels?: Readonly<Record<string, string | number>> | undefined;
  /** The amount to add: an integer, 0 or more. */
  readonly amount: number;
  /**
   * When it happened, epoch milliseconds.
   *
   * @default now
   */
  readonly at?: number | undefined;
}

const deltaRules = {
  ...writeRules,
  name: custom((_name, name: string) => name, ""),
  labels: custom((_name, labels: Readonly<Record<string, string | number>>) => labels, {}),
  amount: required(custom((_name, amount: number) => amountOption(amount))),
} satisfies RulesOf<CounterDelta>;

/** The writer, and the number of this call. */
export interface ApplyOptions {
  /**
   * A name that stays the same when the writer restarts, 1 to 200 characters. Use the name of the file or partition that you
   * read.
   */
  readonly writer: string;
  /** The number of the call, which must grow with each call of a writer. Use a position in a file or a batch number. */
  readonly seq: number;
}

export const applyRules = {
  writer: required(wellFormedText(200)),
  seq: required(integer(1)),
} satisfies RulesOf<ApplyOptions>;

/** How long the server remembers the last `seq` of a writer of `apply()`. */
const applyLedgerMs = 7 * dayMs;

/** The part of one series. */
interface SeriesDelta {
  readonly counter: Counter<string>;
  total: number;
  readonly amounts: Map<number, number>;
}

/** Adds deltas to their series, with a separate call for each series. `counters` are the object's counters by name. */
export const applyDeltas = async (
  deltas: readonly CounterDelta[],
  { writer, seq }: ApplyOptions,
  counters: ReadonlyMap<string, Counter<string>>,
  { commands, buffer, index }: Shared,
): Promise<void> => {
  const checked = deltas.map((delta) => {
    const { name, labels, amount, at } = resolve("delta", delta, deltaRules);
    const counter = counters.get(name);
    if (!counter) throw new RangeError("Expected `name` to be a counter of this object");
    return { counter, id: counter.map.idOf(labels), amount, at };
  });
  const deadline = Deadline.in(commands.deadlineMs);
  const now = await commands.serverNow();
  const bySeries = new Map<string, SeriesDelta>();
  for (const { counter, id, amount, at = now } of checked) {
    if (at > now + maxAheadMs) {
      buffer.drop(id, "future", amount);
      continue;
    }
    const series = bySeries.get(id) ?? { counter, total: 0, amounts: new Map<number, number>() };
    bySeries.set(id, series);
    const bucket = floorTo(at, counter.settings.precisions[0]?.stepMs ?? 1);
    series.total += amount;
    series.amounts.set(bucket, (series.amounts.get(bucket) ?? 0) + amount);
  }
  const calls = [...bySeries].map(async ([id, { counter, total, amounts }]) => {
    const { precisions } = counter.settings;
    const of = { writer: encodeURIComponent(writer), seq, total, amounts };
    const operands = countOperands(seriesKeys(commands.prefix, id), precisions, of, now);
    const plan: RedisArgument[] = [applyLedgerMs, 0, ...operands.plan];
    const deadlineMs = Math.max(1, deadline.remainingMs);
    const op = `${writer}:${String(seq)}`;
    const [, reply = ""] = await commands.send(scripts.count.script, operands.keys, plan, deadlineMs, op);
    const refusal = refusalOf(reply, id);
    if (refusal) throw refusal[1];
    index.counted(id, totalKeepMs(precisions, chunkLength), Number(reply) === total);
  });
  const outcomes = await Promise.allSettled(calls);
  for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
};
