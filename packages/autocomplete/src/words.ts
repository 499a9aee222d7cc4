/** Where a query may match: only at the beginning of the name, or at the beginning of any of its words. */
export type Match = "phrase" | "word-start";

/** The most words of a name that are indexed. A name of a thousand words would be stored a thousand times. */
export const maxWords = 32;

const letter = /[\p{L}\p{N}]/u;
/** A character that continues a word. */
export const inWord: RegExp = /[\p{L}\p{N}\p{M}]/u;
// Scripts without spaces, in which each character is nearly a word.
const han = /\p{Script=Han}/u;
export const ascii: RegExp = /^[\x20-\x7e]*$/;
const plain = /^[a-z0-9 ]*$/;
/** Separates the forms of a folded name: in those behind the first, the parts around some signs are joined. No name contains it. */
export const joinedMark = "\u0002";

/**
 * Where the words of a folded name start, as offsets in UTF-16 units: at the beginning, after a space, at a letter or digit after
 * anything else, and at each Chinese character. A later form only has starts after which it differs from the earlier forms.
 */
export const wordStarts = (folded: string, match: Match): number[] => {
  const starts = [0];
  if (match === "phrase") return starts;
  if (plain.test(folded)) {
    for (let at = folded.indexOf(" ") + 1; at > 0 && at < folded.length; at = folded.indexOf(" ", at) + 1)
      if (starts.push(at) === maxWords) return starts;
    return starts;
  }
  const rests = new Set<string>();
  const isNew = (at: number): boolean => {
    const end = folded.indexOf(joinedMark, at);
    const rest = folded.slice(at, end < 0 ? undefined : end);
    return !rests.has(rest) && rests.add(rest).size > 0;
  };
  const hasForms = folded.includes(joinedMark) && isNew(0);
  let before = " ";
  let at = 0;
  for (const character of folded) {
    const isStart =
      character !== " " &&
      character !== joinedMark &&
      (before === " " || han.test(character) || (letter.test(character) && !inWord.test(before)));
    if (isStart && at > 0 && (!hasForms || isNew(at)) && starts.push(at) === maxWords) return starts;
    before = character;
    at += character.length;
  }
  return starts;
};
