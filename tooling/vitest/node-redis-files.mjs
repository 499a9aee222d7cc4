import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/**
 * The test files of a workspace with a suite that `npm run matrix -- node-redis` runs. The matrix loads this module before
 * packages are installed.
 *
 * @param {string} folder
 */
export const filesOnNodeRedis = (folder) => {
  const tests = join(folder, "test");
  const names = existsSync(tests) ? readdirSync(tests).filter((name) => name.endsWith(".test.ts")) : [];
  return names
    .filter((name) => readFileSync(join(tests, name), "utf8").includes("onNodeRedis("))
    .map((name) => `test/${name}`);
};
