import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { builtWith } from "../src/lab/mutation.js";

it("puts a mutation before the libraries of a script, so that they run with it", () => {
  const lua = "local redis = nil";
  const copy = builtWith("mutation", "@kit/chat", "index.js", { script: "ack", operands: ["acks"], lua });
  const text = readFileSync(fileURLToPath(copy), "utf8").replaceAll(String.raw`\n`, "\n");
  expect(text).toContain(`local acks = ARGV\n${lua}\n-- Libraries\n`);
});

it("refuses unknown scripts and operands", () => {
  const built = (script: string, operand: string) => () =>
    builtWith("mutation", "@kit/chat", "index.js", { script, operands: [operand], lua: "" });
  expect(built("none", "acks")).toThrow('no script "none"');
  expect(built("ack", "none")).toThrow("no operand none");
});
