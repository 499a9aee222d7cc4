import { existsSync, readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { root, SetupError, workspaces } from "./repo.mjs";
import { show } from "./run.mjs";
import { say } from "./steps.mjs";

/**
 * `npm run one -- WORKSPACE [FILE] [NAME ...]`: runs a test file of a workspace, the tests whose name contains a text, or
 * the tests of the file with such a name.
 *
 * @param {NodeJS.ProcessEnv} env
 * @param {readonly string[]} words
 */
export async function one(env, [workspace = "", ...words]) {
  const folders = workspaces().map(({ folder }) => folder);
  const folder = folders.find((path) => basename(path) === workspace.replace(/^@\w+\//, ""));
  if (folder === undefined)
    throw new SetupError(
      `npm run one -- WORKSPACE [FILE] [NAME ...]\nThe workspaces are ${folders.map((path) => basename(path)).join(", ")}.`,
    );
  const args = ["run", ...choice(folder, words)];
  say(`vitest ${args.join(" ")}  (in ${folder.slice(root.length + 1)})\n`);
  const code = await show(join(folder, "node_modules", ".bin", "vitest"), args, { cwd: folder, env });
  say(`All tests of this workspace: npm run one -- ${workspace}. All tests: npm test.\n`);
  return code;
}

/**
 * The arguments for vitest. The first word is a file if there is one of that name.
 * @param {string} folder
 * @param {readonly string[]} words
 */
export function choice(folder, [first = "", ...others]) {
  if (first === "") return [];
  const tests = existsSync(join(folder, "test")) ? readdirSync(join(folder, "test")) : [];
  const name = first.replace(/^test\//, "").replace(/\.test\.ts$/, "");
  const file = [`${name}.test.ts`, `${name}-behaviour.test.ts`].find((path) => tests.includes(path));
  const text = (file === undefined ? [first, ...others] : others).join(" ");
  return [...(file === undefined ? [] : [`test/${file}`]), ...(text === "" ? [] : ["-t", text])];
}
