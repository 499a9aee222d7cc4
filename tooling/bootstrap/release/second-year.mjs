import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { publicPackages } from "../pack.mjs";
import { install, copiesIn } from "./consumer.mjs";
import { commit } from "./copy.mjs";
import { npm, publish } from "./publish.mjs";
import { version } from "./version.mjs";

/**
 * One release of the rehearsal.
 * @typedef {object} Release
 * @property {string} what
 * @property {Record<string, string>} versions Of the packages that this release published.
 * @property {string[]} tags The git tags that it made.
 * @property {Record<string, Record<string, string>>} offered The dist-tags of `@kit/core` and `@kit/lock`.
 * @property {Record<string, string[]>} update The copies of each package that an ordinary `npm update` leaves a user of 1.0.0.
 */

/**
 * The releases that follow the first: a patch and a minor, a failure in the middle, a major of core, a patch for those who stay
 * on version 1, a prerelease and its end. A user installed version 1.0.0 of these packages, and runs `npm update` after each.
 * @param {object} place
 * @param {string} place.tree A copy of the repository, as a git repository in which version 1.0.0 was published.
 * @param {NodeJS.ProcessEnv} place.env For git and changesets.
 * @param {NodeJS.ProcessEnv} place.userEnv For npm, with the registry of the rehearsal.
 * @param {string} place.folder For tarballs and the user's project.
 * @param {readonly string[]} place.names The packages that are published and installed: `@kit/core`, `@kit/lock` and others.
 * @param {(name: string | undefined) => void} place.refuse From now on the registry refuses this package.
 * @param {string} place.repository
 * @returns {Promise<Release[]>}
 */
export async function rehearseSecondYear({ tree, env, userEnv, folder, names, refuse, repository }) {
  const project = join(folder, "second-year");
  const failed = await install(project, [...names, "ioredis"], userEnv);
  if (failed !== undefined) throw new Error(failed);
  const git = (/** @type {string[]} */ ...args) =>
    execFileSync("git", ["-c", "advice.detachedHead=false", ...args], { cwd: tree, env, stdio: "pipe" });
  const changeset = (/** @type {string[]} */ ...args) =>
    execFileSync("changeset", args, { cwd: tree, env, stdio: "pipe" });

  /** @param {string} what @param {Record<string, string>} changes A bump by package. @returns {Promise<Release>} */
  const release = async (what, changes) => {
    for (const [name, kind] of Object.entries(changes))
      writeFileSync(
        join(tree, ".changeset", `${name.slice(5)}-${kind}.md`),
        `---\n"${name}": ${kind}\n---\n\n${what}\n`,
      );
    await version(env, tree);
    await commit(tree, env, what);
    return publishAll(what);
  };

  /** @param {string} name */
  const tagsOf = async (name) => JSON.parse((await npm(["view", name, "dist-tags", "--json"], userEnv)).stdout);

  /** @param {string} what @returns {Promise<Release>} */
  const publishAll = async (what) => {
    const packages = publicPackages(tree).filter(({ manifest }) => names.includes(manifest.name));
    const outcomes = await publish(userEnv, { from: tree, packages, repository, folder: join(folder, "tarballs") });
    const isNew = (/** @type {import("./publish.mjs").Outcome} */ { state }) => state === "published";
    const [core, lock] = await Promise.all(["@kit/core", "@kit/lock"].map(tagsOf));
    const updated = await npm(["update"], userEnv, project);
    if (updated.code !== 0) throw new Error(updated.output);
    return {
      what,
      versions: Object.fromEntries(outcomes.filter(isNew).map((one) => [one.name, one.version])),
      tags: outcomes.flatMap(({ newTag }) => newTag ?? []),
      offered: { core, lock },
      update: copiesIn(project),
    };
  };

  const releases = [
    await release("a patch of lock and a minor of core", { "@kit/lock": "patch", "@kit/core": "minor" }),
  ];
  git("branch", "v1");
  refuse("@kit/lock");
  releases.push(await release("a major of core, refused in the middle", { "@kit/core": "major" }));
  refuse(undefined);
  releases.push(await publishAll("the same, repeated"));
  git("checkout", "--quiet", "v1");
  releases.push(await release("a patch of core 1", { "@kit/core": "patch" }));
  git("checkout", "--quiet", "main");
  changeset("pre", "enter", "next");
  releases.push(await release("a prerelease of a minor of lock", { "@kit/lock": "minor" }));
  changeset("pre", "exit");
  releases.push(await release("its end", {}));
  return releases;
}
