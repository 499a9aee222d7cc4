import { foldPrefix, type FoldOptions } from "./fold/index.js";
import { formsOf, offsetsIn } from "./forms.js";
import { ascii, joinedMark } from "./words.js";

/** A part of a displayed text: offsets in UTF-16 units, as in `String.prototype.slice`. */
export type Range = readonly [start: number, end: number];

const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });

/** For each UTF-16 unit of the folded form, the part of the form it comes from; undefined if parts fold differently from the whole. */
const origins = (form: string, folded: string, options: FoldOptions): Range[] | undefined => {
  const found: Range[] = [];
  let joined = "";
  for (const { segment, index } of graphemes.segment(form)) {
    // A letter before the text keeps its first space from being dropped.
    let piece = foldPrefix(`x${segment}`, options).slice(1);
    if (piece.startsWith(" ") && (joined === "" || joined.endsWith(" "))) piece = piece.slice(1);
    joined += piece;
    while (found.length < joined.length) found.push([index, index + segment.length]);
  }
  return joined.trimEnd() === folded.trimEnd() ? found : undefined;
};

/**
 * The parts of `text` that a query matched, from the matched parts of its folded forms. A user-perceived character is never
 * cut: a range is widened to whole ones. Empty if the displayed text cannot be aligned with a folded form.
 */
export const highlight = (
  text: string,
  folded: string,
  options: FoldOptions,
  matched: readonly Range[],
): readonly Range[] => {
  // Folding ASCII replaces or removes characters: if none is missing, the offsets are the same. A space was added at the end.
  if (text.length + 1 === folded.length && ascii.test(text)) return merged(matched);
  const found: Range[] = [];
  const forms = formsOf(text);
  let base = 0;
  for (const [at, part] of folded.split(joinedMark).entries()) {
    const inPart = matched.filter(([start]) => start >= base && start < base + part.length);
    // A form for which there was no room is missing in the folded text.
    for (const form of inPart.length > 0 ? forms.slice(at) : []) {
      const from = origins(form, part, options);
      if (!from) continue;
      const offsets = offsetsIn(text, form);
      for (const [start, end] of inPart) {
        const [first, last] = [from[start - base], from[end - base - 1]];
        if (first && last) found.push([offsets[first[0]] ?? 0, (offsets[last[1] - 1] ?? 0) + 1]);
      }
      break;
    }
    base += part.length + 1;
  }
  return merged(found);
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
