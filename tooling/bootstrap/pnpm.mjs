import { createHash } from "node:crypto";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { cacheDir, findProgram, pathFolders, readManifest, root, SetupError, workspaces } from "./repo.mjs";
import { capture } from "./run.mjs";

export const pnpmPinFolder = join(root, "tooling", "bootstrap", "pnpm");

/** The pnpm version that this repository is pinned to. */
export const pnpmVersion = () => readManifest(pnpmPinFolder).dependencies?.["pnpm"] ?? "";

/**
 * The folder of pnpm's native program for this platform. This folder must be on PATH: without install scripts `.bin/pnpm`
 * is a placeholder, which turbo cannot execute.
 */
export function findPnpm(folder = join(cacheDir, `pnpm-${pnpmVersion()}`)) {
  const scope = join(folder, "node_modules", "@pnpm");
  if (!existsSync(scope)) return undefined;
  const folders = readdirSync(scope)
    .filter((name) => name.startsWith(`exe.${process.platform}-${process.arch}`))
    .map((name) => join(scope, name));
  const program = findProgram(["pnpm", "pnpm.exe"], folders);
  return program === undefined ? undefined : dirname(program);
}

/**
 * Puts the pinned pnpm into the cache. npm checks its hash against the lockfile in `pnpm/`.
 * @param {NodeJS.ProcessEnv} env
 */
export async function installPnpm(env) {
  const target = join(cacheDir, `pnpm-${pnpmVersion()}`);
  const work = `${target}.${process.pid}.part`;
  rmSync(work, { recursive: true, force: true });
  mkdirSync(work, { recursive: true });
  try {
    for (const file of ["package.json", "package-lock.json"]) copyFileSync(join(pnpmPinFolder, file), join(work, file));
    const [command, ...args] = npmCommand(env);
    const flags = ["ci", "--ignore-scripts", "--include=optional", "--no-audit", "--no-fund", "--loglevel=error"];
    const { code, output } = await capture(command, [...args, ...flags], { cwd: work, env });
    if (code !== 0) throw new SetupError(`npm could not fetch pnpm ${pnpmVersion()}:\n${output.trim()}`);
    if (findPnpm(work) === undefined) {
      throw new SetupError(`pnpm ${pnpmVersion()} has no program for ${process.platform}-${process.arch}.`);
    }
    rmSync(target, { recursive: true, force: true });
    renameSync(work, target);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/**
 * The npm that runs us if there is one, else the one beside this Node or on PATH.
 * @param {NodeJS.ProcessEnv} env
 * @returns {[string, ...string[]]}
 */
export function npmCommand(env) {
  const running = env["npm_execpath"];
  if (running !== undefined && /npm-cli\.c?js$/.test(running)) return [process.execPath, running];
  const npm = findProgram(["npm"], [dirname(process.execPath), ...pathFolders(env)]);
  if (npm === undefined) throw new SetupError("npm was found neither beside Node nor on PATH.");
  return [npm];
}

const stampFile = join(root, "node_modules", ".kit-install");

/** Whether node_modules matches the lockfile and the manifests. */
export function isInstalled() {
  if (!existsSync(stampFile) || readFileSync(stampFile, "utf8") !== installStamp()) return false;
  return workspaces().every(
    ({ folder, manifest: { dependencies, devDependencies } }) =>
      Object.keys({ ...dependencies, ...devDependencies }).length === 0 || existsSync(join(folder, "node_modules")),
  );
}

/** @param {NodeJS.ProcessEnv} env */
export async function installPackages(env) {
  // NODE_ENV=production would leave the tools out. CI keeps pnpm from prompting.
  const { NODE_ENV: _, ...rest } = env;
  const stamp = installStamp();
  const { code, output } = await capture("pnpm", ["install", "--frozen-lockfile"], {
    cwd: root,
    env: { ...rest, CI: "true" },
  });
  if (code !== 0) throw new SetupError(`pnpm could not install the packages:\n${output.trim()}`);
  writeFileSync(stampFile, stamp);
}

/** A hash of all that decides which packages pnpm installs. Scripts of manifests are not part of it. */
function installStamp() {
  const hash = createHash("sha256").update(`${process.version} ${process.platform} ${process.arch}`);
  for (const file of ["pnpm-lock.yaml", "pnpm-workspace.yaml"]) hash.update(readFileSync(join(root, file)));
  for (const { folder, manifest } of [{ folder: root, manifest: readManifest(root) }, ...workspaces()]) {
    const { name, version, bin, engines, dependencies, devDependencies, peerDependencies } = manifest;
    const { optionalDependencies, packageManager } = manifest;
    const parts = [name, version, bin, engines, packageManager];
    const depends = [dependencies, devDependencies, peerDependencies, optionalDependencies];
    hash.update(JSON.stringify([folder.slice(root.length), parts, depends]));
  }
  return hash.digest("hex");
}
