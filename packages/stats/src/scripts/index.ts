import { defineScript, type Script } from "@kit/core";
import type { BatchScript, Channel } from "../outbox.js";
import countSource from "./count.lua";
import indexSource from "./index.lua";
import listsSource from "./lists.lua";
import logSource from "./log.lua";
import mergeSource from "./merge.lua";
import readSource from "./read.lua";
import recentSource from "./recent.lua";
import seenSource from "./seen.lua";

const batchScript = (name: string, source: string, idempotent: boolean): BatchScript =>
  defineScript({
    name,
    source,
    keys: ["...series"],
    args: ["...plan"],
    idempotent,
    reply: (raw) => (raw as unknown[]).map(String),
  });

const channel = (name: string, source: string, maxPlaces: number): Channel => ({
  script: batchScript(name, source, true),
  onceOnly: batchScript(name, source, false),
  maxPlaces,
});

/** Adds to counters. */
export const count: Channel = channel("stats.count", countSource, 1_000);

/** Merges partial distributions. */
export const merge: Channel = channel("stats.merge", mergeSource, 50);

/** Some hashes at one instant of the server. */
export interface HashesReply {
  readonly now: number;
  /** For each key its fields; of a key that is not there none. */
  readonly hashes: readonly ReadonlyMap<string, string>[];
}

const pairs = (raw: unknown): ReadonlyMap<string, string> => {
  const flat = raw as unknown[];
  const found = new Map<string, string>();
  for (let index = 0; index < flat.length; index += 2) found.set(String(flat[index]), String(flat[index + 1]));
  return found;
};

/** Reads hashes. */
export const read: Script<readonly ["...hashes"], readonly [], HashesReply> = defineScript({
  name: "stats.read",
  source: readSource,
  keys: ["...hashes"],
  args: [],
  readonly: true,
  reply: (raw) => {
    const [now, ...hashes] = raw as unknown[];
    return { now: Number(now), hashes: hashes.map(pairs) };
  },
});

/** Epoch milliseconds in what TIME replies. */
export const serverMs = (reply: unknown): number => {
  const [seconds, micros] = (reply as unknown[]).map(Number);
  return (seconds ?? 0) * 1_000 + Math.floor((micros ?? 0) / 1_000);
};

/** Stores entries of message logs, and counts them. */
export const log: Channel = channel("stats.log", logSource, 1_000);

/** Members of sorted sets with their scores, the largest first. */
export type ListsReply = readonly (readonly (readonly [member: string, score: number])[])[];

/** Reads the largest members of sorted sets. */
export const lists: Script<readonly ["...lists"], readonly ["limit"], ListsReply> = defineScript({
  name: "stats.lists",
  source: listsSource,
  keys: ["...lists"],
  args: ["limit"],
  readonly: true,
  reply: (raw) =>
    (raw as unknown[]).map((list) => [...pairs(list)].map(([member, score]) => [member, Number(score)] as const)),
});

/** Lists the series of a metric. Replies with how many were taken off. */
export const index: Script<readonly ["index"], readonly ["...terms"], number> = defineScript({
  name: "stats.index",
  source: indexSource,
  keys: ["index"],
  args: ["...terms"],
  idempotent: true,
  reply: Number,
});

/** An entry of a stream. */
export interface RawEntry {
  readonly id: string;
  readonly fields: ReadonlyMap<string, string>;
}

/** The entries of one stream, as XRANGE, XREVRANGE and XREAD reply them. */
export const rawEntries = (raw: unknown): RawEntry[] =>
  (raw as [unknown, unknown][]).map(([id, fields]) => ({ id: String(id), fields: pairs(fields) }));

/** The reply of XREAD, by key: RESP2 has a pair for each stream, RESP3 a map, which ioredis makes a flat list. */
export const rawStreams = (reply: unknown): readonly (readonly [key: string, entries: RawEntry[]])[] => {
  const list = (reply ?? []) as unknown[];
  const flat = Array.isArray(list[0]) ? list.flat(1) : list;
  return flat.flatMap((key, index) => (index % 2 === 0 ? [[String(key), rawEntries(flat[index + 1])] as const] : []));
};

/** Reads the last entries of streams. */
export const recent: Script<readonly ["...streams"], readonly ["...terms"], readonly RawEntry[][]> = defineScript({
  name: "stats.recent",
  source: recentSource,
  keys: ["...streams"],
  args: ["...terms"],
  readonly: true,
  reply: (raw) => (raw as unknown[]).map(rawEntries),
});

/** Reads what is known of fingerprints. */
export const seen: Script<readonly ["...hashes"], readonly ["...fingerprints"], readonly string[][]> = defineScript({
  name: "stats.seen",
  source: seenSource,
  keys: ["...hashes"],
  args: ["...fingerprints"],
  readonly: true,
  reply: (raw) => (raw as unknown[][]).map((values) => values.map(String)),
});
