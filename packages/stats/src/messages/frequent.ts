import type { Commands } from "../store/commands.js";
import type { LogKeys } from "../store/keys.js";
import * as scripts from "../store/scripts/index.js";
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
  const hashes = starts.map((at) => keys.seen(level, at));
  const [{ values: lists }, { values: unlisted }] = await Promise.all([
    commands.read(scripts.largest, tops, ["largest", maxDistinct + 1], maxDistinct + 1),
    commands.read(scripts.fields, hashes, ["fields", ""]),
  ]);
  const windows = lists.map((list, index) => {
    const scores = new Map(list);
    const [missed = 0, evicted = 0] = (unlisted[index]?.[0] ?? "").split(" ").map(Number);
    // Another writer's list may be longer. A message that was not read was counted at most as often as the rarest one that was.
    const rarest = scores.size > maxDistinct ? Math.min(...scores.values()) : 0;
    return { scores, missed, other: Math.max(evicted, rarest) };
  });
  const totals = new Map<string, number>();
  for (const { scores } of windows)
    for (const fingerprint of scores.keys())
      if (!totals.has(fingerprint))
        totals.set(
          fingerprint,
          windows.reduce((sum, window) => sum + (window.scores.get(fingerprint) ?? window.other) + window.missed, 0),
        );
  const most = [...totals].toSorted(([, a], [, b]) => b - a).slice(0, limit);
  if (most.length === 0) return [];
  const fingerprints = most.map(([fingerprint]) => fingerprint);
  const query = ["fields", ...fingerprints];
  const { values: known } = await commands.read(scripts.fields, hashes, query, fingerprints.length);
  return most.flatMap(([fingerprint, total], index) => {
    const seen = known.map((values) => seenOf(values[index] ?? "")).filter((one) => one !== undefined);
    // Another message took its place between the two reads.
    if (seen.length === 0) return [];
    const sure = seen.reduce((sum, one) => sum + one.sure, 0);
    // Between the two reads it may have been logged again.
    const count = Math.max(total, sure);
    return {
      level,
      fingerprint,
      sample: seen.at(-1)?.sample ?? "",
      count,
      error: count - sure,
      firstAt: Math.min(...seen.map(({ firstAt }) => firstAt)),
      lastAt: Math.max(...seen.map(({ lastAt }) => lastAt)),
    };
  });
};

const seenOf = (text: string) => {
  const [, sure, firstAt, lastAt, sample] = /^(\d+) (\d+) (\d+) (.*)$/s.exec(text) ?? [];
  if (sure === undefined) return undefined;
  return { sure: Number(sure), firstAt: Number(firstAt), lastAt: Number(lastAt), sample: sample ?? "" };
};
