import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { absoluteLinks } from "./checks/links.mjs";
import { rewriteTarball } from "./checks/packed.mjs";
import { cacheDir, readManifest, root, SetupError, workspaces } from "./repo.mjs";
import { capture } from "./run.mjs";

/** @typedef {ReturnType<typeof workspaces>[number]} Workspace */

export const publicPackages = () => workspaces().filter(({ manifest }) => manifest.private !== true);

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
 * Returns a manifest for publication, with `repository`, `homepage` and `bugs`.
 * @param {string} text
 * @param {string} directory
 * @param {string} repository
 */
export function publishedManifest(text, directory, repository) {
  const manifest = {
    ...JSON.parse(text),
    repository: { type: "git", url: `git+${repository}.git`, directory },
    homepage: `${repository}/tree/main/${directory}#readme`,
    bugs: `${repository}/issues`,
  };
  return `${JSON.stringify(manifest, undefined, 2)}\n`;
}

/**
 * Packs a package as it is published, and returns the path of its tarball.
 * @param {Workspace} one
 * @param {string} target
 * @param {NodeJS.ProcessEnv} env
 * @param {string | undefined} repository
 */
export async function packPackage({ folder, manifest }, target, env, repository = repositoryAddress()) {
  mkdirSync(target, { recursive: true });
  const own = mkdtempSync(join(tmpdir(), "kit-pack-"));
  try {
    const packed = await capture("pnpm", ["pack", "--pack-destination", own], { cwd: folder, env });
    const name = packed.code === 0 ? readdirSync(own).find((file) => file.endsWith(".tgz")) : undefined;
    if (name === undefined) throw new SetupError(`${manifest.name}: pnpm pack failed: ${packed.output.trim()}`);
    const tarball = join(own, name);
    if (repository !== undefined) {
      const directory = relative(root, folder).replaceAll("\\", "/");
      rewriteTarball(tarball, {
        "package.json": (text) => publishedManifest(text, directory, repository),
        "README.md": (text) => absoluteLinks(text, join(folder, "README.md"), repository),
      });
    }
    // Copied, since the two folders may be on different disks, where a rename fails.
    copyFileSync(tarball, join(target, name));
    return join(target, name);
  } finally {
    rmSync(own, { recursive: true, force: true });
  }
}

/**
 * `npm run pack -- lock semaphore [--to FOLDER] [--release]`: packs the named packages, or all, with the packages of kit
 * that they need.
 * @param {NodeJS.ProcessEnv} env
 * @param {readonly string[]} args
 */
export async function pack(env, args) {
  const { names, folder, isRelease } = wishes(args);
  const repository = repositoryAddress();
  if (isRelease && repository === undefined)
    throw new SetupError(
      "Not to be published yet: `repository` of the root's package.json is empty. It becomes `repository`, `homepage` and\n" +
        "`bugs` of every package, and the links of every README on npm.",
    );
  const chosen = withNeeds(publicPackages(), names);
  const paths = [];
  for (const one of chosen) paths.push(await packPackage(one, folder, env, repository));
  const needed = chosen.some(({ manifest }) => manifest.peerDependencies?.["ioredis"] !== undefined) ? ["ioredis"] : [];
  const next = isRelease
    ? paths.map((path) => `npm publish ${path} --provenance`).join("\n")
    : `In your project:\n  npm install ${[...paths, ...needed].join(" ")}`;
  process.stdout.write(`${next}\n`);
  return 0;
}

/** @param {readonly string[]} args */
function wishes(args) {
  /** @type {string[]} */
  const names = [];
  let folder = join(cacheDir, "packages");
  let isRelease = false;
  for (let index = 0; index < args.length; index++) {
    const word = args[index] ?? "";
    if (word === "--to") folder = resolve(args[++index] ?? "");
    else if (word === "--release") isRelease = true;
    else names.push(word.startsWith("@kit/") ? word : `@kit/${word}`);
  }
  return { names, folder, isRelease };
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
