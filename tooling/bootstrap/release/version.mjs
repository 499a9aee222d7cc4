import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { unpublished } from "../checks/packed.mjs";
import { publicPackages } from "../pack.mjs";
import { root, SetupError } from "../repo.mjs";
import { capture } from "../run.mjs";

/**
 * `npm run version`: turns the files of `.changeset` into versions and changelogs. Prints the packages that got a new version.
 * @param {NodeJS.ProcessEnv} env
 * @param {string} [from] The folder of the repository.
 * @returns {Promise<{ name: string, version: string }[]>}
 */
export async function version(env, from = root) {
  const before = new Map(publicPackages(from).map(({ manifest }) => [manifest.name, manifest.version]));
  const { code, output } = await capture("changeset", ["version"], { cwd: from, env });
  if (code !== 0) throw new SetupError(`changeset version failed:\n${output.trim()}`);
  const today = new Date().toISOString().slice(0, 10);
  const changed = publicPackages(from).filter(({ manifest }) => before.get(manifest.name) !== manifest.version);
  for (const { folder } of changed) writeDate(join(folder, "CHANGELOG.md"), today);
  return changed.map(({ manifest: { name, version: now = unpublished } }) => ({ name, version: now }));
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
