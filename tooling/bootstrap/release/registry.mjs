import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { root } from "../repo.mjs";
import { makeTarball } from "../tarball.mjs";

/** @typedef {{ versions: Record<string, Record<string, unknown>>, tags: Record<string, string>, files: Map<string, Buffer> }} Stored */

/**
 * A registry on loopback for rehearsals, in memory. It takes what is published to it. Everything else it serves from the
 * packages that are installed in this repository, so that it needs no network and asks nobody about names of ours.
 * @param {(name: string) => boolean} [isRefused] Whether the publication of a package fails, or the move of a tag: `@kit/lock next`.
 * @returns {Promise<{ env: NodeJS.ProcessEnv, close: () => Promise<void> }>} `env`: for npm.
 */
export async function startRegistry(isRefused = () => false) {
  /** @type {Map<string, Stored>} */
  const packages = new Map();
  /** @param {string} name */
  const find = (name) => {
    const known = packages.get(name) ?? fromInstalled(name);
    if (known !== undefined) packages.set(name, known);
    return known;
  };

  /** @type {(request: import("node:http").IncomingMessage, response: import("node:http").ServerResponse) => Promise<void>} */
  const answer = async (request, response) => {
    const path = pathOf(request.url);
    const [, name = "", file] = /^\/((?:@[^/]+\/)?[^/]+)(?:\/-\/(.+))?$/.exec(path) ?? [];
    const send = (/** @type {number} */ status, /** @type {unknown} */ body) =>
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
    const [, tagged = "", tag] = /^\/-\/package\/(.+)\/dist-tags(?:\/(.+))?$/.exec(path) ?? [];
    const tags = packages.get(tagged)?.tags;
    if (tags !== undefined) {
      if (tag !== undefined && isRefused(`${tagged} ${tag}`))
        return void send(403, { error: "refused, as was asked for" });
      if (tag !== undefined) tags[tag] = JSON.parse(await textOf(request));
      return void send(200, tags);
    }
    if (request.method === "PUT") {
      if (isRefused(name)) return void send(402, { error: "refused, as was asked for" });
      const problem = take(packages, name, JSON.parse(await textOf(request)));
      return void (problem === undefined ? send(201, { ok: true }) : send(403, { error: problem }));
    }
    const known = find(name);
    const tarball = file === undefined ? undefined : known?.files.get(file);
    if (tarball !== undefined) return void response.writeHead(200).end(tarball);
    if (known === undefined || file !== undefined) return void send(404, { error: `There is no ${name} here` });
    const versions = Object.entries(known.versions).map(([version, manifest]) => [
      version,
      { ...manifest, dist: distOf(name, version, known.files.get(`${version}.tgz`) ?? Buffer.alloc(0)) },
    ]);
    send(200, { name, "dist-tags": known.tags, versions: Object.fromEntries(versions) });
  };

  /** @type {(name: string, version: string, tarball: Buffer) => object} */
  const distOf = (name, version, tarball) => ({
    tarball: `${url}${name}/-/${version}.tgz`,
    shasum: createHash("sha1").update(tarball).digest("hex"),
    integrity: `sha512-${createHash("sha512").update(tarball).digest("base64")}`,
  });

  const server = createServer((request, response) => {
    answer(request, response).catch((error) => response.writeHead(500).end(JSON.stringify({ error: String(error) })));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  const url = `http://127.0.0.1:${port}/`;
  return {
    // npm publishes only with a token, whatever it is.
    env: { npm_config_registry: url, [`npm_config_//127.0.0.1:${port}/:_authToken`]: "rehearsal" },
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** @param {string} [url] */
const pathOf = (url) => decodeURIComponent(new URL(url ?? "/", "http://127.0.0.1").pathname);

/** @param {import("node:http").IncomingMessage} request */
async function textOf(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks).toString("utf8");
}

/**
 * Stores what `npm publish` sends. Returns why it is refused, if it is.
 * @param {Map<string, Stored>} packages
 * @param {string} name
 * @param {{ versions: Record<string, Record<string, unknown>>, "dist-tags": Record<string, string>, _attachments: Record<string, { data: string }> }} sent
 */
function take(packages, name, { versions, "dist-tags": tags, _attachments }) {
  /** @type {Stored} */
  const stored = packages.get(name) ?? { versions: {}, tags: {}, files: new Map() };
  const [version, manifest] = Object.entries(versions)[0] ?? ["", {}];
  if (Object.hasOwn(stored.versions, version))
    return `You cannot publish over the previously published versions: ${version}.`;
  stored.versions[version] = manifest;
  stored.files.set(`${version}.tgz`, Buffer.from(Object.values(_attachments)[0]?.data ?? "", "base64"));
  Object.assign(stored.tags, tags);
  packages.set(name, stored);
  return undefined;
}

/**
 * The versions of a package that pnpm has installed here. Packages of ours are linked, not installed.
 * @param {string} name
 * @returns {Stored | undefined}
 */
function fromInstalled(name) {
  const store = join(root, "node_modules", ".pnpm");
  const begin = `${name.replace("/", "+")}@`;
  const folders = readdirSync(store)
    .filter((folder) => folder.startsWith(begin))
    .map((folder) => join(store, folder, "node_modules", name))
    .filter((folder) => existsSync(join(folder, "package.json")));
  if (folders.length === 0) return undefined;
  /** @type {Stored} */
  const stored = { versions: {}, tags: {}, files: new Map() };
  for (const folder of folders) {
    const manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    stored.versions[manifest.version] = manifest;
    stored.files.set(`${manifest.version}.tgz`, makeTarball(filesBelow(folder)));
  }
  const latest =
    Object.keys(stored.versions)
      .sort((a, b) => a.localeCompare(b, "en", { numeric: true }))
      .at(-1) ?? "";
  return { ...stored, tags: { latest } };
}

/** @param {string} folder @returns {import("../tarball.mjs").TarEntry[]} */
const filesBelow = (folder) =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((path) => ({ path: path.replaceAll("\\", "/"), stats: statSync(join(folder, path)) }))
    .filter(({ path, stats }) => stats.isFile() && !path.startsWith("node_modules/"))
    .map(({ path, stats }) => ({
      path,
      content: readFileSync(join(folder, path)),
      isProgram: (stats.mode & 0o111) !== 0,
    }));
