import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { type FlowWord, letters, type PlanWord, type SliceWord } from "../src/job/words.js";

const script = (name: string): string =>
  readFileSync(new URL(`../src/store/scripts/${name}.lua`, import.meta.url), "utf8");
const found = (text: string, pattern: RegExp): string[] => [
  ...new Set([...text.matchAll(pattern)].map((match) => match[1]!)),
];

it("a header's letters are the same for the scripts, each with one meaning", () => {
  const table = /local optionLetters = \{(.*?)\}/.exec(script("entries"))?.[1] ?? "";
  const pairs = [...table.matchAll(/(\w+) = '(\w)'/g)].map(([, name, letter]) => [name, letter]);
  expect(pairs.length).toBeGreaterThan(0);
  expect(letters).toMatchObject(Object.fromEntries(pairs));
  expect(new Set(Object.values(letters)).size).toBe(Object.keys(letters).length);
});

const planWords: Record<PlanWord, true> = {
  ...{
    answer: true,
    delay: true,
    due: true,
    extend: true,
    front: true,
    group: true,
    ifNew: true,
    key: true,
    priority: true,
  },
  ...{ replace: true, settles: true, ttl: true },
};

it("the words of a flow's plan are those that `addFlow` explains and reads", () => {
  const read = (path: string): string => readFileSync(new URL(`../src/${path}.lua`, import.meta.url), "utf8");
  // The libraries of both scripts that store flows read the other words.
  const text = read("flows/scripts/addFlow") + script("branches");
  const [head = "", code = ""] = text.split("local jobs = KEYS[1]");
  const plan = /ARGV\[4\](.*?)ARGV\[n\]/s.exec(head)?.[1] ?? "";
  const own: Record<FlowWord, true> = { open: true, root: true };
  const words = ["delay", "due", "front", "group", "ifNew", "priority", ...Object.keys(own)].sort();
  expect(
    found(plan, /`(\w+)(?:=\d+)?`/g)
      .filter((word) => word !== "add")
      .sort(),
  ).toEqual(words);
  expect(
    found(code, /\bjob\.(\w+)/g)
      .filter((word) => word !== "id" && word !== "blob")
      .sort(),
  ).toEqual(words);
  // A slice has one more.
  const slice = /ARGV\[4\](.*?)\n--\n/s.exec(read("slices/stageFlow"))?.[1] ?? "";
  const more: Record<SliceWord, true> = { bytes: true };
  expect(found(slice, /word `(\w+)`/g)).toEqual(Object.keys(more));
  expect(found(read("slices/startFlow"), /\bjob\.(\w+)/g).filter((word) => word !== "id" && word !== "blob")).toEqual(
    Object.keys(more),
  );
});

it("the words of a plan are those that `add` explains and reads", () => {
  const [head = "", code = ""] = script("add").split("local jobs = KEYS[1]");
  const plan = /ARGV\[4\](.*?)ARGV\[n\]/s.exec(head)?.[1] ?? "";
  expect(found(plan, /`(\w+)(?:=[^`]*)?`:/g).sort()).toEqual(Object.keys(planWords));
  expect(found(code, /\bword\.(\w+)/g).sort()).toEqual(Object.keys(planWords));
});
