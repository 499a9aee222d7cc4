// A hook of Node's module loader: our packages are resolved as the benchmarks of another checkout have them.
import type { InitializeHook, ResolveHook } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

let importer: string | undefined;

export const initialize: InitializeHook<string> = (checkout) => {
  importer = pathToFileURL(join(checkout, "tooling/bench/package.json")).href;
};

export const resolve: ResolveHook = (specifier, context, next) =>
  next(specifier, specifier.startsWith("@kit/") ? { ...context, parentURL: importer } : context);
