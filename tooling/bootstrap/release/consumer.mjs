import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { npm } from "./publish.mjs";

/**
 * The environment of somebody who uses the packages: nothing of the `npm run` that started us, a cache of its own, and the
 * registry of the rehearsal.
 * @param {NodeJS.ProcessEnv} env
 * @param {NodeJS.ProcessEnv} registryEnv
 * @param {string} folder For npm's cache.
 * @returns {NodeJS.ProcessEnv}
 */
export function consumerEnv(env, registryEnv, folder) {
  const own = Object.entries(env).filter(
    ([name]) =>
      !/^npm_(?:config_local_prefix|config_provenance|package_|lifecycle_)/i.test(name) && name !== "INIT_CWD",
  );
  return {
    ...Object.fromEntries(own),
    ...registryEnv,
    npm_config_cache: join(folder, "npm-cache"),
    npm_config_audit: "false",
    npm_config_fund: "false",
    npm_config_update_notifier: "false",
  };
}

/**
 * Makes an empty project and runs `npm install` in it. Returns what went wrong, if something did.
 * @param {string} folder
 * @param {readonly string[]} packages
 * @param {NodeJS.ProcessEnv} env
 */
export async function install(folder, packages, env) {
  mkdirSync(folder, { recursive: true });
  if (!existsSync(join(folder, "package.json"))) writeFileSync(join(folder, "package.json"), '{ "private": true }\n');
  const { code, output } = await npm(["install", ...packages], env, folder);
  return code === 0 ? undefined : output.trim();
}

/**
 * Every copy of every package of ours below a folder, by name: its versions.
 * @param {string} folder
 * @returns {Record<string, string[]>}
 */
export function copiesIn(folder) {
  /** @type {Record<string, string[]>} */
  const copies = {};
  const scope = join(folder, "node_modules", "@kit");
  const ours = existsSync(scope) ? readdirSync(scope).map((name) => join(scope, name)) : [];
  const modules = join(folder, "node_modules");
  const others = existsSync(modules)
    ? readdirSync(modules)
        .filter((name) => !name.startsWith(".") && name !== "@kit")
        .map((name) => join(modules, name))
    : [];
  for (const path of ours) {
    const { name, version } = JSON.parse(readFileSync(join(path, "package.json"), "utf8"));
    (copies[name] ??= []).push(version);
  }
  for (const path of [...ours, ...others])
    for (const [name, versions] of Object.entries(copiesIn(path))) (copies[name] ??= []).push(...versions);
  return copies;
}
