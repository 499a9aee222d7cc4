import { defineConfig } from "tsup";

const shared = {
  entry: ["src/index.ts"],
  target: "node20",
  platform: "node",
  sourcemap: true,
  splitting: false,
  loader: { ".lua": "text" },
};

/**
 * A published library: ESM and CommonJS with types for both. uuid is carried along: reading its score of small files takes
 * longer than loading all of ours, and CommonJS code cannot require it everywhere (Jest). CommonJS loads ioredis lazily by
 * `require`, since Jest refuses `import()` there. The types come from one pass of their own: they are the slow part, and
 * the same for both formats.
 */
export const library = () =>
  defineConfig([
    { ...shared, format: ["esm"], noExternal: ["uuid"] },
    {
      ...shared,
      format: ["cjs"],
      noExternal: ["uuid"],
      esbuildOptions: (esbuild) => {
        esbuild.supported = { "dynamic-import": false };
      },
    },
    { ...shared, format: ["esm", "cjs"], dts: { only: true, compilerOptions: { ignoreDeprecations: "6.0" } } },
  ]);

/** A program of ours: ESM only, no types. */
export const application = (entry) => defineConfig({ ...shared, entry, format: ["esm"], clean: true });
