import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { root as repository, workspaces } from "../repo.mjs";
import { installedManifests } from "./platforms.mjs";

/** Settings that pnpm must have, each as a line of `pnpm-workspace.yaml`. */
const settings = [
  "catalogMode: strict",
  "engineStrict: true",
  "strictDepBuilds: true",
  "minimumReleaseAge: 1440",
  "blockExoticSubdeps: true",
];

/** Packages with an install script, which `allowBuilds` forbids to run. They work without it. */
const unbuilt = ["esbuild", "msgpackr-extract"];

/** The lockfiles of what stands outside of the workspaces: pnpm itself, and what builds the site. npm installs them without scripts. */
export const npmLockfiles = ["tooling/bootstrap/pnpm/package-lock.json", "apps/site/package-lock.json"];
const unbuiltByNpm = ["pnpm", "esbuild", "fsevents"];

/** Exceptions to the dependency tree, each with its reason. */
const overrides = ["rollup"]; // the newest lacks programs for some platforms
const pnpmfile = "tooling/bootstrap/pnpm/hooks.cjs"; // admits two packages of tests, whose `engines` is too strict

/** The packages that a published package may depend on. */
const mayDependOn = ["@kit/core", "uuid"];
const mayAskFor = ["ioredis"];
/** Further dependencies: those of programs, and optional ones for tracing, another client, cron expressions, assistants and another board. */
const more = /** @type {Record<string, readonly string[]>} */ ({
  "@kit/board": ["@bull-board/api", "@kit/queue"],
  "@kit/cli": ["@modelcontextprotocol/sdk", "commander", "ioredis"],
  "@kit/core": ["@opentelemetry/api", "redis"],
  "@kit/queue": ["croner"],
});

/**
 * The range of the command line's peers. Up to the next major and not up from today's version: else each minor of a package would
 * leave the range, which counts as a breaking change of the command line, and a newer command line would refuse an older package.
 * A prerelease of a package is named in addition, since no range of stable versions includes it.
 */
const peerRange = /^workspace:>=\d+\.0\.0 <\d+(?: \|\| \^\d+\.\d+\.\d+-[\w.]+)?$/;

const installScripts = ["preinstall", "install", "postinstall"];
const exactVersion = /^\d+\.\d+\.\d+(?:[-+][\w.+-]+)?$/;
const sha512 = /^sha512-[A-Za-z0-9+/]{86}==$/;

/**
 * Checks the sources of a repository's packages. Each must come from the registry by its hash, and no package may run a
 * script when it is installed. The only exceptions are those named above.
 * @param {string} root
 */
export function supplyProblems(root = repository) {
  /** @param {readonly string[]} path */
  const read = (...path) => readFileSync(join(root, ...path), "utf8");
  const lockfile = read("pnpm-lock.yaml");
  return [
    ...lockfileProblems(lockfile, read(pnpmfile), root),
    ...settingsProblems(read("pnpm-workspace.yaml")),
    ...npmLockfiles.flatMap((path) => npmLockfileProblems(read(path), path)),
    ...scriptProblems(installedManifests(root, lockedNames(lockfile))),
    ...publishedProblems(workspaces(root).map(({ manifest }) => manifest)),
  ];
}

/**
 * A top-level part of a lockfile, by its entries: name to the lines below it.
 * @param {string} lockfile
 * @param {string} part
 */
function entriesOf(lockfile, part) {
  const [, text = ""] = new RegExp(`^${part}:\\n((?:\\n| .*\\n)*)`, "m").exec(lockfile) ?? [];
  return [...text.matchAll(/^ {2}(\S.*?):(?: (.*))?\n((?:\n| {3,}.*\n)*)/gm)].map(
    ([, key = "", value = "", lines = ""]) => ({ key: key.replace(/^'(.*)'$/, "$1"), value, lines }),
  );
}

/** @param {string} lockfile */
const lockedNames = (lockfile) => new Set(entriesOf(lockfile, "packages").map(({ key }) => key));

/**
 * @param {string} lockfile
 * @param {string} hooks
 * @param {string} root
 */
