import { expect, it } from "vitest";
import { problemsOf } from "../checks/words.mjs";

it("finds phrases that read like a translation, with their lines, and none in code", () => {
  const text = [
    "# Price",
    "",
    "Pass a client of yours, or `a client of yours`. It starts",
    "at once.",
    "",
    "```js",
    "// Nobody begins at once.",
    "```",
    "",
    "| Case | What |",
    "| ---- | ---- |",
    "| [nobody](nobody.md) | plain |",
  ].join("\n");
  expect(problemsOf(text).map(({ line, problem }) => `${line} ${problem.split(":")[0] ?? ""}`)).toEqual([
    '1 "# Price"',
    '3 "of yours"',
    '3 "at once"',
    '12 "nobody"',
  ]);
});

it("finds sentences that are too long", () => {
  const words = (count: number): string => `The ${"word ".repeat(count - 1).trim()}.`;
  expect(problemsOf(`${words(35)} ${words(35)}`)).toEqual([]);
  expect(problemsOf(`${words(5)} ${words(36)}`)).toMatchObject([
    { line: 1, problem: expect.stringMatching("a sentence of 36 words") as string },
  ]);
});
