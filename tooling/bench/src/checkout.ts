// A hook of Node's module loader. A module whose address names a checkout gets our packages as the benchmarks of that
// checkout have them. What it imports from beside it is loaded again, with the same name in its address.
import type { ResolveHook } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

export const resolve: ResolveHook = async (specifier, context, next) => {
  const query = context.parentURL === undefined ? "" : new URL(context.parentURL).search;
  const checkout = new URLSearchParams(query).get("checkout");
  if (checkout === null) return await next(specifier, context);
  if (specifier.startsWith("@kit/"))
    return await next(specifier, {
      ...context,
      parentURL: pathToFileURL(join(checkout, "tooling/bench/package.json")).href,
    });
  const resolved = await next(specifier, context);
  return specifier.startsWith(".") ? { ...resolved, url: `${resolved.url}${query}` } : resolved;
};
