import { join } from "node:path";
import { unpublishedPages } from "../checks/pages.mjs";
import { repositoryAddress } from "../pack.mjs";
import { cacheDir, SetupError } from "../repo.mjs";
import { publish } from "./publish.mjs";

/**
 * `npm run release`: publishes what the registry does not have yet, and tags it. A release that was cut off goes on.
 * @param {NodeJS.ProcessEnv} env
 */
export async function release(env) {
  const repository = repositoryAddress();
  if (repository === undefined)
    throw new SetupError(
      "Not to be published yet: `repository` of the root's package.json is empty. It becomes `repository`, `homepage` and\n" +
        "`bugs` of every package, and the links of every README on npm.",
    );
  const pages = unpublishedPages();
  if (pages.length > 0)
    throw new SetupError(`Not to be published yet, since pages say that nothing is on npm:\n${pages.join("\n")}`);
  const outcomes = await publish(env, {
    repository,
    folder: join(cacheDir, "packages"),
    tell: ({ name, version, state, kiB, problem }) => {
      const size = kiB === undefined ? "" : ` (${kiB} KiB)`;
      process.stdout.write(
        `${state.padEnd(11)}  ${name}@${version}${size}\n${problem === undefined ? "" : `${problem}\n`}`,
      );
      // By this line the action of changesets knows what to push, and for what to write a release on GitHub.
      if (state === "published") process.stdout.write(`New tag:  ${name}@${version}\n`);
    },
  });
  const isDone = outcomes.every(({ state }) => state === "published" || state === "was there");
  process.stdout.write(isDone ? "All is published. The tags: git push --tags\n" : "Repeat it to go on.\n");
  return isDone ? 0 : 1;
}
