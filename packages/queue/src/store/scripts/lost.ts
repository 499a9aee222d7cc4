/** The lines of a text in a reply. */
export const lines = (text: unknown): string[] => {
  // Most texts are empty Buffers: decoding one costs more than this look.
  if ((text as Buffer | string).length === 0) return [];
  return String(text).split("\n");
};

const cancelledMark = "\tcancelled";

/** Members of `leases` that their worker no longer has. */
export interface LostLeases {
  readonly lost: readonly string[];
  /** The members whose jobs were cancelled. */
  readonly cancelled: readonly string[];
}

const nothingLost: LostLeases = { lost: [], cancelled: [] };

export const lostOf = (text: unknown): LostLeases => {
  const all = lines(text);
  if (all.length === 0) return nothingLost;
  const cancelled = all
    .filter((line) => line.endsWith(cancelledMark))
    .map((line) => line.slice(0, -cancelledMark.length));
  return { lost: all.map((line) => line.split("\t", 1)[0] ?? ""), cancelled };
};
