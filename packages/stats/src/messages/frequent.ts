import type { Commands } from "../commands.js";
import type { LogKeys } from "../keys.js";
import * as scripts from "../scripts/index.js";
import type { Level } from "./levels.js";

/** A message and how often it was logged. */
export interface FrequentMessage {
  readonly level: Level;
  readonly fingerprint: string;
  /** One of its texts. */
  readonly sample: string;
  /** An upper bound of how often it was logged. */
  readonly count: number;
  /** The true number is at least `count - error`. */
  readonly error: number;
  readonly firstAt: number;
  readonly lastAt: number;
}

/** The messages of a level that were logged most often, by the counts of some windows. */
export const frequentOf = async (
  level: Level,
  starts: readonly number[],
  limit: number,
  maxDistinct: number,
  keys: LogKeys,
  commands: Commands,
): Promise<FrequentMessage[]> => {
  const tops = starts.map((at) => keys.top(level, at));
  const { values: lists } = await commands.read(scripts.largest, tops, ["largest", maxDistinct], maxDistinct);
  const windows = lists.map((list) => new Map(list));
  // With a full list, a message that is not in it may have been logged as often as the rarest one that is.
  const floors = windows.map((counts) => (counts.size >= maxDistinct ? Math.min(...counts.values()) : 0));
  const totals = new Map<string, number>();
  for (const counts of windows)
    for (const fingerprint of counts.keys())
      if (!totals.has(fingerprint))
        totals.set(
          fingerprint,
          windows.reduce((sum, other, index) => sum + (other.get(fingerprint) ?? floors[index] ?? 0), 0),
        );
  const most = [...totals].toSorted(([, a], [, b]) => b - a).slice(0, limit);
  if (most.length === 0) return [];
  const hashes = starts.map((at) => keys.seen(level, at));
  const fingerprints = most.map(([fingerprint]) => fingerprint);
  const query = ["fields", ...fingerprints];
  const { values: known } = await commands.read(scripts.fields, hashes, query, fingerprints.length);
  return most.map(([fingerprint, count], index) => {
    const found = known.map((values) => seenOf(values[index] ?? ""));
    const seen = found.filter((one) => one !== undefined);
    const error = found.reduce((sum, one, at) => sum + (one?.error ?? floors[at] ?? 0), 0);
    return {
      level,
      fingerprint,
      sample: seen.at(-1)?.sample ?? "",
      count,
      error,
      firstAt: Math.min(...seen.map(({ firstAt }) => firstAt)),
      lastAt: Math.max(...seen.map(({ lastAt }) => lastAt)),
    };
  });
};

const seenOf = (text: string) => {
  const [, error, firstAt, lastAt, sample] = /^(\d+) (\d+) (\d+) (.*)$/s.exec(text) ?? [];
  if (error === undefined) return undefined;
  return { error: Number(error), firstAt: Number(firstAt), lastAt: Number(lastAt), sample: sample ?? "" };
};
