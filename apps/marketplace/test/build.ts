// Before all tests: the programs must be built, and the worker processes of the tests are bundled here.
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "tsup";

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

export default async (): Promise<void> => {
  if (!existsSync(here("../dist/main.js"))) throw new Error("The shop is not built: run `pnpm build` first");
  await build({
    entry: { worker: here("worker.ts") },
    outDir: here("../node_modules/.test"),
    format: ["esm"],
    target: "node20",
    platform: "node",
    loader: { ".lua": "text" },
    noExternal: ["@tooling/classic"],
    config: false,
    silent: true,
    clean: true,
  });
};
