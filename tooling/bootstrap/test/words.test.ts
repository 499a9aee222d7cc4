import { expect, it } from "vitest";
import { errorProblems, problemsOf } from "../checks/words.mjs";
import { tempFolder, writeFiles } from "./temp.js";

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

it("finds the same in errors, in their parts and in replies of scripts, and in what the command line prints only in errors", async () => {
  const folder = tempFolder();
  const texts = {
    "lock/src/errors.ts": [
      "throw new RangeError(`Option ${name} is wrong: give one of yours`);",
      'const words = { taken: "nobody holds it now" };',
      'throw new Error("The server " + "is away now");',
      'import "./nobody is here.js";',
      'const key = "at once";',
      `const long = "${"word ".repeat(36)}";`,
    ],
    "lock/src/scripts/take.lua": ["return redis.error_reply('KIT_LAYOUT it was mended by another version')"],
    "cli/src/list.ts": ['const said = "nobody holds it now";', 'throw new UsageError("Give it at once, please");'],
    "lock/test/lock.ts": ['throw new Error("nobody holds it now");'],
  };
  const files = Object.entries(texts).map(([path, lines]) => [path, lines.join("\n")] as const);
  writeFiles(folder, Object.fromEntries(files));
  const problems = await errorProblems(folder);
  expect(problems.map((problem) => problem.split(":").slice(0, 3).join(":")).toSorted()).toEqual([
    'packages/cli/src/list.ts:2: "at once"',
    'packages/lock/src/errors.ts:1: "of yours"',
    'packages/lock/src/errors.ts:2: "nobody"',
    'packages/lock/src/errors.ts:3: "is away"',
    "packages/lock/src/errors.ts:6: a sentence of 36 words",
    'packages/lock/src/scripts/take.lua:1: "mended"',
  ]);
});
