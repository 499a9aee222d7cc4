import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

/**
 * Error classes whose `brand` is missing or differs from their name. Without it `instanceof` fails between the ESM and the
 * CommonJS build of a package.
 * @param {readonly { folder: string, manifest: import("../repo.mjs").Manifest }[]} packages
 * @returns {Promise<string[]>}
 */
export async function unbrandedErrors(packages) {
  const problems = [];
  for (const { folder, manifest } of packages) {
    const require = createRequire(join(folder, "package.json"));
    for (const path of Object.keys(manifest.exports ?? {}).filter((entry) => entry !== "./package.json")) {
      const file = join(folder, "dist", path === "." ? "index" : path.slice(2));
      for (const entry of [await import(pathToFileURL(`${file}.js`).href), require(`${file}.cjs`)])
        for (const [name, value] of Object.entries(entry))
          if (isErrorClass(value) && (!Object.hasOwn(value, "brand") || value["brand"] !== name))
            problems.push(
              `${manifest.name}${path.slice(1)}: ${name} has no \`static override readonly brand = "${name}"\``,
            );
    }
  }
  return [...new Set(problems)];
}

/** @param {unknown} value */
const isErrorClass = (value) => typeof value === "function" && value.prototype instanceof Error;
