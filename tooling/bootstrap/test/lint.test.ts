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
    rules: { "kit/class-lines": "error", "kit/no-kit-error-cast": "error" },
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

it("reports a cast to KitError, and no other", async () => {
  expect(
    await reported({
      "cast.ts":
        'const a = (e as KitError).code;\nconst b = f as Promise<KitError>;\nconst c = d as KitErrorCodes["lock"];\nconst g = (h as typeof KitError).brand;\n',
    }),
  ).toEqual([expect.stringMatching(/^cast\.ts:1: /), expect.stringMatching(/^cast\.ts:2: /)]);
});

it("is what the repository is linted with", () => {
  const { jsPlugins } = JSON.parse(readFileSync(join(root, ".oxlintrc.json"), "utf8").replace(/^\s*\/\/.*$/gm, "")) as {
    jsPlugins: string[];
  };
  expect(jsPlugins).toEqual(["./tooling/bootstrap/checks/lint.mjs"]);
});
