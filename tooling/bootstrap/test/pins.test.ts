import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { npmLockfiles } from "../checks/supplies.mjs";
import { npmCommand, pnpmPinFolder, pnpmVersion } from "../pnpm.mjs";
import { readManifest, root, workspaces } from "../repo.mjs";
import { tempFolder, writeFiles } from "./temp.js";

type Locked = { version: string; optionalDependencies?: Record<string, string> };

const read = (...path: string[]) => readFileSync(join(root, ...path), "utf8");

it("the pnpm that the bootstrap installs is the one that the repository names", () => {
  expect(readManifest(root).packageManager).toBe(`pnpm@${pnpmVersion()}`);
  const lock = JSON.parse(read("tooling", "bootstrap", "pnpm", "package-lock.json"));
  expect(lock.packages["node_modules/pnpm"].version).toBe(pnpmVersion());
});

it("pnpm itself is locked for linux, macOS and Windows, by hash", () => {
  const { packages } = JSON.parse(readFileSync(join(pnpmPinFolder, "package-lock.json"), "utf8"));
  for (const platform of ["linux-x64", "linux-arm64", "darwin-x64", "darwin-arm64", "win32-x64"]) {
    expect(packages[`node_modules/@pnpm/exe.${platform}`]).toMatchObject({
      version: pnpmVersion(),
      integrity: expect.stringMatching(/^sha512-/),
    });
  }
});

it.each(npmLockfiles)("%s has the programs of every platform", (path) => {
  const packages = Object.entries(JSON.parse(read(path)).packages as Record<string, Locked>);
  const needed = packages.flatMap(([, { optionalDependencies = {} }]) => Object.entries(optionalDependencies));
  const isLocked = ([name, range]: [string, string]) =>
    packages.some(([at, { version }]) => at.endsWith(`node_modules/${name}`) && version === range);
  expect(needed.length).toBeGreaterThan(10);
  expect(needed.filter((one) => !one[1].startsWith("~") && !isLocked(one))).toEqual([]);
});

it("no lockfile contains an address, so every registry and mirror serves it", () => {
  for (const path of npmLockfiles) expect(read(path)).not.toMatch(/"resolved"|tarball:/);
  expect(read("pnpm-lock.yaml")).not.toMatch(/https?:|tarball:/);
});

it("every tool is pinned to one exact version", () => {
  const catalog = /^catalog:\n((?: {2}.*\n)+)/m.exec(read("pnpm-workspace.yaml"))?.[1] ?? "";
  const pins = catalog
    .trim()
    .split("\n")
    .map((line) => line.trim());
  expect(pins.filter((pin) => !/^"?[@\w./-]+"?: (npm:[@\w./-]+@)?\d+\.\d+\.\d+$/.test(pin))).toEqual([]);
  expect(pins.length).toBeGreaterThan(15);
});

it("every published package requires the same Node version as the bootstrap", () => {
  expect(read("tooling", "bootstrap", "bootstrap.mjs")).toContain("minor >= 19");
  const published = workspaces().filter(({ manifest }) => manifest.private !== true);
  expect(published.map(({ manifest }) => manifest.engines?.["node"])).toEqual(published.map(() => ">=20.19"));
  expect(readManifest(root).engines?.["node"]).toBe(">=20.19");
});

it("`npm install` at the root, which cannot work, names the command that does", async () => {
  const folder = tempFolder();
  writeFiles(folder, { "package.json": read("package.json") });
  const [command, ...args] = npmCommand(process.env);
  const { stderr } = await promisify(execFile)(command, [...args, "install"], { cwd: folder }).catch(
    (error: unknown) => error as { stderr: string },
  );
  expect(stderr).toContain("use-npm-run-setup-instead-of-npm-install");
});
