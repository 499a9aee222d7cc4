import { existsSync } from "node:fs";
import { join } from "node:path";
import { unpackForeign } from "../debian.mjs";
import { inspect } from "../redis.mjs";
import { cacheDir, SetupError } from "../repo.mjs";
import { capture } from "../run.mjs";
import { alone, step } from "../steps.mjs";

const keyrings = ["pgp", "gpg"].map((kind) => `/usr/share/keyrings/debian-archive-keyring.${kind}`);
const publicMirror = "http://deb.debian.org/debian";

/** A server cannot be had here, whatever this repository does. */
export class Unavailable extends SetupError {}

/**
 * The server of a column: from the cache, else fetched. The cache keeps it until the folder is removed.
 * @param {import("./columns.mjs").ServerColumn} column
 * @param {NodeJS.ProcessEnv} env
 * @param {string} [cache]
 * @throws {Unavailable} it could not be fetched, or is another by now.
 * @returns {Promise<import("../redis.mjs").Server>}
 */
export async function serverOf({ name, product, suites }, env, cache = cacheDir) {
  const target = join(cache, "matrix", name);
  const bin = join(target, "bin", "redis-server");
  await alone(async () => {
    if (existsSync(bin)) return;
    const keyring = keyrings.find((file) => existsSync(file));
    if (keyring === undefined)
      throw new Unavailable(`${name}: there is no ${keyrings.join(" and no ")}; install debian-archive-keyring.`);
    const failure = await step(
      `${name} from Debian`,
      async () => unpackForeign(env, target, product, { mirror: await mirrorOf(env), keyring, suites }),
      (why) => why ?? "done",
    );
    if (failure !== undefined) throw new Unavailable(`${name}: ${failure}`);
  }, cache);
  const server = await inspect(bin, env);
  if (!("bin" in server)) throw new Unavailable(`${name}: ${server.why}. Remove ${target} to fetch it anew.`);
  // The suites move on. A name that no longer fits would make a report say something else than what was run.
  if (!`${server.product}-${server.version}.`.startsWith(`${name}.`))
    throw new Unavailable(`${suites[0]} has ${server.product} ${server.version} by now: rename the column ${name}.`);
  return server;
}

/** The mirror of Debian that this machine uses, or the public one. @param {NodeJS.ProcessEnv} env */
async function mirrorOf(env) {
  const { stdout } = await capture("apt-get", ["indextargets", "--format", "$(REPO_URI)"], { env });
  return stdout.split("\n").find((address) => /\/debian\/?$/.test(address)) ?? publicMirror;
}
