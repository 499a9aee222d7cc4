import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

export type SeededBug =
  | "a release that does not ask whose lock it is"
  | "a renewal that does not ask whose lock it is"
  | "a fencing token that does not grow"
  | "a deadline that is a second too late";

/** What a lock may get wrong; a checker that does not see it is of no use. */
const bugs: Readonly<Record<SeededBug, readonly [RegExp, string]>> = {
  "a release that does not ask whose lock it is": [/if owner and owner == [^\\\n]*? then/g, "if owner then"],
  "a renewal that does not ask whose lock it is": [/if owner == terms\[[^\\\n]*? then/g, "if owner then"],
  "a fencing token that does not grow": [/math\.max\(micros, tonumber\(previous\) \+ 1\)/g, "tonumber(previous)"],
  "a deadline that is a second too late": [/(?<=\b(?:sentAt|receivedAt) \+ )surely\(/g, "1e3 + surely("],
};

/** Writes a copy of the built lock that has this bug, and returns what to import. */
export const lockWithBug = (bug: SeededBug): string => {
  const [pattern, replacement] = bugs[bug];
  const built = readFileSync(new URL("../../dist/index.js", import.meta.url), "utf8");
  const broken = built.replace(pattern, replacement);
  if (broken === built) throw new Error(`Nothing in the built lock to put "${bug}" into`);
  // In the package's own folder, so that its imports find what they look for.
  const folder = new URL("../../test-results/", import.meta.url);
  mkdirSync(folder, { recursive: true });
  const file = new URL(`${bug.replaceAll(" ", "-")}.mjs`, folder);
  writeFileSync(fileURLToPath(file), broken);
  return file.href;
};
