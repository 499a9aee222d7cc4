import { cpSync, existsSync, mkdirSync, readdirSync, symlinkSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { publicPackages } from "../pack.mjs";
import { root, SetupError } from "../repo.mjs";
import { capture } from "../run.mjs";

/** Not copied: what tests write at the same time. */
const left = new Set([".vite", ".vite-temp", ".cache", ".test"]);

/**
 * Copies the built repository into an empty folder, as a git repository of one commit, in which a release can be tried.
 * @param {string} target
 * @param {NodeJS.ProcessEnv} env
 */
export async function copyRepository(target, env) {
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
  for (const { folder } of publicPackages(target)) {
    const original = join(root, "packages", basename(folder));
    cpSync(join(original, "dist"), join(folder, "dist"), { recursive: true });
    // The links in it lead to the same places from the copy.
    cpSync(join(original, "node_modules"), join(folder, "node_modules"), {
      recursive: true,
      verbatimSymlinks: true,
      filter: (path) => !left.has(basename(path)),
    });
  }
  symlinkSync(join(root, "node_modules"), join(target, "node_modules"));
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
