import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { tallyReporter } from "./tally-reporter.mjs";

/** Lets tests import `.lua` files as text, as the build does. */
const luaText = {
  name: "lua-text",
  enforce: "pre",
  load: (id) => (id.endsWith(".lua") ? `export default ${JSON.stringify(readFileSync(id, "utf8"))}` : undefined),
};

const major = process.env.KIT_IOREDIS;

/**
 * One module for whoever imports ioredis: the tests, and the built code of our packages (inlined, so that the alias
 * reaches their imports too).
 */
const olderIoredis = () => [
  { find: /^ioredis$/, replacement: createRequire(join(process.cwd(), "package.json")).resolve("ioredis5") },
];

/** The test settings of every workspace; `KIT_IOREDIS=5` runs them against the older ioredis major. */
export const preset = (overrides = {}) =>
  defineConfig({
    plugins: [luaText],
    resolve: { alias: major === "5" ? olderIoredis() : [] },
    test: {
      include: ["test/**/*.test.ts"],
      // A Cluster runs with the newer major only. Left out, not skipped: a skipped test is one that somebody misses.
      exclude: major === "5" ? ["test/**/*.cluster.test.ts"] : [],
      server: { deps: { inline: [/^@(kit|tooling)\//, /\/packages\/[^/]+\/dist\//] } },
      // Generous, since time that is not needed costs nothing: these tests share the machine with others.
      testTimeout: 60_000,
      hookTimeout: 120_000,
      env: { KIT_TESTING_PATIENCE: "4" },
      retry: 0,
      maxWorkers: 2,
      expect: { requireAssertions: true },
      reporters: ["default", tallyReporter(major === undefined ? "result" : `result-ioredis${major}`)],
      ...overrides,
    },
  });
