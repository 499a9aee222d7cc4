import type { RawEntry } from "../store/scripts/index.js";
import { type Level, levelNames, levelOf, levels } from "./levels.js";

/** One message. */
export interface Entry {
  /** `<level> <id in its stream>`: grows with every entry of a level, by the server's clock. */
  readonly id: string;
  /** When it was logged, in epoch milliseconds of the server's clock. */
  readonly at: number;
  readonly level: Level;
  /** The number that was passed, or the level's number. */
  readonly severity: number;
  readonly text: string;
  readonly fields: Readonly<Record<string, unknown>>;
  /** Messages with the same fingerprint are counted together. */
  readonly fingerprint: string;
}

/** One level, or all from `minLevel` on. */
export const wantedLevels = (level: Level | undefined, minLevel: Level | undefined): Level[] =>
  level === undefined
    ? levelNames.filter((name) => levels[name] >= levels[minLevel ?? "trace"])
    : [levelOf(level).name];

/** An entry as it was stored in the stream of a level. */
export const entryOf = (level: Level, { id, fields }: RawEntry): Entry => {
  const json = fields.get("fields") ?? "";
  return {
    id: `${level} ${id}`,
    at: Number(fields.get("at")),
    level,
    severity: Number(fields.get("level")),
    text: fields.get("text") ?? "",
    fields: json === "" ? {} : (JSON.parse(json) as Record<string, unknown>),
    fingerprint: fields.get("fingerprint") ?? "",
  };
};

const parsed = (id: string): readonly [ms: number, seq: number, level: number] => {
  const [level = "", ms = "", seq = ""] = id.split(/[ -]/);
  return [Number(ms), Number(seq), levels[level as Level]];
};

export const newestFirst = (a: Entry, b: Entry): number => {
  const [msA, seqA, levelA] = parsed(a.id);
  const [msB, seqB, levelB] = parsed(b.id);
  return msB - msA || seqB - seqA || levelB - levelA;
};

/** The beginning of a level's page that follows the entry `before`. */
export const endOf = (level: Level, before: string | undefined): string => {
  if (before === undefined) return "+";
  const [name, id] = before.split(" ") as [Level, string];
  return levels[level] < levels[name] ? id : `(${id}`;
};

/** Whether an entry is not behind the last id of its level. */
export const isUpTo = (id: string, ids: ReadonlyMap<Level, string>): boolean => {
  const [level, own] = id.split(" ") as [Level, string];
  const [ms, seq] = parsed(id);
  const [lastMs, lastSeq] = parsed(`${level} ${ids.get(level) ?? own}`);
  return ms < lastMs || (ms === lastMs && seq <= lastSeq);
};
