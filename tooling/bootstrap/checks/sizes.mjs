import { createRequire } from "node:module";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { root } from "../repo.mjs";

/**
 * What each published package may add to its user's program, by each of its entries: its ESM build and its third-party
 * dependencies, bundled, minified and gzipped, without peers, without the other packages of kit, and without the doors
 * (`.` and `./toolkit`) where another entry is measured. `null`: only used in tests or as a program, no budget.
 * @type {Record<string, number | null>}
 */
const budgetsKiB = {
  "@kit/cli": null,
  "@kit/core": 15,
  "@kit/core/batching": 15,
  "@kit/core/config": 15,
  "@kit/core/durable": 15,
  "@kit/core/leasing": 15,
  "@kit/core/otel": 15,
  "@kit/core/toolkit": 15,
  "@kit/lock": 15,
  "@kit/semaphore": 15,
  "@kit/testing": null,
};

/**
 * @param {readonly { folder: string, manifest: import("../repo.mjs").Manifest }[]} packages
 * @returns {Promise<{ facts: string[], problems: string[] }>}
 */
export async function measureSizes(packages, budgets = budgetsKiB) {
  const facts = [];
  const problems = [];
  for (const { folder, manifest } of packages)
    for (const [name, file] of entriesOf(manifest)) {
      const budget = budgets[name];
      if (budget === undefined) problems.push(`${name} has no line in the budgets of checks/sizes.mjs`);
      if (budget === undefined || budget === null) continue;
      const size = (await bundledBytes(folder, file, manifest)) / 1024;
      const fact = `${name} ${size.toFixed(1)} of ${budget} KiB`;
      facts.push(fact);
      if (size > budget) problems.push(`${fact}: over budget`);
    }
  return { facts, problems };
}

/**
 * What can be imported, and the file it leads to; of a program only its name.
 * @param {import("../repo.mjs").Manifest} manifest
 * @returns {[name: string, file: string][]}
 */
function entriesOf({ name, exports = {} }) {
  const paths = Object.keys(exports).filter((path) => path !== "./package.json");
  if (paths.length === 0) return [[name, ""]];
  return paths.map((path) => [name + path.slice(1), `${path === "." ? "index" : path.slice(2)}.js`]);
}

/**
 * @param {string} folder
 * @param {string} file
 * @param {import("../repo.mjs").Manifest} manifest
 */
async function bundledBytes(folder, file, manifest) {
  // esbuild comes with tsup, which does the builds.
  const fromBuild = createRequire(join(root, "tooling", "build", "package.json"));
  const esbuild = createRequire(fromBuild.resolve("tsup"))("esbuild");
  // The two doors carry what all entries share.
  const isDoor = file === "index.js" || file === "toolkit.js";
  const peers = Object.keys(manifest.peerDependencies ?? {});
  const { outputFiles } = await esbuild.build({
    entryPoints: [join(folder, "dist", file)],
    bundle: true,
    minify: true,
    write: false,
    format: "esm",
    platform: "node",
    target: "node20",
    external: [...peers, "@kit/*", ...(isDoor ? [] : ["./index.js", "./kernel.js", "./toolkit.js"])],
    logLevel: "silent",
  });
  return gzipSync(outputFiles[0].contents).length;
}
