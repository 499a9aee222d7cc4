import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { unpublished } from "../checks/packed.mjs";
import { packPackage, publicPackages } from "../pack.mjs";
import { npmCommand } from "../pnpm.mjs";
import { cacheDir, root, SetupError } from "../repo.mjs";
import { capture } from "../run.mjs";

/** @typedef {import("../pack.mjs").Workspace} Workspace */
/** @typedef {{ name: string, version: string, state: "published" | "was there" | "failed" | "not reached", kiB?: number | undefined, newTag?: string, problem?: string, advice?: string }} Outcome */

/** The tarballs of releases stay here, and the next rehearsal installs them next to the newest packages. */
export const keptFolder = join(cacheDir, "published");

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
  const tag = `${name}@${version}`;
  const { versions: known, tags } = await published(registry, name);
  if (known.has(version) && (await hasTag(tag, from, env))) return { state: "was there" };

  const tarball = await packPackage(one, folder, env, { repository, from });
  const content = readFileSync(tarball);
  const kiB = Math.ceil(content.length / 1024);
  let there = known.get(version);
  if (there === undefined) {
    const flags = ["--access=public", `--tag=${distTagFor(version, [...known.keys()])}`];
    const { code, output } = await npm(["publish", tarball, ...flags], env);
    // After a failure the registry alone decides: the version may have arrived although its reply was lost.
    there = code === 0 ? integrityOf(content) : (await published(registry, name)).versions.get(version);
    if (there === undefined) return { state: "failed", kiB, problem: output.trim() };
  }
  // A tag names the commit that was published, so this commit gets it only if it makes the same package.
  if (there !== integrityOf(content))
    return {
      state: "failed",
      kiB,
      problem: `The registry has another ${tag} than this commit makes. Check out the commit that was published, and repeat it there.`,
    };
  const advice = await moveTags(tag, overtaken(version, tags), env);
  const problem = await addTag(tag, from, env);
  if (problem !== undefined) return { state: "failed", kiB, problem };
  return { state: known.has(version) ? "was there" : "published", kiB, newTag: tag, ...advice };
}

/** @param {Buffer} content */
const integrityOf = (content) => `sha512-${createHash("sha512").update(content).digest("base64")}`;

/**
 * The tag under which npm offers a version: `latest` only for the newest, so that a patch of an older major stays with those
 * who ask for it. npm refuses `v1`, since that is a range.
 * @param {string} version
 * @param {readonly string[]} others The versions that the registry has.
 */
function distTagFor(version, others) {
  const [, prerelease] = /-([a-z]\w*)/i.exec(version) ?? [];
  if (prerelease !== undefined) return prerelease;
  const isNewer = others.some((other) => !other.includes("-") && compareVersions(other, version) > 0);
  return isNewer ? `latest-${Number.parseInt(version, 10)}` : "latest";
}

/**
 * The tags that still name a prerelease of this version, or of an older one. npm moves a tag only when something is published
 * under it.
 * @param {string} version
 * @param {Readonly<Record<string, string>>} tags
 */
function overtaken(version, tags) {
  if (version.includes("-")) return [];
  const isOlder = (/** @type {string} */ other) => compareVersions(other.replace(/-.*/, ""), version) <= 0;
  return Object.entries(tags).flatMap(([tag, named]) =>
    tag !== "latest" && named.includes("-") && isOlder(named) ? [tag] : [],
  );
}

/**
 * Lets tags name this version. The registry refuses that to a trusted publisher, which may only publish: then the maintainer has
 * to move them.
 * @param {string} version Like `@kit/lock@1.1.0`.
 * @param {readonly string[]} tags
 * @param {NodeJS.ProcessEnv} env
 */
async function moveTags(version, tags, env) {
  const refused = [];
  for (const tag of tags) if ((await npm(["dist-tag", "add", version, tag], env)).code !== 0) refused.push(tag);
  if (refused.length === 0) return {};
  const commands = refused.map((tag) => `npm dist-tag add ${version} ${tag}`).join("\n");
  return { advice: `A tag still offers a prerelease. Sign in to npm, and run:\n${commands}` };
}

/** @param {string} a @param {string} b */
const compareVersions = (a, b) => a.localeCompare(b, "en", { numeric: true });

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
 * What the registry has of a package: the integrity of each version's tarball, and the version of each tag.
 * @param {string} registry
 * @param {string} name
 * @returns {Promise<{ versions: Map<string, string>, tags: Record<string, string> }>}
 */
async function published(registry, name) {
  const address = `${registry.replace(/\/$/, "")}/${name.replace("/", "%2f")}`;
  const response = await fetch(address, { headers: { accept: "application/vnd.npm.install-v1+json" } });
  if (response.status === 404) return { versions: new Map(), tags: {} };
  if (!response.ok) throw new SetupError(`${address} does not say which versions it has: status ${response.status}`);
  const { versions = {}, "dist-tags": tags = {} } =
    /** @type {{ versions?: Record<string, { dist: { integrity: string } }>, "dist-tags"?: Record<string, string> }} */ (
      await response.json()
    );
  return { versions: new Map(Object.entries(versions).map(([version, { dist }]) => [version, dist.integrity])), tags };
}

/**
 * @param {string} tag
 * @param {string} cwd
 * @param {NodeJS.ProcessEnv} env
 */
async function hasTag(tag, cwd, env) {
  const { code, stdout } = await capture("git", ["tag", "--list", tag], { cwd, env });
  return code === 0 && stdout.trim() === tag;
}

/**
 * Tags the commit that is checked out, if there is no such tag. Returns what went wrong, if something did.
 * @param {string} tag
 * @param {string} cwd
 * @param {NodeJS.ProcessEnv} env
 * @returns {Promise<string | undefined>}
 */
async function addTag(tag, cwd, env) {
  if (await hasTag(tag, cwd, env)) return undefined;
  const { code, output } = await capture("git", ["tag", "--annotate", tag, "--message", tag], { cwd, env });
  return code === 0 ? undefined : `the tag ${tag} could not be made:\n${output.trim()}`;
}
