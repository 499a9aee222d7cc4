import { unpublishedPages } from "../checks/pages.mjs";
import { repositoryAddress } from "../pack.mjs";
import { readManifest, root, SetupError } from "../repo.mjs";
import { capture } from "../run.mjs";
import { keptFolder, publish } from "./publish.mjs";

/**
 * What stands in the way of a publication.
 * @param {NodeJS.ProcessEnv} env
 * @param {string} [from] The folder of the repository.
 */
export async function hindrances(env, from = root) {
  if (repositoryAddress(readManifest(from)) === undefined)
    return [
      "`repository` of the root's package.json is empty. It becomes `repository`, `homepage` and `bugs` of every package, and\n" +
        "the links of every README on npm.",
    ];
  const pages = unpublishedPages(from);
  const status = await capture("git", ["status", "--porcelain"], { cwd: from, env });
  return [
    ...(pages.length > 0 ? [`Pages say that nothing is on npm yet:\n${pages.join("\n")}`] : []),
    ...(status.code !== 0 || status.stdout !== ""
      ? [`Files differ from the commit that would be tagged:\n${status.output.trimEnd()}`]
      : []),
  ];
}

/**
 * `npm run release`: publishes what the registry does not have yet, and tags it. A release that was cut off goes on.
 * @param {NodeJS.ProcessEnv} env
 */
export async function release(env) {
  const found = await hindrances(env);
  const repository = repositoryAddress();
  if (found.length > 0 || repository === undefined)
    throw new SetupError(`Not to be published yet. ${found.join("\n\n")}`);
  const outcomes = await publish(env, {
    repository,
    folder: keptFolder,
    tell: ({ name, version, state, kiB, newTag, problem, advice }) => {
      const size = kiB === undefined ? "" : ` (${kiB} KiB)`;
      process.stdout.write(
        `${[`${state.padEnd(11)}  ${name}@${version}${size}`, problem, advice].filter(Boolean).join("\n")}\n`,
      );
      // By this line the action of changesets knows what to push, and for what to write a release on GitHub.
      if (newTag !== undefined) process.stdout.write(`New tag:  ${newTag}\n`);
    },
  });
  const isDone = outcomes.every(({ state }) => state === "published" || state === "was there");
  process.stdout.write(isDone ? "All is published. The tags: git push --tags\n" : "Repeat it to go on.\n");
  return isDone ? 0 : 1;
}
