import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { unpublished } from "../checks/packed.mjs";
import { removePreviews } from "../checks/pages.mjs";
import { publicPackages } from "../pack.mjs";
import { root, SetupError } from "../repo.mjs";
import { capture } from "../run.mjs";

/** @typedef {import("../pack.mjs").Workspace} Workspace */

/**
 * `npm run version`: turns the files of `.changeset` into versions and changelogs. Prints the packages that got a new version.
 *
 * Two rules are ours. A major of a package makes each package that depends on it major: otherwise a patch of `@kit/lock` would
 * bring a second copy of `@kit/core` to a user who stays on version 1 of the other packages. And the versions of the packages
 * that the command line can load never decide its own version: its ranges follow them.
 * @param {NodeJS.ProcessEnv} env
 * @param {string} [from] The folder of the repository.
 * @returns {Promise<{ name: string, version: string }[]>}
 */
export async function version(env, from = root) {
  const packages = publicPackages(from);
  const before = new Map(packages.map(({ manifest }) => [manifest.name, manifest.version]));
  addFollowingMajors(packages, from);
  const peers = takePeersOut(packages);
  try {
    const { code, output } = await capture("changeset", ["version"], { cwd: from, env });
    if (code !== 0) throw new SetupError(`changeset version failed:\n${output.trim()}`);
  } finally {
    putPeersBack(peers, publicPackages(from));
  }
  const today = new Date().toISOString().slice(0, 10);
  const changed = publicPackages(from).filter(({ manifest }) => before.get(manifest.name) !== manifest.version);
  for (const { folder } of changed) writeDate(join(folder, "CHANGELOG.md"), today);
  if ([...before.values()].every((former) => former === unpublished)) removePreviews(from);
  return changed.map(({ manifest: { name, version: now = unpublished } }) => ({ name, version: now }));
}

/**
 * The packages that the files of `.changeset` make major. The first version of a package, 1.0.0, is not counted.
 * @param {readonly Workspace[]} packages
 * @param {string} from
 */
function majors(packages, from) {
  const folder = join(from, ".changeset");
  const heads = readdirSync(folder)
    .filter((name) => name.endsWith(".md"))
    .map((name) => /^---\n([^]*?)\n---/.exec(readFileSync(join(folder, name), "utf8"))?.[1] ?? "");
  const named = new Set(
    heads.flatMap((head) => [...head.matchAll(/^["']?([^"':]+)["']?: *major *$/gm)].map(([, name = ""]) => name)),
  );
  // A prerelease keeps its files, so those of the first version are there again.
  const isFirst = (/** @type {{ version?: string }} */ { version: now = "" }) => now.startsWith("1.0.0-");
  return packages.filter(({ manifest }) => named.has(manifest.name) && !isUnpublished(manifest) && !isFirst(manifest));
}

/** @param {{ version?: string }} manifest */
const isUnpublished = ({ version: now = unpublished }) => now.startsWith("0.");

/** The next major of a version; of a prerelease of a major, that major. @param {string} [now] */
const nextMajor = (now = unpublished) =>
  /^\d+\.0\.0-/.test(now) ? Number.parseInt(now, 10) : Number.parseInt(now, 10) + 1;

/**
 * Writes a changeset for the packages that need one with a new major, and one for those whose ranges follow.
 * @param {readonly Workspace[]} packages
 * @param {string} from
 */
function addFollowingMajors(packages, from) {
  const given = majors(packages, from);
  const all = new Set(given);
  // A set shows what is added to it while it is walked: a major of `@kit/core` makes `@kit/lock` major, which the command line loads.
  for (const one of all) {
    const { name, version: now } = one.manifest;
    const needing = packages.filter(({ manifest }) => name in (manifest.dependencies ?? {}));
    const loading = packages.filter(({ manifest }) => name in (manifest.peerDependencies ?? {}));
    const followers = needing.filter((follower) => !given.includes(follower));
    writeChangeset(from, `needs-${name}`, followers, "major", `Needs \`${name}\` ${nextMajor(now)}.`);
    writeChangeset(from, `loads-${name}`, loading, "minor", `Also works with \`${name}\` ${nextMajor(now)}.`);
    for (const follower of followers) all.add(follower);
  }
}

/**
 * @param {string} from
 * @param {string} title
 * @param {readonly Workspace[]} packages
 * @param {"major" | "minor"} kind
 * @param {string} text
 */
function writeChangeset(from, title, packages, kind, text) {
  const file = join(from, ".changeset", `${title.replace(/\W+/g, "-")}.md`);
  // A prerelease keeps the file until it ends.
  if (packages.length === 0 || existsSync(file)) return;
  const head = packages.map(({ manifest }) => `"${manifest.name}": ${kind}`).join("\n");
  writeFileSync(file, `---\n${head}\n---\n\n${text}\n`);
}

/**
 * Takes the ranges for packages of ours out of `peerDependencies`: changesets would make each package that has one major
 * with every prerelease.
 * @param {readonly Workspace[]} packages
 */
function takePeersOut(packages) {
  const names = packages.map(({ manifest }) => manifest.name);
  return packages.flatMap(({ folder, manifest }) => {
    const { peerDependencies = {} } = manifest;
    const ours = Object.keys(peerDependencies).filter((name) => names.includes(name));
    if (ours.length === 0) return [];
    editManifest(folder, (edited) => {
      const others = Object.entries(peerDependencies).filter(([name]) => !ours.includes(name));
      edited["peerDependencies"] = Object.fromEntries(others);
    });
    return [{ folder, peerDependencies }];
  });
}

/**
 * Puts the ranges back: up to the next major of each package, and with its prerelease while it has one.
 * @param {ReturnType<typeof takePeersOut>} taken
 * @param {readonly Workspace[]} packages
 */
function putPeersBack(taken, packages) {
  const versions = new Map(packages.map(({ manifest }) => [manifest.name, manifest.version]));
  for (const { folder, peerDependencies } of taken)
    editManifest(folder, (edited) => {
      edited["peerDependencies"] = Object.fromEntries(
        Object.entries(peerDependencies).map(([name, range]) => [name, rangeFor(range, versions.get(name))]),
      );
    });
}

/** @param {string} range @param {string} [now] */
function rangeFor(range, now) {
  if (now === undefined || isUnpublished({ version: now })) return range;
  const below = range.replace(/ \|\|.*$/, "").replace(/<\d+$/, `<${Number.parseInt(now, 10) + 1}`);
  return now.includes("-") ? `${below} || ^${now}` : below;
}

/**
 * @param {string} folder
 * @param {(manifest: Record<string, unknown>) => void} edit
 */
function editManifest(folder, edit) {
  const file = join(folder, "package.json");
  const manifest = JSON.parse(readFileSync(file, "utf8"));
  edit(manifest);
  writeFileSync(file, `${JSON.stringify(manifest, undefined, 2)}\n`);
}

/**
 * Writes the date below the heading of the newest version. The heading itself stays the version alone, by which other tools
 * find it.
 * @param {string} file
 * @param {string} date
 */
function writeDate(file, date) {
  if (!existsSync(file)) return;
  writeFileSync(file, readFileSync(file, "utf8").replace(/^(## .*\n)\n(?!_\d)/m, `$1\n_${date}_\n\n`));
}
