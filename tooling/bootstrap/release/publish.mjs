import { readFileSync } from "node:fs";
import { unpublished } from "../checks/packed.mjs";
import { packPackage, publicPackages } from "../pack.mjs";
import { npmCommand } from "../pnpm.mjs";
import { root, SetupError } from "../repo.mjs";
import { capture } from "../run.mjs";

/** @typedef {import("../pack.mjs").Workspace} Workspace */
/** @typedef {{ name: string, version: string, state: "published" | "was there" | "failed" | "not reached", kiB?: number | undefined, newTag?: string, problem?: string }} Outcome */

/**
 * The packages in the order of their needs: whoever installs one in the middle of a release finds what it asks for.
 * @param {readonly Workspace[]} all
 */
export function inOrderOfNeeds(all) {
  const known = new Map(all.map((one) => [one.manifest.name, one]));
  /** @type {Set<Workspace>} */
  const ordered = new Set();
  const add = (/** @type {Workspace} */ one) => {
    for (const name of Object.keys({ ...one.manifest.dependencies, ...one.manifest.peerDependencies })) {
      const need = known.get(name);
      if (need !== undefined) add(need);
    }
    ordered.add(one);
  };
  for (const one of all) add(one);
  return [...ordered];
}

/**
 * Publishes each version that the registry does not have, and tags it. Stops at the first failure; a repeat goes on there.
 * @param {NodeJS.ProcessEnv} env
 * @param {{ from?: string, packages?: readonly Workspace[], repository: string, folder: string, tell?: (outcome: Outcome) => void }} options
 *   `from`: the folder of the repository. `folder`: for the tarballs.
 * @returns {Promise<Outcome[]>}
 */
export async function publish(env, options) {
  const { from = root, packages = publicPackages(from), tell = () => {} } = options;
  const never = packages.filter(({ manifest: { version = unpublished } }) => version === unpublished);
  if (never.length > 0)
    throw new SetupError(
      `These have no version yet: ${never.map(({ manifest }) => manifest.name).join(", ")}. First: npm run version`,
    );
  const registry = (await npm(["config", "get", "registry"], env)).stdout.trim();
  /** @type {Outcome[]} */
  const outcomes = [];
  for (const one of inOrderOfNeeds(packages)) {
    const { name, version = unpublished } = one.manifest;
    const hasFailed = outcomes.some(({ state }) => state === "failed");
    const outcome = { name, version, ...(hasFailed ? notReached : await publishOne(one, registry, env, options)) };
    outcomes.push(outcome);
    tell(outcome);
  }
  return outcomes;
}

const notReached = /** @type {const} */ ({ state: "not reached" });

/**
 * @param {Workspace} one
 * @param {string} registry
 * @param {NodeJS.ProcessEnv} env
 * @param {{ from?: string, repository: string, folder: string }} options
 * @returns {Promise<Omit<Outcome, "name" | "version">>}
 */
async function publishOne(one, registry, env, { from = root, repository, folder }) {
  const { name, version = unpublished } = one.manifest;
  const isKnown = await isThere(registry, name, version);
  let kiB;
  if (!isKnown) {
    const tarball = await packPackage(one, folder, env, { repository, from });
    kiB = Math.ceil(readFileSync(tarball).length / 1024);
    const { code, output } = await npm(["publish", tarball, "--access=public"], env);
    // The registry may show a new version late. Then it says that the version is there when it is sent again.
    if (code !== 0 && !/previously published/.test(output)) return { state: "failed", kiB, problem: output.trim() };
  }
  const tag = await ensureTag(`${name}@${version}`, from, env);
  if ("problem" in tag) return { state: "failed", kiB, ...tag };
  return isKnown ? { state: "was there", ...tag } : { state: "published", kiB, ...tag };
}

/**
 * @param {readonly string[]} args
 * @param {NodeJS.ProcessEnv} env
 * @param {string} [cwd]
 */
export async function npm(args, env, cwd = root) {
  const [command, ...first] = npmCommand(env);
  return capture(command, [...first, "--loglevel=error", ...args], { cwd, env });
}

/**
 * Whether the registry has a version of a package.
 * @param {string} registry
 * @param {string} name
 * @param {string} version
 */
async function isThere(registry, name, version) {
  const address = `${registry.replace(/\/$/, "")}/${name.replace("/", "%2f")}`;
  const response = await fetch(address, { headers: { accept: "application/vnd.npm.install-v1+json" } });
  if (response.status === 404) return false;
  if (!response.ok) throw new SetupError(`${address} does not say which versions it has: status ${response.status}`);
  const { versions = {} } = /** @type {{ versions?: object }} */ (await response.json());
  return Object.hasOwn(versions, version);
}

/**
 * Tags the commit that is checked out, if there is no such tag.
 * @param {string} tag
 * @param {string} cwd
 * @param {NodeJS.ProcessEnv} env
 * @returns {Promise<{ newTag: string } | { problem: string } | {}>}
 */
async function ensureTag(tag, cwd, env) {
  const known = await capture("git", ["tag", "--list", tag], { cwd, env });
  if (known.code === 0 && known.stdout.trim() === tag) return {};
  const { code, output } = await capture("git", ["tag", "--annotate", tag, "--message", tag], { cwd, env });
  return code === 0 ? { newTag: tag } : { problem: `git could not set the tag ${tag}: ${output.trim()}` };
}
