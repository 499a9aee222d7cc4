import { existsSync, mkdirSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { capture } from "../run.mjs";
import { withNeeds } from "../pack.mjs";

/**
 * Installs one package of ours into an empty folder, from tarballs, with those of ours that it needs. Other packages come
 * from this repository's, which needs no network.
 * @param {string} folder
 * @param {string} name
 * @param {readonly import("../pack.mjs").Workspace[]} packages All that are published.
 * @param {ReadonlyMap<string, string>} tarballs The path of each package's tarball.
 * @param {Record<string, string>} [others] Folders of packages that are taken instead of the repository's.
 */
export async function installAlone(folder, name, packages, tarballs, others = {}) {
  for (const { manifest, folder: source } of withNeeds(packages, [name])) {
    const target = join(folder, "node_modules", manifest.name);
    mkdirSync(target, { recursive: true });
    const unpacked = await capture("tar", [
      "-xzf",
      tarballs.get(manifest.name) ?? "",
      "--strip-components=1",
      "-C",
      target,
    ]);
    if (unpacked.code !== 0) throw new Error(unpacked.output);
    const needs = { ...manifest.dependencies, ...manifest.peerDependencies };
    const theirs = Object.keys(needs).filter((need) => !need.startsWith("@kit/"));
    for (const need of manifest.name === "@kit/testing" ? [...theirs, "vitest"] : theirs) {
      const link = join(folder, "node_modules", need);
      // ioredis is optional, for users of another client; the READMEs have it installed.
      const isOptional = need !== "ioredis" && manifest.peerDependenciesMeta?.[need]?.optional === true;
      if (existsSync(link) || isOptional) continue;
      mkdirSync(dirname(link), { recursive: true });
      symlinkSync(others[need] ?? join(source, "node_modules", need), link);
    }
  }
}
