import { describe, expect, it } from "vitest";
import { errorPage } from "../reference/a-to-z.mjs";
import { parse } from "../reference/comments.mjs";
import { errorsSection } from "../reference/errors.mjs";
import { referenceProblems } from "../reference/index.mjs";
import { keysSection } from "../reference/keys.mjs";
import { tablesOf } from "../reference/options.mjs";
import { optionsSection } from "../reference/section.mjs";
import { workspaces } from "../repo.mjs";

const some = (name: string) => workspaces().filter(({ manifest }) => manifest.name === name);

describe("the reference page", () => {
  it("has each option of a package with its rule, also those of core", async () => {
    const [lock] = await tablesOf(some("@kit/lock"));
    const types = lock!.tables.map(({ type }) => type);
    // Also those of the further entries of a package.
    expect(types).toEqual(expect.arrayContaining(["LockOptions", "AcquireOptions", "TryOptions", "QuorumLockOptions"]));
    const { options } = lock!.tables.find(({ type }) => type === "AcquireOptions")!;
    expect(options.map(({ name, usual, rule }) => [name, usual, rule.kind, rule.min])).toEqual([
      ["leaseMs", "10000", "integer", 10],
      ["renew", "true", "boolean", undefined],
      ["maxHoldMs", "undefined", "integer", 10],
      ["holder", 'host name and process id, as in "web-3:4711"', "text", undefined],
      ["waitMs", "undefined", "integer", 0],
      ["signal", undefined, "signal", undefined],
    ]);
    expect(options[4]!.doc).toMatch(/^How long to wait, in milliseconds/);
  });

  // `npm run verify` asks it of all packages.
  it("is as the code", async () => {
    expect(await referenceProblems(some("@kit/geoip"))).toEqual([]);
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

  const shop = (...classes: string[]) =>
    errorsSection("@kit/shop", [
      parse(`/** Codes.\n *\n * - \`KIT_CLOSED\`: it is\n *   night.\n */
        export type ShopErrorCode = "KIT_SOLD" | "KIT_CLOSED";\n${classes.join("\n")}`),
    ]);
  const errorClass = (name: string, doc: string, code: string, brand = "static override readonly brand = 'x';") =>
    `/** ${doc} */\nexport class ${name} extends KitError { ${brand} constructor(code) { super(${code}, "words"); } }`;
  const sold = errorClass("SoldError", "Another\n * buyer | came. Retryable.\n *\n * More.", '"KIT_SOLD"');

  it("has each code with its class and when it occurs, in order, and links to those of every package", () => {
    const { text, problems } = shop(sold, errorClass("Inner", "Not public.", "code", ""));
    expect(problems).toEqual([]);
    expect(text.split("\n").filter((line) => line.startsWith("| `"))).toEqual([
      "| `KIT_CLOSED` | `KitError` | It is night |",
      "| `KIT_SOLD` | `SoldError` | Another buyer \\| came. Retryable |",
    ]);
    expect(text).toMatch(/\[core's page\]\(\.\.\/\.\.\/core\/docs\/reference\.md#errors\)\.$/);
  });

  it("takes the codes of a class that has several from its comment", () => {
    const { text, problems } = shop(errorClass("ShopError", "Any.\n *\n * - `KIT_SOLD`: gone", "code"));
    expect(problems).toEqual([]);
    expect(text).toContain("| `KIT_SOLD` | `ShopError` | Gone |");
  });

  it.each([
    [[], "KIT_SOLD is described nowhere"],
    [[sold, sold], "KIT_SOLD is described more than once"],
    [[sold, errorClass("OpenError", "Open.", '"KIT_OPEN"')], "KIT_OPEN is in no type of codes"],
    [
      [sold, errorClass("AnyError", "Any.", "code")],
      'AnyError has no code in `super("KIT_…"`, and its comment lists none',
    ],
    [[errorClass("SoldError", "", '"KIT_SOLD"')], "KIT_SOLD has no comment"],
    [
      [errorClass("SoldError", "Sold.\n *\n * - `KIT_SOLD`: gone", '"KIT_SOLD"')],
      "SoldError has one code, and lists several",
    ],
  ])("refuses errors that are described wrongly: %#", (classes, problem) => {
    expect(shop(...classes).problems).toEqual([problem]);
  });

  const keys = (row: string) =>
    keysSection([
      parse(`/**\n * Every {@link key}.\n *\n * | Key | Type |\n * | --- | --- |\n * ${row}\n */\nconst keys = 1;`),
    ]);

  it("has the tables of keys as the comment has them", () => {
    const { text, problems } = keys("| `kit:x:{name}` | `a\\|b` |");
    expect(problems).toEqual([]);
    expect(text).toBe("## Keys\n\nEvery `key`.\n\n| Key | Type |\n| --- | --- |\n| `kit:x:{name}` | `a\\|b` |");
  });

  it("refuses keys without a table, and a row that its heading does not fit", () => {
    expect(keysSection([parse('export const base = keyspace("x");')])).toEqual({
      text: "",
      problems: ["keys.ts has no table of keys in a doc comment"],
    });
    expect(keys("| `k` | `a|b` |").problems).toEqual([
      "the row of `k` has not as many cells as the heading: write \\| for a bar in a cell",
    ]);
  });
});

describe("the page of all errors", () => {
  const files = (text: string) => [{ source: "@kit/lock", folder: "lock", files: [parse(text)] }];

  it("says when a code occurs, what to do, and whether the call may be repeated", () => {
    const { text } = errorPage(
      files(`
        export type LockErrorCode = "KIT_LOCK_LOST" | "KIT_LOCK_TIMEOUT" | "KIT_BUSY" | "KIT_SERVER";
        /** It ended. Not retryable. */
        class LostError extends KitError { static brand = "LostError"; constructor() { super("KIT_LOCK_LOST", ""); } }
        /** It was late. Retryable: there is room when \`a.b\` has passed. It is undone. */
        class LateError extends KitError { static brand = "LateError"; constructor() { super("KIT_LOCK_TIMEOUT", ""); } }
        /**
         * - \`KIT_SERVER\`: it refused. Retryable, if it is full
         */
        export type MoreErrorCode = "KIT_SERVER";
        /** It is busy. */
        class BusyError extends KitError {
          static brand = "BusyError";
          constructor() { super("KIT_BUSY", "", { retryable: true }); }
        }`),
    );
    const sections = new Map(text.split(/^## /m).map((section) => [section.split("\n")[0], section]));
    expect(sections.get("KIT_LOCK_LOST")).toMatch(
      /\n\nIt ended\.\n\n\*\*What to do\.\*\* Stop the work.*\n\n\*\*Retryable:\*\* no\./,
    );
    expect(sections.get("KIT_LOCK_TIMEOUT")).toMatch(/\n\nIt was late\. It is undone\.\n/);
    expect(sections.get("KIT_LOCK_TIMEOUT")).toContain("yes: there is room when `a.b` has passed.");
    expect(sections.get("KIT_SERVER")).toContain("yes, if it is full.");
    expect(sections.get("KIT_BUSY")).toMatch(/yes\.\s*$/);
    const rows = [...text.matchAll(/^\| \[`(\w+)`\].* \| ([\w ]+) \|$/gm)].map(([, code, answer]) => [code, answer]);
    expect(rows).toEqual([
      ["KIT_BUSY", "yes"],
      ["KIT_LOCK_LOST", "no"],
      ["KIT_LOCK_TIMEOUT", "yes"],
      ["KIT_SERVER", "in part"],
    ]);
  });

  it("names a code without a remedy, and a remedy without a code", () => {
    const { problems } = errorPage(files('/** - `KIT_NEW`: it is new */\nexport type LockErrorCode = "KIT_NEW";'));
    expect(problems).toContain("KIT_NEW has no remedy in tooling/bootstrap/reference/remedies.mjs");
    expect(problems).toContain("tooling/bootstrap/reference/remedies.mjs: there is no KIT_LOCK_LOST");
  });
});
