import { foldPrefix, type FoldOptions } from "./fold/index.js";
import { ascii, joinedMark } from "./words.js";

/** A part of a displayed text: offsets in UTF-16 units, as in `String.prototype.slice`. */
export type Range = readonly [start: number, end: number];

const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });

/** For each UTF-16 unit of the folded text, the part of the text it comes from; undefined if parts fold differently from the whole. */
const origins = (text: string, folded: string, options: FoldOptions): Range[] | undefined => {
  const found: Range[] = [];
  let joined = "";
  for (const { segment, index } of graphemes.segment(text)) {
    // A letter in front keeps a space from being dropped as a leading one.
    let piece = foldPrefix(`x${segment}`, options).slice(1);
    if (piece.startsWith(" ") && (joined === "" || joined.endsWith(" "))) piece = piece.slice(1);
    joined += piece;
    while (found.length < joined.length) found.push([index, index + segment.length]);
  }
  return joined.trimEnd() === folded.split(joinedMark, 1)[0]?.trimEnd() ? found : undefined;
};

/**
 * The parts of `text` that a query matched, from the matched parts of its folded form. A user-perceived character is never
 * cut: a range is widened to whole ones. Empty if the displayed text cannot be aligned with its folded form, and for matches in the
 * joined form of the name only.
 */
export const highlight = (
  text: string,
  folded: string,
  options: FoldOptions,
  matched: readonly Range[],
): readonly Range[] => {
  // Folding ASCII replaces or removes characters: if none is missing, the offsets are the same. A space was added at the end.
  if (text.length + 1 === folded.length && ascii.test(text)) return merged(matched);
  const from = origins(text, folded, options);
  if (!from) return [];
  return merged(
    matched.flatMap(([start, end]): Range[] => {
      const [first, last] = [from[start], from[end - 1]];
      return first && last ? [[first[0], last[1]]] : [];
    }),
  );
};

const merged = (ranges: readonly Range[]): readonly Range[] => {
  if (ranges.length < 2) return ranges;
  const result: Range[] = [];
  for (const range of ranges.toSorted(([one], [two]) => one - two)) {
    const last = result.at(-1);
    if (last && range[0] <= last[1]) result[result.length - 1] = [last[0], Math.max(last[1], range[1])];
    else result.push(range);
  }
  return result;
};
