// Before all tests: the programs must be built, the worker processes of the tests are bundled here, and two shops are
// opened for all files.
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { startRedis } from "@kit/testing";
import { build } from "tsup";
import type { TestProject } from "vitest/node";
import { endShops, startShop } from "./program.js";

declare module "vitest" {
  export interface ProvidedContext {
    /** A shop in a Redis of the tests. */
    shared: { origin: string; url: string };
    /** The address of a shop with a Redis of its own, so with races and faults. */
    full: string;
  }
}

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

export default async (project: TestProject): Promise<() => Promise<void>> => {
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
  const server = await startRedis();
  const [shop, full] = await Promise.all([startShop("--redis", server.url), startShop("--no-visitors")]);
  await Promise.all([shop.isComplete(), full.isComplete()]);
  project.provide("shared", { origin: shop.origin, url: server.url });
  project.provide("full", full.origin);
  return async () => {
    await endShops();
    await server.stop();
  };
};
