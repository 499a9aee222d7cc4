import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  lockfileProblems,
  npmLockfileProblems,
  publishedProblems,
  scriptProblems,
  settingsProblems,
  supplyProblems,
} from "../checks/supplies.mjs";
import { root } from "../repo.mjs";

const read = (...path: string[]) => readFileSync(join(root, ...path), "utf8");
const lockfile = read("pnpm-lock.yaml");
const hooks = read("tooling", "bootstrap", "pnpm", "hooks.cjs");
const workspace = read("pnpm-workspace.yaml");
const npmLockfile = read("tooling", "bootstrap", "pnpm", "package-lock.json");

/** Replaces one part of a text, which must contain it. */
const spoil = (text: string, what: string | RegExp, by: string): string => {
  const spoilt = text.replace(what, by);
  if (spoilt === text) throw new Error(`there is no ${String(what)} to spoil`);
  return spoilt;
};

it("the repository's own packages have valid sources", () => {
  expect(supplyProblems()).toEqual([]);
});

describe("a lockfile is refused", () => {
  const ioredis = /(\n {2}ioredis@6\.0\.0:\n {4}resolution: )\{integrity: [^}]+\}/;
  const uuid = /(\n {6}uuid:\n {8}specifier: \S+\n {8}version: )\S+/;
  it.each([
    [
      "with a tarball from elsewhere",
      ioredis,
      `$1{integrity: sha512-${"a".repeat(86)}==, tarball: https://example.org/i.tgz}`,
    ],
    ["with a tarball by its address alone", ioredis, "$1{tarball: https://example.org/i.tgz}"],
    ["with a commit", ioredis, "$1{commit: 0123456, repo: https://example.org/i.git, type: git}"],
    ["with a folder", ioredis, "$1{directory: ../elsewhere, type: directory}"],
    ["without a hash", ioredis, "$1{}"],
    ["with a weak hash", ioredis, "$1{integrity: sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk=}"],
    ["with a second resolution", ioredis, `$1{integrity: sha512-${"a".repeat(86)}==}\n    resolution: {tarball: x}`],
    ["with an address for a version", /\n {2}ioredis@6\.0\.0:/, "\n  ioredis@https://example.org/i.tgz:"],
    ["with a version from git", /\n {2}ioredis@6\.0\.0:/, "\n  ioredis@git+ssh://git@example.org/i.git#1:"],
    ["with a package that is used but not locked", /(\nsnapshots:\n)/, "$1\n  stranger@1.0.0: {}\n"],
    ["with a dependency from git", uuid, "$1https://codeload.example.org/uuid/tar.gz/0123"],
    ["with a dependency from a folder", uuid, "$1file:../../elsewhere"],
    ["with a link out of the repository", /link:\.\.\/core/, "link:../../../elsewhere"],
    ["with a patch", /\noverrides:/, "\npatchedDependencies:\n  ioredis: 0123\n\noverrides:"],
    ["with another override", /\n {2}rollup: 4\.67\.4\n/, "\n  rollup: 4.67.4\n  ioredis: 5.0.0\n"],
    ["with a second document", /^/, "packageManagerDependencies: {}\n---\n"],
    ["that is empty", /[\s\S]*/, ""],
  ])("%s", (_, what, by) => {
    expect(lockfileProblems(spoil(lockfile, what, by), hooks)).not.toEqual([]);
  });

  it("made with another hook than the repository's", () => {
    expect(lockfileProblems(lockfile, `${hooks}\n// more`)).toEqual([
      "pnpm-lock.yaml: not made with tooling/bootstrap/pnpm/hooks.cjs",
    ]);
  });
});

describe("settings are refused", () => {
  it.each([
    ["without a wait for new releases", /minimumReleaseAge: 1440/, "minimumReleaseAge: 0"],
    ["that only warn about install scripts", "strictDepBuilds: true", "strictDepBuilds: false"],
    ["that let dependencies come from anywhere", "blockExoticSubdeps: true\n", ""],
    ["that ignore engines", "engineStrict: true", "# engineStrict: true"],
    ["that let a package build", "esbuild: false", "esbuild: true"],
    ["that let one more build", "esbuild: false", "esbuild: false, other: true"],
    ["that let all build", /^/, "dangerouslyAllowAllBuilds: true\n"],
    ["with patches", /^/, "patchedDependencies: { ioredis: patches/ioredis.patch }\n"],
    ["with exceptions for new releases", /^/, "minimumReleaseAgeExclude: [ioredis]\n"],
    ["with another hook", /pnpmfile: .*/, "pnpmfile: .pnpmfile.cjs"],
  ])("%s", (_, what, by) => {
    expect(settingsProblems(spoil(workspace, what, by))).toHaveLength(1);
  });
});

describe("a lockfile of npm is refused", () => {
  it.each([
    ["with an address", '"version": "12.4.2",', '"version": "12.4.2", "resolved": "https://example.org/p.tgz",'],
    ["without a hash", /"integrity": "[^"]+",/, ""],
    ["with a weak hash", /"integrity": "[^"]+",/, '"integrity": "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk=",'],
    ["with a link", '"version": "12.4.2",', '"version": "12.4.2", "link": true,'],
    ["with one more install script", '"license": "MIT",', '"license": "MIT", "hasInstallScript": true,'],
  ])("%s", (_, what, by) => {
    expect(npmLockfileProblems(spoil(npmLockfile, what, by))).toHaveLength(1);
  });
});

it("a package with an install script is refused, unless it is listed as not run", () => {
  const manifest = (name: string, script: string) => ({ name, version: "1.0.0", scripts: { [script]: "node x.js" } });
  expect(
    scriptProblems([
      manifest("esbuild", "postinstall"),
      manifest("tool", "test"),
      ...["preinstall", "install", "postinstall"].map((script) => manifest("bad", script)),
    ]),
  ).toEqual(Array.from({ length: 3 }, () => "bad@1.0.0 has an install script"));
});

it("a published package with further dependencies or an install script is refused", () => {
  const sound = { name: "@kit/x", dependencies: { "@kit/core": "1", uuid: "1" }, peerDependencies: { ioredis: "6" } };
  expect(publishedProblems([sound, { name: "own", private: true, dependencies: { left: "1" } }])).toEqual([]);
  expect(
    publishedProblems([
      { name: "a", dependencies: { ms: "1" } },
      { name: "b", optionalDependencies: { fsevents: "1" } },
      { name: "c", peerDependencies: { redis: "1" } },
      { name: "d", scripts: { postinstall: "node x.js" } },
      {
        name: "@kit/cli",
        peerDependencies: { "@kit/x": "workspace:>=1.0.0 <2", "@kit/y": "1", "@kit/z": "workspace:^", other: "1" },
        peerDependenciesMeta: { "@kit/x": { optional: true }, "@kit/z": { optional: true }, other: { optional: true } },
      },
    ]),
  ).toEqual([
    "a depends on ms at run time",
    "b depends on fsevents at run time",
    "c asks its user for redis",
    "d has the script postinstall",
    "@kit/cli asks its user for @kit/y",
    "@kit/cli asks its user for other",
    "@kit/cli asks for @kit/z workspace:^, not for workspace:>=1.0.0 <2 or the like",
  ]);
});
