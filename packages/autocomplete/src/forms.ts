/** Marks within a word that are often not typed: an apostrophe or a dot between letters, and the space between two initials. */
const joints =
  /(?<=\p{L}\p{M}*)['"\u2018\u2019\u201d\u02b9-\u02bf`\u00b4.\u00b7\u05f3\u05f4\uff07\uff0e\u30fb\uff65](?=\p{L})|(?<=(?<![\p{L}\p{M}])\p{L})\. (?=\p{L}\.)/gu;
/** Hyphens and slashes within a word, and spaces in a script that has none. */
const hyphens =
  /(?<=[\p{L}\p{N}]\p{M}*)[\p{Pd}\u2212/\uff0f\uff1d](?=[\p{L}\p{N}])|(?<=[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}ー])[ \u3000](?=[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}])/gu;
/** Folding removes a non-joiner, in whose place people also type a space. */
const nonJoiner = /(?<=\p{Script=Arabic}\p{M}*)\u200c(?=\p{Script=Arabic})/gu;
/** Most names have no such sign. */
const plain = /^[a-z0-9 ]*$/i;
/** Longer names have one form: each word start would be a row with the rest of all. */
const longest = 200;

/**
 * The text as people type it, each once: with its signs; with the parts around apostrophes and dots joined; with the parts around hyphens
 * joined as well.
 */
export const formsOf = (text: string): readonly string[] => {
  if (text.length > longest || plain.test(text)) return [text];
  const joined = text.replace(joints, "").replace(nonJoiner, " ");
  const forms = [text, joined, joined.replace(hyphens, "")];
  return forms.filter((form, at) => forms.indexOf(form) === at);
};

/** For each UTF-16 unit of a form, its offset in the text. */
export const offsetsIn = (text: string, form: string): readonly number[] => {
  const offsets: number[] = [];
  let at = 0;
  for (const unit of form.split("")) {
    while (at < text.length && text[at] !== unit && !(unit === " " && text[at] === "\u200c")) at++;
    offsets.push(at++);
  }
  return offsets;
};
