/** How text is folded. All processes that search the same names must use the same settings. */
export interface FoldOptions {
  /**
   * `"fold"` ignores accents on Latin, Greek, Arabic and Hebrew letters, and the dots of ё. Letters with a stroke and ligatures become
   * their plain forms (ø, ł, æ), and Arabic letters that keyboards exchange become one (ى ي, ة ه, ٱ ا). Marks of other scripts count as
   * letters and stay. `"keep"` keeps all marks. Both settings treat the yeh and kaf of Arabic and Persian keyboards as equal.
   *
   * @default "fold"
   */
  readonly marks?: "fold" | "keep" | undefined;
  /**
   * The locale of the text. Only Turkish (`"tr"`) and Azerbaijani (`"az"`) make a difference: there I and ı are one letter, and İ and i
   * another. In other locales I and i are one letter, and with `marks: "fold"` all four are.
   *
   * @default none
   */
  readonly locale?: string | undefined;
}

/** Must change whenever the rules below give another result for some text. */
const rules = 3;

const runtime = (globalThis as { process?: { readonly versions?: { readonly unicode?: string } } }).process;

/**
 * The version of {@link fold}: the number of its rules, and the version of this runtime's Unicode data. Texts folded under different
 * versions may differ, most likely in letters that are new to Unicode.
 */
export const foldVersion: string = `${String(rules)}/${runtime?.versions?.unicode ?? "unknown"}`;

const ascii = /^[\x20-\x7e]*$/;
/** The characters between words: spaces, punctuation and signs, also the letters that transcriptions use as apostrophes. */
const separators =
  /(?:(?!\p{Emoji_Modifier})[\p{P}\p{Z}\p{Sm}\p{Sc}\p{Sk}\p{Cc}\u00a9\u00ae\u02b9-\u02bf\u02c8\ua78b\ua78c])+/gu;
/** Invisible characters, and the tatweel, which only stretches an Arabic word. */
const ignorable = /[\p{Default_Ignorable_Code_Point}\u0640]+/gu;
/** The letters yeh and kaf, of which Persian and Arabic keyboards have one form each. */
const yehAndKaf: Readonly<Record<string, string>> = { "\u06cc": "\u064a", "\u06a9": "\u0643" };
/** The decimal digits of scripts whose readers also type 0 to 9: Arabic and Persian; Devanagari to Malayalam; Thai to Khmer. */
const digits =
  /[\u0660-\u0669\u06f0-\u06f9\u0966-\u096f\u09e6-\u09ef\u0a66-\u0a6f\u0ae6-\u0aef\u0b66-\u0b6f\u0be6-\u0bef\u0c66-\u0c6f\u0ce6-\u0cef\u0d66-\u0d6f\u0e50-\u0e59\u0ed0-\u0ed9\u0f20-\u0f29\u1040-\u1049\u17e0-\u17e9]/g;
const digitOf = (digit: string): string => {
  const code = digit.charCodeAt(0);
  // Ten digits start at a multiple of 16; from Devanagari to Malayalam, 6 after such a multiple.
  return String((code & 15) - (code >= 0x0966 && code <= 0x0d6f ? 6 : 0));
};
const hangul = /[\u1100-\u11ff\uac00-\ud7a3]/;
const syllables = /[\uac00-\ud7a3]+/g;
const compound = /[\u1169\u116e\u1173\u11a8-\u11c2]|[\u116a-\u1174]/g;
const lettersWithMarks = /([\p{Script=Latin}\p{Script=Greek}\p{Script=Arabic}\p{Script=Hebrew}])\p{Mn}+/gu;
const cyrillicYo = /\u0435\u0308/g;
/** Letters, each with what it becomes behind it. */
const becoming = (list: string): [string, string][] => list.split(" ").map((pair) => [pair.slice(0, 1), pair.slice(1)]);
const plainForms: Readonly<Record<string, string>> = Object.fromEntries(
  becoming(
    "łl øo đd ħh ŧt ðd þth æae œoe ıi \u0649\u064a \u06aa\u0643 \u0629\u0647 \u06c1\u0647 \u06be\u0647 \u06d5\u0647 \u06c3\u0647 \u0671\u0627",
  ),
);
const withPlainForm = new RegExp(`[${Object.keys(plainForms).join("")}]`, "g");

