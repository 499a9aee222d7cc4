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
 * Lets a part of a package (`src/config`) load the package's main file instead of carrying a copy of it: what core keeps
 * for a client is kept once. A part imports nothing of its package but that.
 */
const mainApart = (extension) => ({
  name: "main-apart",
  setup: (build) => {
    const main = resolve("src/index.js");
    build.onResolve({ filter: /^(\.\.\/)+index\.js$/ }, ({ path, resolveDir }) =>
      resolve(resolveDir, path) === main ? { path: `./index${extension}`, external: true } : undefined,
    );
  },
});

/**
 * A published library: ESM and CommonJS with types for both. `parts` are the names of its further entries, each a folder
 * in `src` with an index. uuid is carried along: reading its score of small files takes longer than loading all of ours,
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
    { ...common, format: ["esm"], esbuildPlugins: [mainApart(".js")] },
    {
      ...common,
      format: ["cjs"],
      esbuildPlugins: [mainApart(".cjs")],
      esbuildOptions: (esbuild) => {
        esbuild.supported = { "dynamic-import": false };
      },
    },
    { ...shared, entry, format: ["esm", "cjs"], dts: { only: true, compilerOptions: { ignoreDeprecations: "6.0" } } },
  ]);
};

/** A program of ours: ESM only, no types. */
export const application = (entry) => defineConfig({ ...shared, entry, format: ["esm"], clean: true });
