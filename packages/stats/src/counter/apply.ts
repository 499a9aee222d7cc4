import { Deadline, resolve } from "@kit/core/toolkit";
import { refusalOf } from "../send/outcomes.js";
import type { Shared } from "../send/shared.js";
import { seriesKeys } from "../store/keys.js";
import * as scripts from "../store/scripts/index.js";
import { chunkLength, maxAheadMs, totalKeepMs } from "../time/buckets.js";
import { dayMs } from "../time/days.js";
import type { Counter } from "./counter.js";
import { type ApplyOptions, type CounterDelta, deltaRules } from "./options.js";
import { countOperands } from "./outbox.js";

/** How long the server remembers the last `seq` of a writer of `apply()`. */
const applyLedgerMs = 7 * dayMs;

/** The part of one series. */
interface SeriesDelta {
  readonly counter: Counter<string>;
  total: number;
  readonly amounts: (readonly [at: number, amount: number])[];
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
    const series: SeriesDelta = bySeries.get(id) ?? { counter, total: 0, amounts: [] };
    bySeries.set(id, series);
    series.total += amount;
    series.amounts.push([at, amount]);
  }
  const calls = [...bySeries].map(async ([id, { counter, total, amounts }]) => {
    const { precisions } = counter.settings;
    const keys = seriesKeys(commands.prefix, id);
    const operands = countOperands(keys, precisions, encodeURIComponent(writer), total, amounts, now);
    const batch = { operands, seq, validUntil: 0 };
    const deadlineMs = Math.max(1, deadline.remainingMs);
    const op = `${writer}:${String(seq)}`;
    const [, reply = ""] = await commands.send(scripts.count.script, applyLedgerMs, [batch], deadlineMs, op);
    const refusal = refusalOf(reply, id);
    if (refusal) throw refusal[1];
    index.counted(id, totalKeepMs(precisions, chunkLength), Number(reply) === total);
  });
  const outcomes = await Promise.allSettled(calls);
  for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
};
