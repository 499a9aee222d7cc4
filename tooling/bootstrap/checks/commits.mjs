import { root } from "../repo.mjs";
import { capture } from "../run.mjs";

const longestSubject = 72;
/** An older fault can no longer be mended. */
const latest = 50;
/** Commits before the one that added this file did not know the rule. */
const rule = "tooling/bootstrap/checks/commits.mjs";

/**
 * The commits whose subject is too long, or that have no body to say why. Merges need none.
 * @param {NodeJS.ProcessEnv} env
 * @param {string} [folder]
 */
export async function commitProblems(env, folder = root) {
  const log = async (/** @type {string[]} */ ...args) =>
    (await capture("git", ["log", ...args], { cwd: folder, env })).stdout.trim();
  const first = await log("--diff-filter=A", "--max-count=1", "--format=%H", "--", rule);
  if (first === "") return { checked: 0, problems: [] }; // not a clone
  const text = await log("--no-merges", `--max-count=${latest}`, "--format=%h%x00%s%x00%b%x01", `${first}..HEAD`);
  const commits = text === "" ? [] : text.split("\x01").slice(0, -1);
  const problems = commits.flatMap((commit) => {
    const [hash, subject = "", body = ""] = commit.trim().split("\0");
    return [
      ...(subject.length > longestSubject
        ? [`${hash}: the subject has ${subject.length} characters, at most ${longestSubject}: ${subject}`]
        : []),
      ...(body.trim() === "" ? [`${hash}: no body says why: ${subject}`] : []),
    ];
  });
  return { checked: commits.length, problems };
}
