import { defineScript, type Script } from "@kit/core";
import batchesSource from "./batches.lua";
import binsSource from "./bins.lua";
import countSource from "./count.lua";
import frequenciesSource from "./frequencies.lua";
import indexSource from "./index.lua";
import logSource from "./log.lua";
import mergeSource from "./merge.lua";
import momentsSource from "./moments.lua";
import readSource from "./read.lua";

/**
 * A script that takes batches of several series. Its reply: the server's milliseconds, and for each batch a text, or an error that
 * concerns its series alone.
 */
export type BatchScript = Script<readonly ["...series"], readonly ["...plan"], readonly (string | Error)[]>;

/** How the batches of one kind are sent. */
export interface Channel {
  /** Sent again by core when a reply is lost. */
  readonly script: BatchScript;
  /** The same script, sent once. */
  readonly onceOnly: BatchScript;
  /**
   * The most places of the buffer, and of waiting callers, in one batch: the server does nothing else while it handles one.
   */
  readonly maxPlaces: number;
}

const channel = (name: string, sources: readonly string[], maxPlaces: number): Channel => {
  const batchScript = (idempotent: boolean): BatchScript =>
    defineScript({
      name,
      source: [batchesSource, ...sources],
      keys: ["...series"],
      args: ["...plan"],
      idempotent,
      reply: (raw) => (raw as unknown[]).map((one) => (one instanceof Error ? one : String(one))),
    });
  return { script: batchScript(true), onceOnly: batchScript(false), maxPlaces };
};

/** Adds to counters. */
export const count: Channel = channel("stats.count", [countSource], 1_000);

/** Merges partial distributions. */
export const merge: Channel = channel("stats.merge", [momentsSource, binsSource, mergeSource], 16);

/** Stores entries of message logs, and counts them. */
export const log: Channel = channel("stats.log", [frequenciesSource, logSource], 1_000);

const pairs = (raw: unknown): ReadonlyMap<string, string> => {
  const flat = raw as unknown[];
  const found = new Map<string, string>();
  for (let index = 0; index < flat.length; index += 2) found.set(String(flat[index]), String(flat[index + 1]));
  return found;
};

/** Epoch milliseconds in what TIME replies. */
export const serverMs = (reply: unknown): number => {
  const [seconds, micros] = (reply as unknown[]).map(Number);
  return (seconds ?? 0) * 1_000 + Math.floor((micros ?? 0) / 1_000);
};

/** Lists the series of a metric. Replies with how many were removed. */
export const index = defineScript({
  name: "stats.index",
  source: indexSource,
  keys: ["index"],
  args: ["keepMs", "maxSeries", "...listed[series foundAt]"],
  idempotent: true,
  reply: Number,
});

/** An entry of a stream. */
export interface RawEntry {
  readonly id: string;
  /** None if there was no room for it in the reply. */
  readonly fields: ReadonlyMap<string, string>;
}

/** The entries of one stream, as XRANGE, XREVRANGE and XREAD reply them. */
const rawEntries = (raw: unknown): RawEntry[] =>
  (raw as [unknown, unknown][]).map(([id, fields]) => ({ id: String(id), fields: pairs(fields) }));

/** The reply of XREAD, by key: RESP2 has a pair for each stream, RESP3 a map, which ioredis makes a flat list. */
export const rawStreams = (reply: unknown): readonly (readonly [key: string, entries: RawEntry[]])[] => {
  const list = (reply ?? []) as unknown[];
  const flat = Array.isArray(list[0]) ? list.flat(1) : list;
  return flat.flatMap((key, index) => (index % 2 === 0 ? [[String(key), rawEntries(flat[index + 1])] as const] : []));
};

/** The contents of several keys at one instant of the server. */
export interface Readings<Value> {
  readonly now: number;
  /** The value of each key; an empty one if the key does not exist. */
  readonly values: readonly Value[];
}

/** Reads keys of one kind. */
export type Reading<Value> = Script<readonly ["...keys"], readonly ["...query"], Readings<Value>>;

const reading = <Value>(valueOf: (raw: unknown) => Value): Reading<Value> =>
  defineScript({
    name: "stats.read",
    source: readSource,
    keys: ["...keys"],
    args: ["...query"],
    readonly: true,
    reply: (raw) => {
      const [now, ...values] = raw as unknown[];
      return { now: Number(now), values: values.map(valueOf) };
    },
  });

/** Reads hashes (`hash`). */
export const hashes: Reading<ReadonlyMap<string, string>> = reading(pairs);

/** Reads some fields of hashes (`fields`). */
export const fields: Reading<readonly string[]> = reading((raw) => (raw as unknown[]).map(String));

/** Reads the largest members of sorted sets, with their scores (`largest`). */
export const largest: Reading<readonly (readonly [member: string, score: number])[]> = reading((raw) =>
  [...pairs(raw)].map(([member, score]) => [member, Number(score)] as const),
);

/** Reads the last entries of streams (`newest`). */
export const newest: Reading<readonly RawEntry[]> = reading(rawEntries);
