import { describe, expect, it } from "vitest";
import { referenceProblems } from "../reference/index.mjs";
import { tablesOf } from "../reference/options.mjs";
import { optionsSection } from "../reference/section.mjs";
import { workspaces } from "../repo.mjs";

const some = (name: string) => workspaces().filter(({ manifest }) => manifest.name === name);

describe("the reference page", () => {
  it("has each option of a package with its rule, also those of core", async () => {
    const [lock] = await tablesOf(some("@kit/lock"));
    expect(lock!.tables.map(({ type }) => type)).toEqual(["LockOptions", "AcquireOptions", "TryOptions"]);
    expect(lock!.tables[1]!.options.map(({ name, usual, rule }) => [name, usual, rule.kind, rule.min])).toEqual([
      ["leaseMs", "10000", "integer", 10],
      ["renew", "true", "boolean", undefined],
      ["maxHoldMs", "undefined", "integer", 10],
      ["holder", 'host name and process id, as in "web-3:4711"', "text", undefined],
      ["waitMs", "undefined", "integer", 0],
      ["signal", undefined, "signal", undefined],
    ]);
    expect(lock!.tables[1]!.options[4]!.doc).toMatch(/^How long to wait, in milliseconds/);
  });

  it("is as the code in this repository", async () => {
    expect(await referenceProblems()).toEqual([]);
  });

  it("shows ranges, defaults and the first paragraph of a comment", () => {
    const option = {
      name: "keepMs",
      type: "number",
      doc: "How long.\nNot longer.\n\nWhy so.",
      usual: "60,000 (a minute)",
    };
    const rule = { kind: "integer", min: 1, max: 90_000, default: 60_000, check: Number };
    const { text, problems } = optionsSection([{ type: "X", doc: "An X.", options: [{ ...option, rule }] }]);
    expect(problems).toEqual([]);
    expect(text).toContain("| `keepMs` | 1 to 90,000 | `60000` (a minute) | How long. Not longer |");
  });

  it.each([
    [{ default: 5 }, "6", "has the default 5, and the @default 6"],
    [{ default: 5 }, undefined, "has the default 5, and no @default"],
    [{}, "5", "has the @default 5, and no such default"],
    [{ kind: "choice", default: "a" }, "a", 'has the default "a", and the @default a'],
    [{ required: true }, "5", "has a @default, and is required"],
  ] as const)("refuses a comment that contradicts its rule: %j, %s", (rule, usual, problem) => {
    const option = {
      name: "x",
      type: "number",
      doc: "How many.",
      usual,
      rule: { kind: "integer", check: Number, ...rule },
    };
    const { problems } = optionsSection([{ type: "X", doc: "", options: [option as never] }]);
    expect(problems).toEqual([`X.x ${problem}`]);
  });
});
