import { expect, it } from "vitest";
import { outputProblems, textsOf } from "../checks/words-output.mjs";
import { problemsOf } from "../checks/words.mjs";

const problems = (source: string): readonly string[] =>
  textsOf(source).flatMap(({ line, text }) =>
    problemsOf(text).map(({ problem }) => `${line} ${problem.split(":")[0] ?? ""}`),
  );

it("reads the texts of a source, with their lines, and neither its comments nor its imports", () => {
  const source = [
    'import { mend } from "./mend.js";',
    "// Nobody mends it by hand.",
    "const holder = held ? name : `nobody`;",
    'const fix = "Mend it by hand.";',
    "const both = `${holder} mends it${isLate ? ` at once` : ``}`;",
  ].join("\n");
  expect(problems(source)).toEqual(['3 "nobody"', '4 "Mend"', '4 "by hand"', '5 "mends"', '5 "at once"']);
});

it("reads a page without its tags, each block as a paragraph", () => {
  const words = "word ".repeat(20).trim();
  expect(textsOf('html`<p class="${kind}">Sold <b>at</b> once.</p>`')[0]?.text.trim()).toBe("Sold at once.");
  expect(problems(`html\`<p>A ${words}</p><p>a ${words}</p>\``)).toEqual([]);
  expect(problems(`html\`<p>A ${words} a ${words}</p>\``)).toEqual(
    ['1 "a sentence of 42 words"'].map((one) => one.replaceAll('"', "")),
  );
});

it("finds nothing in the command line and the shop", () => {
  expect(outputProblems()).toEqual([]);
});
