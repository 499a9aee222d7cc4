import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, resolve } from "node:path";
import { library } from "@tooling/build";

/** `import text from "./x.css?raw"`, as Vite has it for the tests. */
const rawText = {
  name: "raw-text",
  setup(build) {
    build.onResolve({ filter: /\?raw$/ }, ({ path, resolveDir, importer }) => {
      const file = path.slice(0, -"?raw".length);
      const found = file.startsWith(".")
        ? resolve(resolveDir || dirname(importer), file)
        : createRequire(importer).resolve(file);
      // Without the ending, the loader of style sheets would take it.
      return { path: `${found}?raw`, namespace: "raw-text" };
    });
    build.onLoad({ filter: /.*/, namespace: "raw-text" }, ({ path }) => ({
      contents: readFileSync(path.slice(0, -"?raw".length), "utf8"),
      loader: "text",
    }));
  },
};

// The pages' helper and htmx are carried along; see LICENSE-hono and LICENSE-htmx in the package.
export default library(["view", "queue"]).map((one) => ({
  ...one,
  esbuildPlugins: [...(one.esbuildPlugins ?? []), rawText],
}));