// The keystrokes of Korean letters that Unicode combines: final consonants become the initial ones they are typed as, and
// vowels and finals of two keys are split. So each state of a syllable while it is typed is a prefix of the next one.
// Each final, from U+11A8 on, as the one or two initials that it is typed as: in base 36, 0 is U+1100.
const finals = "0 1 09 2 2c 2i 3 5 50 56 57 59 5g 5h 5i 6 7 79 9 a b c e f g h i".split(" ");
const keystrokes = new Map<string, string>([
  ...becoming(
    "\u116a\u1169\u1161 \u116b\u1169\u1162 \u116c\u1169\u1175 \u116f\u116e\u1165 \u1170\u116e\u1166 \u1171\u116e\u1175 \u1174\u1173\u1175",
  ),
  ...finals.map((keys, index): [string, string] => [
    String.fromCharCode(0x11a8 + index),
    keys.replace(/./g, (key) => String.fromCharCode(0x1100 + Number.parseInt(key, 36))),
  ]),
]);

const typed = (text: string): string =>
  text
    .replace(syllables, (run) => run.normalize("NFD"))
    .replace(compound, (letter) => keystrokes.get(letter) ?? letter);

/** Folds letters only, and leaves what is between them. */
const foldLetters = (text: string, { marks = "fold", locale = "" }: FoldOptions): string => {
  const turkic = /^(?:tr|az)\b/i.test(locale) ? locale : undefined;
  if (/\p{Surrogate}/u.test(text))
    throw new RangeError("Expected text to be well-formed Unicode, got half a surrogate pair");
  const lower = (given: string): string => (turkic ? given.toLocaleLowerCase(turkic) : given.toLowerCase());
  const upper = (given: string): string => (turkic ? given.toLocaleUpperCase(turkic) : given.toUpperCase());
  // An acute accent by itself is typed for an apostrophe; NFKC would make it a mark on a space.
  let folded = text.replaceAll("\u00b4", "'").normalize("NFKC").replace(ignorable, "").normalize("NFKC");
  // To upper case and back: ß and SS both become ss, and letters that exist in one case only become equal to their variants.
  folded = lower(upper(lower(folded)))
    .replaceAll("ς", "σ")
    .replaceAll("i\u0307", "i");
  if (marks === "fold") {
    folded = folded.normalize("NFD").replace(lettersWithMarks, "$1").replace(cyrillicYo, "\u0435");
    folded = folded.replace(withPlainForm, (letter) =>
      turkic && letter === "ı" ? letter : (plainForms[letter] ?? letter),
    );
  }
  folded = folded
    .normalize("NFKC")
    .replace(ignorable, "")
    .replace(digits, digitOf)
    .replace(/[\u06cc\u06a9]/g, (letter) => yehAndKaf[letter] ?? letter);
  if (hangul.test(folded)) folded = typed(folded);
  return folded;
};

/** Each run of separators becomes one space. A text that consists of separators keeps them. */
const separated = (folded: string): string => {
  const words = folded.replace(separators, " ").trimStart();
  return words === "" ? folded.replace(/\s+/g, " ").trimStart() : words;
};

/** As {@link fold}, but a space at the end stays: in a query it means that the word before is complete. */
export const foldPrefix = (text: string, options: FoldOptions = {}, separates = true): string => {
  if (!separates) return foldLetters(text, options);
  if (ascii.test(text) && !options.locale) {
    const words = text
      .toLowerCase()
      .replace(/[^a-z0-9]+/g, " ")
      .trimStart();
    if (words !== "") return words;
  }
  return separated(foldLetters(text, options));
};

/**
 * Returns the form of `text` in which names are compared. The form is equal for texts that differ only in case, width, accents, spaces,
 * punctuation, the script of digits or invisible characters. Everything except letters, digits and symbols such as emoji separates
 * words. All separators are equal: Jean-Luc, jean‑luc and jean luc have the same form. Use the form to compare, not to display. It
 * sorts by code points, not like a dictionary.
 *
 * `fold` applies the case folding and NFKC of the Unicode Standard (sections 3.13 and 3.11), and removes the accents of Unicode
 * Technical Report 30. Folding twice gives the same result as folding once.
 *
 * @throws {RangeError} the text has a lone surrogate.
 *
 * @example
 * fold("  ＳＴＲＡẞＥ ") === fold("straße"); // "strasse"
 */
export const fold = (text: string, options: FoldOptions = {}): string => foldPrefix(text, options).replace(/ $/, "");
