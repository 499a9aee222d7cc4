/** What a reader said beside the lines: `gap`, `copy`, errors. */
export interface Noted {
  readonly way: string;
  readonly event: string;
  /** The numbers of the first and the last line that it is about. */
  readonly first?: number;
  readonly last?: number;
  /** Text bytes that are lost, of `gap`. */
  readonly from?: number;
  readonly to?: number;
}

/** How one way of reading fared. */
export interface Verdict {
  readonly way: string;
  readonly counted: number;
  readonly lost: readonly string[];
  readonly doubled: readonly string[];
  /** Lines that nobody wrote, or parts of lines. */
  readonly odd: readonly string[];
  readonly events: Readonly<Record<string, number>>;
  /** Whether each difference is covered by an event. */
  readonly isRight: boolean;
}

/** Events that say that lines may be missing, or counted again: the lines of their range. */
const covering = { lost: ["moved", "skipped", "damaged"], doubled: ["copy", "again"] };
const leastLineBytes = 47;

/** Compares what was counted, by the numbers of lines, with the lines that are in the files at the end. */
export const verdictOn = (
  way: string,
  truth: ReadonlySet<string>,
  counts: ReadonlyMap<string, string>,
  noted: readonly Noted[],
): Verdict => {
  const own = noted.filter((one) => one.way === way);
  const events: Record<string, number> = {};
  for (const { event } of own) events[event] = (events[event] ?? 0) + 1;
  const lost = [...truth].filter((line) => !counts.has(line));
  const doubled = [...counts].filter(([line, count]) => truth.has(line) && count !== "1").map(([line]) => line);
  const odd = [...counts.keys()].filter((line) => !truth.has(line));
  const uncovered = (lines: readonly string[], kinds: readonly string[]): number => {
    const ranges = own.filter(({ event }) => kinds.includes(event));
    return lines.filter((line) => !ranges.some(({ first = Infinity, last = 0 }) => first <= +line && +line <= last))
      .length;
  };
  // The lines of a gap are gone, so only their number is known.
  const gap = own.filter(({ event }) => event === "gap").reduce((sum, { from = 0, to = 0 }) => sum + to - from, 0);
  const isLossCovered = uncovered(lost, covering.lost) <= gap / leastLineBytes;
  const isRight = isLossCovered && uncovered(doubled, covering.doubled) === 0 && odd.length === 0;
  return { way, counted: counts.size, lost, doubled, odd, events, isRight };
};
