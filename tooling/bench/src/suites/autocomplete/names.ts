// Made-up names, the same in every process and run, since the figures depend on how many share a beginning.
import { seededBelow } from "@tooling/lab";

/** A name that can be searched. */
export interface Name {
  readonly id: string;
  readonly text: string;
  readonly weight: number;
}

const onsets = ["b", "br", "c", "ch", "d", "f", "g", "h", "j", "k", "l", "m", "n", "p", "r", "s", "st", "t", "v", "w"];
const vowels = ["a", "e", "i", "o", "u", "ai", "ea", "ou"];
const ends = ["", "", "l", "n", "r", "s", "t"];

const wordOf = (random: (below: number) => number): string => {
  const syllable = (): string => [onsets, vowels, ends].map((parts) => parts[random(parts.length)] ?? "").join("");
  return Array.from({ length: 2 + random(2) }, syllable).join("");
};

/** Names of `words` words, in lower case since the classic code handles nothing else. */
export const namesOf = (count: number, words: number): Name[] => {
  const random = seededBelow(words);
  return Array.from({ length: count }, (_, at) => ({
    id: String(at),
    text: Array.from({ length: words }, () => wordOf(random)).join(" "),
    weight: random(1_000_000),
  }));
};

/** Beginnings of names, as typed into a search box: from `shortest` to `longest` characters. */
export const queriesOf = (names: readonly Name[], shortest: number, longest: number, count = 5_000): string[] => {
  const random = seededBelow(longest);
  return Array.from({ length: count }, () => {
    const { text } = names[random(names.length)] as Name;
    return text.slice(0, shortest + random(longest - shortest + 1));
  });
};
