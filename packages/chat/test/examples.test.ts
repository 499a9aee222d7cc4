import { readdirSync, readFileSync } from "node:fs";
import { startRedis } from "@kit/testing";
import { describeExamples } from "@tooling/vitest/helpers";
import { expect, it } from "vitest";

const folder = (name: string): URL[] => {
  const parent = new URL(`../${name}/`, import.meta.url);
  return readdirSync(parent).map((file) => new URL(file, parent));
};
const pages = [new URL("../README.md", import.meta.url), ...folder("docs")];

describeExamples(startRedis, pages);

it("shows in the README and on the pages only parts of these examples", () => {
  // A part may be indented in its example.
  const plain = (text: string): string => text.trim().replace(/^ +/gm, "");
  const examples = folder("examples").map((example) => plain(readFileSync(example, "utf8")));
  const blocks = pages.flatMap((page) => [...readFileSync(page, "utf8").matchAll(/^```[jt]s\n(.*?)^```$/gms)]);
  expect(blocks.length).toBeGreaterThanOrEqual(examples.length);
  for (const [, block = ""] of blocks) expect(examples.filter((text) => text.includes(plain(block)))).not.toEqual([]);
});
