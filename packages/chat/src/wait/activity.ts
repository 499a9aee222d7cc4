/** An entry of a shard's activity. */
export interface ActivityEntry {
  readonly id: string;
  readonly chat: string;
  readonly kind: string;
  /** A sequence, or names of members. */
  readonly values: readonly string[];
}

/** Whether the id of one entry is after the id of another. */
export const isAfter = (one: string, other: string): boolean => {
  const [ms = "", count = ""] = one.split("-");
  const [otherMs = "", otherCount = ""] = other.split("-");
  return Number(ms) > Number(otherMs) || (Number(ms) === Number(otherMs) && Number(count) > Number(otherCount));
};

/** The reply of XREAD: nothing, pairs, or (in the newer protocol) names and entries in turn. */
export const streamsOf = (reply: unknown): [name: string, entries: unknown[]][] => {
  const streams = (reply ?? []) as unknown[];
  if (typeof streams[0] !== "string") return streams as [string, unknown[]][];
  return streams.flatMap((name, index) =>
    index % 2 === 0 ? [[name as string, streams[index + 1] as unknown[]] as [string, unknown[]]] : [],
  );
};

/** The entries of a stream. */
export const entriesOf = (raw: unknown): ActivityEntry[] =>
  (raw as [string, string[]][]).map(([id, [, chat = "", kind = "", ...rest]]) => ({
    id,
    chat,
    kind,
    values: rest.filter((_, index) => index % 2 === 0),
  }));
