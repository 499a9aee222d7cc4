import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

/**
 * What a README shows first: a program in plain JavaScript, or the commands of a command line.
 * @typedef {{ file: string, text: string, said: string[] }} QuickStart
 */

/**
 * The first program of a README, the lines that it prints by its comments, and the file to save it as.
 * @param {string} readme
 * @returns {QuickStart | undefined}
 */
export function quickStart(readme) {
  const [, text] = /^```js\n(.*?)^```$/ms.exec(readme) ?? [];
  if (text === undefined) return undefined;
  const said = [...text.matchAll(/\/\/ (?:prints|for example): (.*)$/gm)].map(([, line = ""]) => line);
  return { file: /from "vitest"/.test(text) ? "first.test.mjs" : "first.mjs", text, said };
}

/** Numbers that differ from run to run, such as versions and times, are compared as numbers only. @param {string} line */
const shape = (line) => line.replace(/\d+(?:\.\d+)+/g, "0.0");

/** Whether a program printed the lines of its comments. @param {readonly string[]} said @param {string} stdout */
export const isAsSaid = (said, stdout) => said.map(shape).join("\n") === shape(stdout.trim());

/**
 * Runs a README's first program in a folder where its packages are installed, as plain JavaScript.
 * @param {string} folder
 * @param {string} readme
 * @param {NodeJS.ProcessEnv} env With `REDIS_URL`.
 * @param {readonly [string, ...string[]]} [runtime] A program other than this Node, and its first arguments.
 * @returns {Promise<string | undefined>} What differs from the README, or undefined.
 */
export async function runQuickStart(folder, readme, env, [program, ...first] = [process.execPath]) {
  const start = quickStart(readme);
  if (start === undefined) return "the README has no program in plain JavaScript";
  writeFileSync(join(folder, start.file), start.text);
  const isTest = start.file.includes(".test.");
  const args = isTest ? ["node_modules/vitest/vitest.mjs", "run", "--root=."] : [start.file];
  // A Vitest that runs this sets FORCE_COLOR, and Node warns about both.
  const plain = { ...env, FORCE_COLOR: undefined, NO_COLOR: "1" };
  const { stdout, stderr, code } = await run(program, [...first, ...args], { cwd: folder, env: plain });
  if (isTest) return code === 0 && /^ +Tests +1 passed/m.test(stdout) ? undefined : stdout + stderr;
  if (start.said.length === 0) return "the program of the README does not say what it prints";
  if (isAsSaid(start.said, stdout) && code === 0 && stderr === "") return undefined;
  return `the README says\n${start.said.join("\n")}\nand the program, which ended with ${code}, printed\n${stdout}${stderr}`;
}

/**
 * @param {string} command
 * @param {readonly string[]} args
 * @param {{ cwd: string, env: NodeJS.ProcessEnv }} options
 * @returns {Promise<{ stdout: string, stderr: string, code: number }>}
 */
export const run = (command, args, options) =>
  new Promise((resolve) => {
    execFile(command, args, { ...options, timeout: 120_000 }, (error, stdout, stderr) =>
      resolve({ stdout, stderr, code: typeof error?.code === "number" ? error.code : error ? -1 : 0 }),
    );
  });
