import { cpSync, existsSync, mkdirSync, readdirSync, symlinkSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { root, SetupError, workspaces } from "../repo.mjs";
import { capture } from "../run.mjs";

/** Not copied: what tests write at the same time. */
const left = new Set([".vite", ".vite-temp", ".cache", ".test"]);

/**
 * Copies the built repository into an empty folder: what git knows, and of each workspace what was built and its
 * dependencies. What other tests write and remove meanwhile is not among it.
 * @param {string} target
 * @param {NodeJS.ProcessEnv} env
 */
export async function copyTree(target, env) {
  const { code, stdout, output } = await capture(
    "git",
    ["ls-files", "-z", "--cached", "--others", "--exclude-standard"],
    {
      cwd: root,
      env,
    },
  );
  if (code !== 0) throw new SetupError(`git does not list the files:\n${output.trim()}`);
  for (const path of stdout.split("\0").filter((file) => file !== "" && existsSync(join(root, file)))) {
    mkdirSync(dirname(join(target, path)), { recursive: true });
    cpSync(join(root, path), join(target, path));
  }
  for (const { folder } of workspaces(target)) {
    const original = join(root, relative(target, folder));
    // The links in `node_modules` lead to the same places from the copy.
    for (const name of ["dist", "node_modules"])
      if (existsSync(join(original, name)))
        cpSync(join(original, name), join(folder, name), {
          recursive: true,
          verbatimSymlinks: true,
          filter: (path) => !left.has(basename(path)),
        });
  }
  symlinkSync(join(root, "node_modules"), join(target, "node_modules"));
}

/**
 * Copies the built repository into an empty folder, as a git repository of one commit, in which a release can be tried.
 * @param {string} target
 * @param {NodeJS.ProcessEnv} env
 */
export async function copyRepository(target, env) {
  await copyTree(target, env);
  await commit(target, env, "as it is");
}

/**
 * Commits all of a copy.
 * @param {string} folder
 * @param {NodeJS.ProcessEnv} env
 * @param {string} message
 */
export async function commit(folder, env, message) {
  const isNew = !readdirSync(folder).includes(".git");
  const settings = [
    "user.name=rehearsal",
    "user.email=rehearsal@localhost",
    "commit.gpgsign=false",
    "tag.gpgsign=false",
  ];
  const git = async (/** @type {string[]} */ ...args) => {
    const { code, output } = await capture("git", args, { cwd: folder, env });
    if (code !== 0) throw new SetupError(`git ${args[0]} failed:\n${output.trim()}`);
  };
  if (isNew) {
    await git("init", "--quiet", "--initial-branch=main");
    for (const setting of settings) await git("config", ...setting.split("="));
  }
  await git("add", "--all");
  await git("commit", "--quiet", "--allow-empty", "--message", message);
}
