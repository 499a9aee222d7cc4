import { expect, it } from "vitest";
import { foreignNumbers, slug, wrongFigures } from "../checks/figures.mjs";
import { tempFolder, writeFiles } from "./temp.js";

const measured = (better: "higher" | "lower", unit: string, kit: number, ...peers: number[]) => ({
  case: `more & ${better}`,
  unit,
  better,
  kit: { median: kit },
  peers: Object.fromEntries([...peers.map((median) => [`at ${median}`, { median }]), ["broken", { error: "none" }]]),
  floor: null,
});

/** The numbers that are found wrong in a text with a link to the chart of that case. */
const wrongIn = (words: string, one: ReturnType<typeof measured>): string[] => {
  const folder = tempFolder();
  writeFiles(folder, {
    "packages/lock/README.md": `# A\n\n[${words}](../../apps/docs/bench/lock/${slug(one.case)}.svg)\n`,
    "apps/docs/bench/lock.json": JSON.stringify({ cases: [one] }),
  });
  return wrongFigures(folder).map(
    (line) => /^packages\/lock\/README\.md:3: (\S+) is no figure of/.exec(line)?.[1] ?? line,
  );
};

it.each([
  ["240,278 against 7,256.7749, 33 ×", ["240,278", "7,256.7749", "33"]],
  ["240,000 against 7,260 a second, 33.1 ×", []],
  ["240,300 against 7,250 a second, 33.2 ×", ["240,300", "7,250", "33.2"]],
  ["0.24 million against 0.00726 million", []],
  ["200,000 or 1", ["200,000", "1"]],
])("has three digits, rounded against us, where more is better: %s", (words, wrong) => {
  expect(wrongIn(words, measured("higher", "jobs/s", 240_278.381, 7_256.7749))).toEqual(wrong);
});

it.each([
  ["9,980 ms against 59,900 ms, 6.01 ×", []],
  ["9.98 s against 59.9 s", []],
  ["10 s against 59 s", ["10", "59"]],
  ["9,970 ms against 60,000 ms", ["9,970", "60,000"]],
  ["9.9 s against 60 s, 6.1 ×", ["9.9", "60", "6.1"]],
])("has three digits, rounded against us, where less is better: %s", (words, wrong) => {
  expect(wrongIn(words, measured("lower", "ms", 9_977.07, 59_994.254))).toEqual(wrong);
});

it("takes a figure of fewer digits as it is", () => {
  expect(wrongIn("2 against 7.5", measured("lower", "commands", 2, 7.5))).toEqual([]);
});

it("takes a zero as it is, and words with numbers in them for words", () => {
  expect(wrongIn("0 against 12, p99 of IPv4", measured("lower", "permits", 0, 12))).toEqual([]);
});

it("finds no wrong figure in this repository", () => {
  expect(wrongFigures()).toEqual([]);
});

it("finds numbers of a title that the case does not have", () => {
  const contended = {
    case: "contended 16x4 hold=5ms",
    about: "16 closed loops in 4 processes, 5 ms each; 1,000 names",
  };
  expect(foreignNumbers("64 callers hold a lock for 5 ms each: p99", contended)).toEqual(["64"]);
  expect(foreignNumbers("16 callers, 1000 names", contended)).toEqual([]);
});
