import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig } from "tsup";
import { namesOfLibraries, shortened, withoutComments } from "./lua.mjs";

const shared = {
  target: "node20",
  platform: "node",
  sourcemap: true,
  splitting: false,
  define: { KIT_VERSION: JSON.stringify(JSON.parse(readFileSync("package.json", "utf8")).version ?? "") },
};

/** The folders with libraries that the scripts of this workspace may join. */
const scriptFolders = () => {
  const packages = fileURLToPath(new URL("../../packages", import.meta.url));
  return ["src", ...readdirSync(packages).map((name) => join(packages, name, "src"))];
};

const luaText = {
  name: "lua-text",
  setup: (build) => {
    const kept = namesOfLibraries(scriptFolders());
    build.onLoad({ filter: /\.lua$/ }, ({ path }) => {
      const lua = readFileSync(path, "utf8");
      if (/\[=*\[/.test(lua))
        throw new Error(`${path} has a text or comment of several lines, whose lines cannot be told apart`);
      return { contents: shortened(withoutComments(lua), kept), loader: "text" };
    });
  },
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

/** The names of the entries that the manifest of the package exports besides the main one. */
const exportedParts = () =>
  Object.keys(JSON.parse(readFileSync("package.json", "utf8")).exports)
    .map((path) => path.slice("./".length))
    .filter((name) => name !== "" && name !== "package.json");

/**
 * A published library: ESM and CommonJS with types for both. Each entry of its manifest, `./x`, is built from
 * `src/x/index.ts`, and so are the parts named here: those that the entries share and nobody else can import.
 *
 * uuid is carried along: reading its score of small files takes longer than loading all of ours, and CommonJS code cannot
 * require it everywhere (Jest). CommonJS loads ioredis lazily by `require`, since Jest refuses `import()` there.
 */
export const library = (sharedParts = []) => {
  const entry = {
    index: "src/index.ts",
    ...Object.fromEntries([...exportedParts(), ...sharedParts].map((part) => [part, `src/${part}/index.ts`])),
  };
  const common = { ...shared, entry, noExternal: ["uuid"] };
  rmSync("dist", { recursive: true, force: true });
  return defineConfig([
    { ...common, format: ["esm"], esbuildPlugins: [luaText, entriesApart(entry, ".js")] },
    {
      ...common,
      format: ["cjs"],
      esbuildPlugins: [luaText, entriesApart(entry, ".cjs")],
      esbuildOptions: (esbuild) => {
        esbuild.supported = { "dynamic-import": false };
      },
    },
    { ...shared, entry, format: ["esm", "cjs"], dts: { only: true, entry: declarations(entry) } },
  ]);
};

/**
 * Writes the types of each file with the native compiler, and returns the files of the entries, for tsup to join. They are only
 * written here; `npm run typecheck` checks them.
 */
const declarations = (entry) => {
  const config = {
    extends: "../tsconfig.json",
    compilerOptions: {
      noEmit: false,
      emitDeclarationOnly: true,
      noCheck: true,
      stripInternal: true,
      rootDir: "../src",
      outDir: ".",
    },
    include: [],
    files: [...Object.values(entry), "../../tooling/tsconfig/lua.d.ts"].map((file) => `../${file}`),
  };
  rmSync(".types", { recursive: true, force: true });
  mkdirSync(".types");
  writeFileSync(".types/tsconfig.json", JSON.stringify(config));
  execFileSync(process.execPath, ["node_modules/typescript7/bin/tsc", "-p", ".types"], { stdio: "inherit" });
  return Object.fromEntries(
    Object.entries(entry).map(([name, file]) => [name, file.replace(/^src/, ".types").replace(/ts$/, "d.ts")]),
  );
};

/** A program of ours: ESM only, no types. */
export const application = (entry) =>
  defineConfig({ ...shared, entry, format: ["esm"], esbuildPlugins: [luaText], clean: true });

/**
 * The entries of a program that its folders are: for each folder in `parent`, `<folder>.<name>` is built from the file
 * that `files` gives for the name. They lie beside the program, so that paths relative to a file hold in all of them.
 */
export const entriesOf = (parent, files) =>
  Object.fromEntries(
    readdirSync(parent, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .flatMap(({ name }) =>
        Object.entries(files).map(([part, file]) => [`${name}.${part}`, `${parent}/${name}/${file}`]),
      ),
  );
