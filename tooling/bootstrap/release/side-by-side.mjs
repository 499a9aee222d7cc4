import { copyFileSync, existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { copiesIn, install } from "./consumer.mjs";
import { run } from "./quick-start.mjs";

const names = /** @type {const} */ (["@kit/core", "@kit/lock", "@kit/queue"]);
const program = fileURLToPath(new URL("programs/pair.mjs", import.meta.url));

/** @typedef {{ what: string, copies: Record<string, string[]> }} Side The packages that a process has. */

/**
 * Two versions of one major on one server: processes with the older packages, with the newest, and with the older ones on the
 * newest core, as `npm update` leaves them. Two processes at a time run each other's jobs and hand a lock to each other.
 * @param {object} place
 * @param {Record<string, string>} place.versions The older version of each package, which the registry has.
 * @param {string} place.kept A folder of tarballs. The older packages come from here if it has all of them.
 * @param {string} place.folder For the projects.
 * @param {NodeJS.ProcessEnv} place.env For npm, with the registry of the rehearsal, and with `REDIS_URL`.
 * @returns {Promise<Side[]>}
 */
export async function rehearseSideBySide({ versions, kept, folder, env }) {
  const major = Number.parseInt(versions[names[0]] ?? "", 10);
  const [core = "", ...others] = keptTarballs(kept, major) ?? names.map((name) => `${name}@${versions[name]}`);
  const [newestCore = "", ...newest] = names.map((name) => `${name}@^${major}`);
  const older = await side("the older packages", [core, ...others]);
  const mixed = await side("the older packages on the newest core", [newestCore, ...others]);
  const newer = await side("the newest packages", [newestCore, ...newest]);
  await meet("mixed", mixed, mixed);
  await meet("older-newer", older, newer);
  await meet("older-mixed", older, mixed);
  return [older, mixed, newer].map(({ what, copies }) => ({ what, copies }));

  /** @param {string} what @param {readonly string[]} packages */
  async function side(what, packages) {
    const project = join(folder, what.replaceAll(" ", "-"));
    const failed = await install(project, [...packages, "ioredis"], env);
    if (failed !== undefined) throw new Error(`${what}: ${failed}`);
    copyFileSync(program, join(project, "pair.mjs"));
    const copies = copiesIn(project);
    if (Object.values(copies).some((versionsOf) => versionsOf.length > 1))
      throw new Error(`${what}: more than one copy: ${JSON.stringify(copies)}`);
    return { what, project, copies };
  }

  /** @param {string} name @param {{ what: string, project: string }[]} sides */
  async function meet(name, ...sides) {
    const [one, other] = await Promise.all(
      [0, 1].map(async (index) => {
        const cwd = sides[index]?.project ?? "";
        const args = ["pair.mjs", name, `${index}`, `${1 - index}`];
        const { code, stdout, stderr } = await run(process.execPath, args, { cwd, env });
        if (code !== 0 || stderr !== "") throw new Error(`${sides.map(({ what }) => what).join(" and ")}: ${stderr}`);
        return JSON.parse(stdout);
      }),
    );
    const grants = [one, other].flatMap(({ tokens }, by) =>
      tokens.map((/** @type {string} */ token) => ({ token: BigInt(token), by })),
    );
    grants.sort((a, b) => (a.token < b.token ? -1 : 1));
    const wasHanded = grants.every(
      ({ token, by }, at) => at === 0 || (token !== grants[at - 1]?.token && by !== grants[at - 1]?.by),
    );
    if (!wasHanded || one.reply !== "from 0 by 1" || other.reply !== "from 1 by 0")
      throw new Error(`${sides.map(({ what }) => what).join(" and ")}: ${JSON.stringify([one, other])}`);
  }
}

/**
 * The newest tarballs of a major that a release has kept. Undefined if a package has none.
 * @param {string} folder
 * @param {number} major
 */
function keptTarballs(folder, major) {
  const files = existsSync(folder) ? readdirSync(folder) : [];
  const found = names.map((name) =>
    files
      .filter((file) => file.startsWith(`${name.slice(1).replace("/", "-")}-${major}.`) && /\.\d+\.tgz$/.test(file))
      .sort((a, b) => a.localeCompare(b, "en", { numeric: true }))
      .at(-1),
  );
  return found.includes(undefined) ? undefined : found.map((file) => join(folder, file ?? ""));
}
