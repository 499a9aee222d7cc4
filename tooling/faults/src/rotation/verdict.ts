/** What a reader said beside the lines: `gap`, `copy`, errors. */
export interface Noted {
  readonly way: string;
  readonly event: string;
  /** Text bytes that do not count again, of `moved`. */
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

/** Events that say that lines may be missing, or counted again. `moved` only for as many as its bytes can be. */
const covering = { lost: ["gap", "skipped", "damaged"], doubled: ["copy", "again"] };
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
  const has = (kinds: readonly string[]): boolean => kinds.some((kind) => events[kind] !== undefined);
  const moved = own.filter(({ event }) => event === "moved").reduce((sum, { to = 0 }) => sum + to, 0);
  const isLossCovered = has(covering.lost) || lost.length <= moved / leastLineBytes;
  const isRight = isLossCovered && (doubled.length === 0 || has(covering.doubled)) && odd.length === 0;
  return { way, counted: counts.size, lost, doubled, odd, events, isRight };
};
