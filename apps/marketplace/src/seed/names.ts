import data from "./names.json" with { type: "json" };
import type { Random } from "./random.js";

/**
 * Names as their owners write them. Accents, other scripts and text from right to left put search, sorting, escaping and
 * layout to the test. `form` "fg" places the family name first; "fg-" does so without a space.
 */
const languages: readonly { readonly given: string; readonly family: string; readonly form?: string }[] = data;

const combined = (given: string, family: string, form = "gf"): string => {
  if (form === "gf") return `${given} ${family}`;
  return form === "fg-" ? `${family}${given}` : `${family} ${given}`;
};

/** `count` different names, at most 980, mixed from twenty languages. One of them has an emoji. */
export const names = (count: number, chance: Random): string[] => {
  const all = languages.flatMap(({ given, family, form }) =>
    given.split(" ").flatMap((first) => family.split(" ").map((last) => combined(first, last, form))),
  );
  const mixed = chance.shuffle(all).slice(0, count);
  const someone = Math.min(100, count - 1);
  mixed[someone] = `${mixed[someone] ?? ""} 🦊`;
  return mixed;
};
