import { expect, it } from "vitest";
import { missingPlatforms } from "../checks/platforms.mjs";
import { root } from "../repo.mjs";
import { tempFolder, writeFiles } from "./temp.js";

it("every native tool is locked for linux, macOS and Windows", () => {
  const { checked, missing } = missingPlatforms(root);
  expect(missing).toEqual([]);
  expect(checked).toBeGreaterThan(50);
});

it("notices a platform that the lockfile lacks", () => {
  const folder = tempFolder();
  const tool = {
    name: "@native/tool",
    version: "2.0.0",
    optionalDependencies: { "@native/darwin-arm64": "2.0.0", "@native/linux-x64": "2.0.0", "@native/android": "2.0.0" },
  };
  writeFiles(folder, {
    "pnpm-lock.yaml": "packages:\n\n  '@native/tool@2.0.0':\n    resolution: {}\n\n  '@native/linux-x64@2.0.0':\n",
    "node_modules/.pnpm/@native+tool@2.0.0/node_modules/@native/tool/package.json": JSON.stringify(tool),
  });
  expect(missingPlatforms(folder)).toEqual({
    checked: 2,
    missing: ["@native/tool@2.0.0 wants @native/darwin-arm64@2.0.0"],
  });
});