export function lockfileProblems(lockfile, hooks, root = repository) {
  const packages = entriesOf(lockfile, "packages");
  const locked = lockedNames(lockfile);
  const parts = [...lockfile.matchAll(/^([^\s:]+):/gm)].map(([, name = ""]) => name);
  const known = [
    ...["lockfileVersion", "settings", "catalogs", "overrides", "pnpmfileChecksum"],
    ...["importers", "packages", "snapshots"],
  ];
  const checksum = `sha256-${createHash("sha256").update(hooks).digest("base64")}`;
  return [
    ...parts.filter((part) => !known.includes(part)).map((part) => `pnpm-lock.yaml: unknown part ${part}`),
    ...(/^---/m.test(lockfile) ? ["pnpm-lock.yaml: more than one document"] : []),
    ...(packages.length === 0 ? ["pnpm-lock.yaml: no packages"] : []),
    ...packages.flatMap(({ key, lines }) => {
      const version = key.slice(key.indexOf("@", 1) + 1);
      const [resolution = "", ...more] = [...lines.matchAll(/^ {4}resolution: (.*)$/gm)].map((match) => match[1] ?? "");
      const [, hash = ""] = /^\{integrity: (\S+)\}$/.exec(resolution) ?? [];
      const isSound = exactVersion.test(version) && sha512.test(hash) && more.length === 0;
      return isSound ? [] : [`pnpm-lock.yaml: ${key} is not a release of the registry by its hash: ${resolution}`];
    }),
    ...entriesOf(lockfile, "snapshots").flatMap(({ key }) => {
      const name = key.replace(/\(.*$/, "");
      return locked.has(name) ? [] : [`pnpm-lock.yaml: ${name} is used, but not locked`];
    }),
    ...entriesOf(lockfile, "importers").flatMap(({ key, lines }) =>
      [...lines.matchAll(/^ {8}version: (.*)$/gm)].flatMap(([, version = ""]) => {
        const problem = importProblem(version.replace(/^'(.*)'$/, "$1"), resolve(root, key), root);
        return problem === undefined ? [] : [`pnpm-lock.yaml: ${key}: ${version} ${problem}`];
      }),
    ),
    ...entriesOf(lockfile, "overrides")
      .filter(({ key }) => !overrides.includes(key))
      .map(({ key }) => `pnpm-lock.yaml: overrides ${key}, which is not listed`),
    ...(lockfile.includes(`\npnpmfileChecksum: ${checksum}\n`) ? [] : [`pnpm-lock.yaml: not made with ${pnpmfile}`]),
  ];
}

/**
 * @param {string} version
 * @param {string} importer
 * @param {string} root
 */
function importProblem(version, importer, root) {
  if (!version.startsWith("link:")) {
    const release = version.replace(/\(.*$/, "").replace(/^(?:@[\w.-]+\/)?[\w.-]+@/, "");
    return exactVersion.test(release) ? undefined : "is not a release";
  }
  const path = relative(root, resolve(importer, version.slice("link:".length)));
  return /^(?:packages|apps|tooling)\/[^/]+$/.test(path) ? undefined : "is no workspace";
}

/** @param {string} workspace */
export function settingsProblems(workspace) {
  const lines = workspace.split("\n");
  const valueOf = (/** @type {string} */ name) =>
    lines.find((line) => line.startsWith(`${name}:`))?.slice(name.length + 2);
  const wanted = {
    allowBuilds: `{ ${unbuilt.map((name) => `${name}: false`).join(", ")} }`,
    pnpmfile,
    patchedDependencies: undefined,
    onlyBuiltDependencies: undefined,
    dangerouslyAllowAllBuilds: undefined,
    minimumReleaseAgeExclude: undefined,
  };
  return [
    ...settings.filter((line) => !lines.includes(line)).map((line) => `pnpm-workspace.yaml: expected ${line}`),
    ...Object.entries(wanted).flatMap(([name, value]) =>
      valueOf(name) === value ? [] : [`pnpm-workspace.yaml: expected ${name} to be ${value}, got ${valueOf(name)}`],
    ),
  ];
}

/** Checks a lockfile by which npm installs. @param {string} text @param {string} [path] */
export function npmLockfileProblems(text, path = "package-lock.json") {
  /** @type {{ packages: Record<string, { version?: string, integrity?: string, resolved?: string, hasInstallScript?: boolean, link?: boolean }> }} */
  const { packages } = JSON.parse(text);
  return Object.entries(packages).flatMap(
    ([name, { version = "", integrity = "", resolved, hasInstallScript, link }]) => {
      if (name === "") return [];
      const isSound = exactVersion.test(version) && sha512.test(integrity) && resolved === undefined && !link;
      const isUnbuilt = unbuiltByNpm.includes(name.replace(/^.*node_modules\//, ""));
      return [
        ...(isSound ? [] : [`${path}: ${name} is not a release of the registry by its hash`]),
        ...(hasInstallScript && !isUnbuilt ? [`${path}: ${name} has an install script`] : []),
      ];
    },
  );
}

/** @param {readonly import("../repo.mjs").Manifest[]} manifests */
export function scriptProblems(manifests) {
  return manifests
    .filter(({ name, scripts = {} }) => !unbuilt.includes(name) && installScripts.some((script) => script in scripts))
    .map(({ name, version }) => `${name}@${version} has an install script`);
}

/** @param {readonly import("../repo.mjs").Manifest[]} manifests */
export function publishedProblems(manifests) {
  return manifests.filter((manifest) => manifest.private !== true).flatMap(problemsOf);
}

/** @param {import("../repo.mjs").Manifest} manifest */
function problemsOf(manifest) {
  const { name, dependencies = {}, optionalDependencies = {}, scripts = {} } = manifest;
  const { peerDependencies = {}, peerDependenciesMeta = {} } = manifest;
  const own = more[name] ?? [];
  // The command line has every package as an optional peer.
  const mayKnow = (/** @type {string} */ peer) =>
    name === "@kit/cli" && peer.startsWith("@kit/") && peerDependenciesMeta[peer]?.optional === true;
  return [
    ...[...Object.keys(dependencies), ...Object.keys(optionalDependencies)]
      .filter((dependency) => ![...mayDependOn, ...own].includes(dependency))
      .map((dependency) => `${name} depends on ${dependency} at run time`),
    ...Object.keys(peerDependencies)
      .filter((peer) => ![...mayAskFor, ...own].includes(peer) && !mayKnow(peer))
      .map((peer) => `${name} asks its user for ${peer}`),
    ...Object.entries(peerDependencies)
      .filter(([peer, range]) => mayKnow(peer) && !peerRange.test(range))
      .map(([peer, range]) => `${name} asks for ${peer} ${range}, not for workspace:>=1.0.0 <2 or the like`),
    ...[...installScripts, "prepare"]
      .filter((script) => script in scripts)
      .map((script) => `${name} has the script ${script}`),
  ];
}
