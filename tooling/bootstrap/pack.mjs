import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { absoluteLinks } from "./checks/links.mjs";
import { cacheDir, readManifest, root, SetupError, workspaces } from "./repo.mjs";
import { capture } from "./run.mjs";
import { makeTarball, readTarball } from "./tarball.mjs";

/** @typedef {ReturnType<typeof workspaces>[number]} Workspace */

/** @param {string} [from] The folder of the repository. */
export const publicPackages = (from = root) => workspaces(from).filter(({ manifest }) => manifest.private !== true);

/**
 * The repository's address: `repository` of the root's package.json, or empty. All other published addresses are derived
 * from it.
 * @param {{ repository?: unknown }} [manifest]
 */
export function repositoryAddress(manifest = readManifest(root)) {
  const { repository = "" } = manifest;
  if (repository === "") return undefined;
  if (typeof repository === "string" && /^https:\/\/[\w.-]+\/[\w.-]+\/[\w.-]+(?<!\.git)$/.test(repository))
    return repository;
  throw new SetupError(
    `package.json: expected repository to be like https://host/owner/name, got ${JSON.stringify(repository)}`,
  );
}

/**
 * Returns a manifest for publication: without fields that only this repository uses, and with `repository`, `homepage` and
 * `bugs`. `author` and `funding` come from the root's manifest, if it has them.
 * @param {string} text
 * @param {string} directory
 * @param {string | undefined} repository
 * @param {{ author?: unknown, funding?: unknown }} [owner] The root's manifest.
 */
export function publishedManifest(text, directory, repository, { author, funding } = readManifest(root)) {
  const { devDependencies: _, scripts: __, ...manifest } = JSON.parse(text);
  const addresses = repository && {
    repository: { type: "git", url: `git+${repository}.git`, directory },
    homepage: `${repository}/tree/main/${directory}#readme`,
    bugs: `${repository}/issues`,
  };
  return `${JSON.stringify({ ...manifest, author, funding, ...addresses }, undefined, 2)}\n`;
}

/**
 * A file as it is published, or undefined where it is not. Source maps are left out: they would be two thirds of a package,
 * and the code that they belong to can be read as it is.
 * @param {import("./tarball.mjs").TarEntry} entry
 * @param {Workspace} one
 * @param {{ repository: string | undefined, from: string }} options
 * @returns {import("./tarball.mjs").TarEntry | undefined}
 */
function publishedFile(entry, { folder, manifest: { name, version } }, { repository, from }) {
  const { path, content } = entry;
  if (path.endsWith(".map")) return undefined;
  const text = content.toString("utf8");
  const as = (/** @type {string} */ changed) => ({ ...entry, content: Buffer.from(changed) });
  if (path === "package.json")
    return as(publishedManifest(text, relative(from, folder).replaceAll("\\", "/"), repository, readManifest(from)));
  if (path.endsWith(".md") && repository !== undefined)
    return as(absoluteLinks(text, join(folder, path), repository, `${name}@${version}`, from));
  if (/\.c?js$/.test(path)) return as(text.replace(/\n\/\/# sourceMappingURL=.*\s*$/, "\n"));
  return entry;
}

/**
 * Packs a package as it is published, and returns the path of its tarball. Equal contents give equal tarballs.
 * @param {Workspace} one
 * @param {string} target
 * @param {NodeJS.ProcessEnv} env
 * @param {{ repository?: string | undefined, from?: string }} [options] `from`: the folder of the repository.
 */
export async function packPackage(one, target, env, { repository = repositoryAddress(), from = root } = {}) {
  const { folder, manifest } = one;
  mkdirSync(target, { recursive: true });
  const own = mkdtempSync(join(tmpdir(), "kit-pack-"));
  try {
    const packed = await capture("pnpm", ["pack", "--pack-destination", own], { cwd: folder, env });
    const name = packed.code === 0 ? readdirSync(own).find((file) => file.endsWith(".tgz")) : undefined;
    if (name === undefined) throw new SetupError(`${manifest.name}: pnpm pack failed: ${packed.output.trim()}`);
    const files = readTarball(readFileSync(join(own, name)));
    const published = files.map((entry) => publishedFile(entry, one, { repository, from }));
    writeFileSync(join(target, name), makeTarball(published.filter((entry) => entry !== undefined)));
    return join(target, name);
  } finally {
    rmSync(own, { recursive: true, force: true });
  }
}

/**
 * `npm run pack -- lock semaphore [--to FOLDER]`: packs the named packages, or all, with the packages of kit that they need.
 * @param {NodeJS.ProcessEnv} env
 * @param {readonly string[]} args
 */
export async function pack(env, args) {
  const { names, folder } = wishes(args);
  const chosen = withNeeds(publicPackages(), names);
  const paths = [];
  for (const one of chosen) paths.push(await packPackage(one, folder, env));
  const needed = chosen.some(({ manifest }) => manifest.peerDependencies?.["ioredis"] !== undefined) ? ["ioredis"] : [];
  process.stdout.write(`In your project:\n  npm install ${[...paths, ...needed].join(" ")}\n`);
  return 0;
}

/** @param {readonly string[]} args */
function wishes(args) {
  /** @type {string[]} */
  const names = [];
  let folder = join(cacheDir, "packages");
  for (let index = 0; index < args.length; index++) {
    const word = args[index] ?? "";
    if (word === "--to") folder = resolve(args[++index] ?? "");
    else names.push(word.startsWith("@kit/") ? word : `@kit/${word}`);
  }
  return { names, folder };
}

/**
 * @param {readonly Workspace[]} all
 * @param {readonly string[]} names
 */
export function withNeeds(all, names) {
  const known = new Map(all.map((one) => [one.manifest.name, one]));
  /** @type {Set<Workspace>} */
  const chosen = new Set();
  const add = (/** @type {string} */ name) => {
    const one = known.get(name);
    if (one === undefined)
      throw new SetupError(`No package is named ${name}. There are:\n  ${[...known.keys()].join("\n  ")}`);
    for (const need of Object.keys(one.manifest.dependencies ?? {})) if (known.has(need)) add(need);
    chosen.add(one);
  };
  for (const name of names.length === 0 ? known.keys() : names) add(name);
  return [...chosen];
}
