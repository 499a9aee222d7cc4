import { resolve } from "node:path";
import { defineConfig } from "tsup";

const shared = {
  target: "node20",
  platform: "node",
  sourcemap: true,
  splitting: false,
  loader: { ".lua": "text" },
};

/**
 * Lets one entry of a package load another (`src/config` the main file) instead of carrying a copy of it: what a package
 * keeps in memory is kept once. An entry imports nothing of the others but their `index.js`.
 */
const entriesApart = (entries, extension) => ({
  name: "entries-apart",
  setup: (build) => {
    const built = new Map(Object.entries(entries).map(([name, file]) => [resolve(file.replace(/ts$/, "js")), name]));
    build.onResolve({ filter: /^\..*\/index\.js$/ }, ({ path, resolveDir }) => {
      const entry = built.get(resolve(resolveDir, path));
      return entry === undefined ? undefined : { path: `./${entry}${extension}`, external: true };
    });
  },
});

/**
 * A published library: ESM and CommonJS with types for both. `parts` are the names of its further entries, each a folder
 * in `src` with an index; one that the manifest does not export is what its entries share. uuid is carried along: reading its score of small files takes longer than loading all of ours,
 * and CommonJS code cannot require it everywhere (Jest). CommonJS loads ioredis lazily by `require`, since Jest refuses
 * `import()` there. The types come from one pass of their own: they are the slow part, and the same for both formats.
 */
export const library = (parts = []) => {
  const entry = {
    index: "src/index.ts",
    ...Object.fromEntries(parts.map((part) => [part, `src/${part}/index.ts`])),
  };
  const common = { ...shared, entry, noExternal: ["uuid"] };
  return defineConfig([
    { ...common, format: ["esm"], esbuildPlugins: [entriesApart(entry, ".js")] },
    {
      ...common,
      format: ["cjs"],
      esbuildPlugins: [entriesApart(entry, ".cjs")],
      esbuildOptions: (esbuild) => {
        esbuild.supported = { "dynamic-import": false };
      },
    },
    { ...shared, entry, format: ["esm", "cjs"], dts: { only: true, compilerOptions: { ignoreDeprecations: "6.0" } } },
  ]);
};

/** A program of ours: ESM only, no types. */
export const application = (entry) => defineConfig({ ...shared, entry, format: ["esm"], clean: true });
