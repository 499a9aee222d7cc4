import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { withGuards } from "../build/lua.mjs";
import { filesOnNodeRedis } from "./node-redis-files.mjs";
import { tallyReporter } from "./tally-reporter.mjs";

/** Lets tests import `.lua` files as text, as the build does, with their comments and names. */
const luaText = {
  name: "lua-text",
  enforce: "pre",
  load: (id) =>
    id.endsWith(".lua") ? `export default ${JSON.stringify(withGuards(readFileSync(id, "utf8")))}` : undefined,
};

const manifest = join(process.cwd(), "package.json");
const hasOlderIoredis = (file) =>
  existsSync(file) && "ioredis5" in (JSON.parse(readFileSync(file, "utf8")).devDependencies ?? {});

/** The built code of our packages. */
const built = /\/packages\/[^/]+\/dist\//;

/** Files that only the run with ioredis 5 has; the other run has all that end in `.test.ts` otherwise. */
const olderOnly = "**/*.ioredis5.test.ts";

/** Files that only `npm run matrix -- node-redis` runs. */
const nodeRedisOnly = "**/node-redis.test.ts";

/** Two runs in one: with ioredis 6 everything, with ioredis 5 what ends in `.ioredis5.test.ts` and what is named. */
const bothMajors = (include, alsoWithOlder) => {
  const missing = alsoWithOlder.filter((file) => !existsSync(file));
  if (missing.length > 0) throw new Error(`There is no ${missing.join()} to be run with ioredis 5`);
  return [
    { extends: true, test: { name: "ioredis6", include, exclude: [olderOnly, nodeRedisOnly] } },
    {
      extends: true,
      resolve: {
        // One module for whoever imports ioredis: the tests, and the built code of our packages (inlined below, so that the
        // alias reaches their imports too).
        alias: [{ find: /^ioredis$/, replacement: createRequire(manifest).resolve("ioredis5") }],
      },
      // Programs that the tests start read KIT_IOREDIS: the alias does not hold for them.
      test: {
        name: "ioredis5",
        include: [olderOnly, ...alsoWithOlder],
        env: { KIT_IOREDIS: "5" },
        server: { deps: { inline: [/^@kit\//, built] } },
      },
    },
  ];
};

/** A project adds its files to those of the whole. */
const filesOf = (include, alsoWithOlder) => {
  if (process.env["KIT_TEST_CLIENT"] === "node-redis") return { include: filesOnNodeRedis(process.cwd()) };
  if (hasOlderIoredis(manifest)) return { projects: bothMajors(include, alsoWithOlder) };
  return { include, exclude: [nodeRedisOnly] };
};

/**
 * The test settings of every workspace. One `vitest run` does all: where the workspace has `ioredis5` among its development
 * dependencies, a second project runs `*.ioredis5.test.ts`, and the files that `alsoWithOlder` names, with ioredis 5.
 */
export const preset = ({ include = ["test/**/*.test.ts"], ...overrides } = {}, { alsoWithOlder = [] } = {}) =>
  defineConfig({
    plugins: [luaText],
    test: {
      // Node loads what is built: to transform it anew for every file takes longer than many a test.
      server: { deps: { external: [built] } },
      // Generous, since time that is not needed costs nothing: these tests share the machine with others.
      testTimeout: 240_000,
      hookTimeout: 240_000,
      env: { KIT_TESTING_PATIENCE: "4" },
      retry: 0,
      // A worker of its own for each file would spend a quarter of the time starting.
      isolate: false,
      // Most tests wait most of the time.
      maxWorkers: Math.min(5, availableParallelism() + 3),
      expect: { requireAssertions: true, poll: { timeout: 20_000 } },
      reporters: ["default", tallyReporter("result")],
      ...filesOf(include, alsoWithOlder),
      ...overrides,
    },
  });
