// Runs oxlint with the rules of our own.
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { root } from "../repo.mjs";
import { tempFolder, writeFiles } from "./temp.js";

/** What oxlint reports of the files: `file:line: message`. */
const reported = async (files: Record<string, string>): Promise<string[]> => {
  const folder = tempFolder();
  const config = {
    jsPlugins: [join(root, "tooling/bootstrap/checks/lint.mjs")],
    categories: { correctness: "off" },
    rules: {
      "kit/class-lines": "error",
      "kit/class-fields": "error",
      "kit/no-kit-error-cast": "error",
      "kit/no-sleep": "error",
    },
  };
  writeFiles(folder, { ...files, ".oxlintrc.json": JSON.stringify(config) });
  const args = [join(root, "node_modules/oxlint/bin/oxlint"), "--format=json"];
  const stdout = await new Promise<string>((resolve) => {
    execFile(process.execPath, args, { cwd: folder }, (_, text) => resolve(text));
  });
  const { diagnostics } = JSON.parse(stdout) as {
    diagnostics: { filename: string; message: string; labels: { span: { line: number } }[] }[];
  };
  return diagnostics
    .map(({ filename, message, labels }) => `${filename}:${labels[0]?.span.line}: ${message}`)
    .toSorted();
};

const classOf = (lines: number): string => `class A {${"\n".repeat(lines - 1)}}`;

it("reports a class of more than 300 lines, also one without a name", async () => {
  expect(
    await reported({
      "fits.ts": `\n\nexport ${classOf(300)}\n`,
      "long.ts": `\nexport ${classOf(301)}\n`,
      "inner.ts": `export const b = ${classOf(302).replace("A ", "")};\n`,
    }),
  ).toEqual([
    expect.stringMatching(/^inner\.ts:1: This class has 302 lines/),
    expect.stringMatching(/^long\.ts:2: This class has 301 lines/),
  ]);
});

it("reports a class of more than 220 lines of code, without comments and blank lines", async () => {
  const withCode = (lines: number): string =>
    `class A {\n${"  // Why.\n\n".repeat(20)}${"  static {}\n".repeat(lines - 2)}}\n`;
  expect(await reported({ "fits.ts": withCode(220), "long.ts": withCode(221) })).toEqual([
    expect.stringMatching(/^long\.ts:1: This class has 221 lines of code/),
  ]);
});

it("reports a class of more than 12 fields, and counts no function", async () => {
  const fields = (count: number): string =>
    Array.from({ length: count }, (_, at) => `#f${String(at)} = ${String(at)};`).join(" ");
  const others = "static s = 1; declare d: string; on = () => this.#f0; get g() { return 1; }";
  expect(
    await reported({
      "fits.ts": `class A { ${fields(12)} ${others} }\n`,
      "many.ts": `class A { ${fields(11)} constructor(readonly p: string, private q: string) {} }\n`,
      "listed.ts": `class HeldLease { ${fields(14)} }\n`,
      "grown.ts": `class HeldLease { ${fields(15)} }\n`,
    }),
  ).toEqual([
    expect.stringMatching(/^grown\.ts:1: This class has 15 fields; the limit is 14/),
    expect.stringMatching(/^many\.ts:1: This class has 13 fields; the limit is 12/),
  ]);
});

it("reports a cast to KitError, and no other", async () => {
  expect(
    await reported({
      "cast.ts":
        'const a = (e as KitError).code;\nconst b = f as Promise<KitError>;\nconst c = d as KitErrorCodes["lock"];\nconst g = (h as typeof KitError).brand;\n',
    }),
  ).toEqual([expect.stringMatching(/^cast\.ts:1: /), expect.stringMatching(/^cast\.ts:2: /)]);
});

it("reports a sleep, and no other timer", async () => {
  expect(
    await reported({
      "sleep.ts":
        "await new Promise((resolve) => setTimeout(resolve, 10));\nawait new Promise<void>((done) => {\n  setTimeout(done, 10);\n});\n",
      "import.ts": 'import { setTimeout as sleep } from "node:timers/promises";\nawait sleep(10);\n',
      "fits.ts":
        'import { setImmediate } from "node:timers/promises";\nsetTimeout(() => end(), 10);\nawait new Promise((resolve) => setImmediate(resolve));\nawait new Promise((resolve) => once(resolve, () => setTimeout(stop, 10)));\n',
    }),
  ).toEqual([
    expect.stringMatching(/^import\.ts:1: A test waits for an event/),
    expect.stringMatching(/^sleep\.ts:1: /),
    expect.stringMatching(/^sleep\.ts:2: /),
  ]);
});

it("is what the repository is linted with", () => {
  const { jsPlugins } = JSON.parse(readFileSync(join(root, ".oxlintrc.json"), "utf8").replace(/^\s*\/\/.*$/gm, "")) as {
    jsPlugins: string[];
  };
  expect(jsPlugins).toEqual(["./tooling/bootstrap/checks/lint.mjs"]);
});
