import { createRequire } from "node:module";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { root } from "../repo.mjs";

/**
 * What each published package may add to its user's program: its ESM build and its third-party dependencies, bundled,
 * minified and gzipped, without peers and without the other packages of kit. `null`: only used in tests, no budget.
 * @type {Record<string, number | null>}
 */
const budgetsKiB = {
  "@kit/core": 15,
  "@kit/lock": 15,
  "@kit/testing": null,
};

/**
 * @param {readonly { folder: string, manifest: import("../repo.mjs").Manifest }[]} packages
 * @returns {Promise<{ facts: string[], problems: string[] }>}
 */
export async function measureSizes(packages, budgets = budgetsKiB) {
  const facts = [];
  const problems = [];
  for (const { folder, manifest } of packages) {
    const budget = budgets[manifest.name];
    if (budget === undefined) problems.push(`${manifest.name} has no line in the budgets of checks/sizes.mjs`);
    if (budget === undefined || budget === null) continue;
    const size = (await bundledBytes(folder, manifest)) / 1024;
    const fact = `${manifest.name} ${size.toFixed(1)} of ${budget} KiB`;
    facts.push(fact);
    if (size > budget) problems.push(`${fact}: over budget`);
  }
  return { facts, problems };
}

/**
 * @param {string} folder
 * @param {import("../repo.mjs").Manifest} manifest
 */
async function bundledBytes(folder, manifest) {
  // esbuild comes with tsup, which does the builds.
  const fromBuild = createRequire(join(root, "tooling", "build", "package.json"));
  const esbuild = createRequire(fromBuild.resolve("tsup"))("esbuild");
  const peers = Object.keys(manifest.peerDependencies ?? {});
  const { outputFiles } = await esbuild.build({
    entryPoints: [join(folder, "dist", "index.js")],
    bundle: true,
    minify: true,
    write: false,
    format: "esm",
    platform: "node",
    target: "node20",
    external: [...peers, "@kit/*"],
    logLevel: "silent",
  });
  return gzipSync(outputFiles[0].contents).length;
}
