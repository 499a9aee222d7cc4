import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { expect, it } from "vitest";
import { filesOfPackage, packedProblems } from "../checks/packed.mjs";
import { tempFolder, writeFiles } from "./temp.js";

/** A tarball as pnpm makes them, with these files in its folder `package`. */
const tarballOf = (...files: string[]): string => {
  const folder = tempFolder();
  writeFiles(folder, Object.fromEntries(files.map((file) => [`package/${file}`, file])));
  const path = join(folder, "x.tgz");
  execFileSync("tar", ["--format=ustar", "-czf", path, "-C", folder, ...files.map((file) => `package/${file}`)]);
  return path;
};
const deep = `dist/${"folder/".repeat(15)}file.js`;

it("accepts a package of just the files that it should have", () => {
  expect(packedProblems("x", tarballOf("package.json", deep), ["package.json", deep])).toEqual([]);
});

it("accepts types that entries share, under whatever name they have", () => {
  expect(packedProblems("x", tarballOf("dist/lane-DHH5bEFQ.d.ts", "dist/lane-B-_6ifxi.d.cts"), [])).toEqual([]);
});

it("names an unexpected file, and a missing one", () => {
  expect(packedProblems("x", tarballOf("package.json", ".env", "src/a.ts"), ["package.json", "LICENSE"])).toEqual([
    "x would publish .env",
    "x would publish src/a.ts",
    "x would be published without LICENSE",
  ]);
});

it("expects the file of a program, and each entry of a library in both formats with types", () => {
  expect(filesOfPackage({ name: "x", bin: { x: "./dist/main.js" }, exports: { "./package.json": "" } })).toEqual([
    ...["LICENSE", "README.md", "package.json", "dist/main.js"],
  ]);
  expect(filesOfPackage({ name: "x", version: "1.0.0" })).toEqual([
    "LICENSE",
    "README.md",
    "package.json",
    "CHANGELOG.md",
  ]);
  const files = filesOfPackage({ name: "x", exports: { ".": {}, "./part": {}, "./package.json": "" } });
  expect(files).toHaveLength(3 + 2 * 4);
  expect(files).toEqual(
    expect.arrayContaining(["dist/index.cjs", "dist/index.d.ts", "dist/part.js", "dist/part.d.cts"]),
  );
});
