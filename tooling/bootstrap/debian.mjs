import { chmodSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { findProgram, pathFolders } from "./repo.mjs";
import { capture } from "./run.mjs";

/**
 * Fetches a Redis (or Valkey) server as Debian packages and unpacks it into a folder of ours. Nothing is installed: no
 * root is needed, no service starts, and the system stays as it is. apt checks signatures and checksums.
 *
 * @typedef {{ mirror: string, keyring: string, suites: readonly string[] }} Source Suites of Debian. The server comes from
 *   the first one, and so do libraries that none of the others has.
 */
const candidates = [
  { server: "redis-server", tools: "redis-tools", prefix: "redis" },
  { server: "valkey-server", tools: "valkey-tools", prefix: "valkey" },
];
const systemLists = "/var/lib/apt/lists";

/**
 * @param {NodeJS.ProcessEnv} env
 * @param {string} target The folder to create, with `bin/redis-server` and `bin/redis-cli`.
 * @returns {Promise<string | undefined>} Why it failed, if it did.
 */
export function unpackRedis(env, target) {
  return unpackWith(env, target, undefined, unpack);
}

/**
 * Fetches a server of another release of Debian than this machine's, with all its libraries, the C library among them.
 * @param {NodeJS.ProcessEnv} env
 * @param {string} target The folder to create, with `bin/redis-server` and `bin/redis-cli`, which may be Valkey's.
 * @param {"redis" | "valkey"} product
 * @param {Source} source
 * @returns {Promise<string | undefined>} Why it failed, if it did.
 */
export function unpackForeign(env, target, product, source) {
  return unpackWith(env, target, source, async (apt) => {
    const update = await apt.useLists(join(apt.folder, "lists"));
    if (update !== undefined && update.code !== 0) return `apt-get update failed: ${lastLines(update.output)}`;
    const choice = candidates.find(({ prefix }) => prefix === product);
    if (choice === undefined || (await apt.candidateOf(choice.server)) === undefined)
      return `${source.suites[0]} has no ${product}-server`;
    return (await apt.fetch(choice)) ?? writeWrappers(apt.work, choice.prefix, { withLoader: true });
  });
}

/**
 * @param {NodeJS.ProcessEnv} env
 * @param {string} target
 * @param {Source | undefined} source
 * @param {(apt: Apt) => Promise<string | undefined>} unpackInto
 */
async function unpackWith(env, target, source, unpackInto) {
  for (const tool of ["apt-get", "apt-cache", "dpkg-deb", "dpkg-query"]) {
    if (findProgram([tool], pathFolders(env)) === undefined) return `there is no ${tool} here`;
  }
  const work = `${target}.${process.pid}.part`;
  try {
    rmSync(work, { recursive: true, force: true });
    const failure = await unpackInto(new Apt(work, env, source));
    if (failure !== undefined) return failure;
    rmSync(join(work, "apt"), { recursive: true, force: true });
    rmSync(target, { recursive: true, force: true });
    renameSync(work, target);
    return undefined;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** @param {Apt} apt */
async function unpack(apt) {
  // The system's package lists save a download. They may be absent, or name versions that the mirror no longer serves.
  let failure = "apt knows no redis-server or valkey-server package";
  for (const lists of [systemLists, join(apt.folder, "lists")]) {
    await apt.useLists(lists);
    const choice = await apt.firstCandidate();
    if (choice === undefined) continue;
    const problem = await apt.fetch(choice);
    if (problem === undefined) return writeWrappers(apt.work, choice.prefix);
    failure = problem;
  }
  return failure;
}

class Apt {
  /**
   * @param {string} work
   * @param {NodeJS.ProcessEnv} env
   * @param {Source} [source] Instead of the system's.
   */
  constructor(work, env, source) {
    this.work = work;
    this.source = source;
    this.folder = join(work, "apt");
    this.env = { ...env, LC_ALL: "C" };
    this.lists = systemLists;
    for (const name of ["state", "lists/partial", "cache/archives/partial", "debs"]) {
      mkdirSync(join(this.folder, name), { recursive: true });
    }
    writeFileSync(join(this.folder, "status"), "");
    if (source === undefined) return;
    const lines = source.suites.map((suite) => `deb [signed-by=${source.keyring}] ${source.mirror} ${suite} main\n`);
    writeFileSync(join(this.folder, "sources.list"), lines.join(""));
  }

  /** @param {string} lists */
  async useLists(lists) {
    this.lists = lists;
    return lists === systemLists
      ? undefined
      : this.run("apt-get", ["update", "-q", "-o", "APT::Update::Error-Mode=any"]);
  }

  /**
   * Runs apt with a status file of our own, which is empty. By the system's status file, installed versions that can no
   * longer be downloaded would be candidates.
   * @param {string} command
   * @param {readonly string[]} args
   */
  run(command, args) {
    const options = {
      "Dir::State": join(this.folder, "state"),
      "Dir::State::status": join(this.folder, "status"),
      "Dir::State::lists": this.lists,
      "Dir::Cache": join(this.folder, "cache"),
      "APT::Sandbox::User": "",
      ...(this.source && {
        "Dir::Etc::sourcelist": join(this.folder, "sources.list"),
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
      }),
    };
    const flags = Object.entries(options).flatMap(([name, value]) => ["-o", `${name}=${value}`]);
    return capture(command, [...flags, ...args], { cwd: join(this.folder, "debs"), env: this.env });
  }

  async firstCandidate() {
    const { stdout } = await this.run("apt-cache", ["policy", ...candidates.map(({ server }) => server)]);
    return candidates.find(({ server }) => new RegExp(`^${server}:\\n.*\\n  Candidate: \\d`, "m").test(stdout));
  }

  /** Makes apt prefer the first of our suites. */
  preferred() {
    return this.source === undefined ? [] : ["-o", `APT::Default-Release=${this.source.suites[0]}`];
  }

  /** @param {string} name */
  async candidateOf(name) {
    const { stdout } = await this.run("apt-cache", [...this.preferred(), "policy", name]);
    return /^ {2}Candidate: (\d\S*)/m.exec(stdout)?.[1];
  }

  /**
   * Downloads and unpacks the server, its tools and the libraries that the system lacks; from a source of our own all of
   * them.
   * @param {{ server: string, tools: string }} choice
   */
  async fetch({ server, tools }) {
    const ignored = ["recommends", "suggests", "conflicts", "breaks", "replaces", "enhances"].map(
      (kind) => `--no-${kind}`,
    );
    const depends = await this.run("apt-cache", [
      ...this.preferred(),
      ...["depends", "--recurse", ...ignored, server, tools],
    ]);
    const installed = this.source === undefined ? await this.installed() : new Set();
    const libraries = depends.stdout.split("\n").filter((name) => /^(lib|lua)\S+$/.test(name) && !installed.has(name));
    const version = this.source === undefined ? undefined : await this.candidateOf(server);
    const wanted = [server, tools].map((name) => (version === undefined ? name : `${name}=${version}`));
    const download = await this.run("apt-get", ["download", "-q", ...wanted, ...new Set(libraries)]);
    if (download.code !== 0) return `apt-get download failed: ${lastLines(download.output)}`;
    const debs = join(this.folder, "debs");
    for (const deb of readdirSync(debs)) {
      const { code, output } = await capture("dpkg-deb", ["-x", join(debs, deb), join(this.work, "root")], {
        env: this.env,
      });
      if (code !== 0) return `dpkg-deb failed: ${lastLines(output)}`;
    }
    return undefined;
  }

  async installed() {
    const present = await capture("dpkg-query", ["-W", "-f", "${db:Status-Abbrev} ${Package}\n"], { env: this.env });
    return new Set(present.stdout.split("\n").map((line) => /^ii\s+(.*)$/.exec(line)?.[1]));
  }
}

/**
 * Writes an executable each for the server and the command line client. They find the unpacked libraries even after the
 * checkout is moved. With a loader they run on the unpacked C library.
 * @param {string} work
 * @param {string} prefix
 * @param {{ withLoader?: boolean }} [options]
 */
function writeWrappers(work, prefix, { withLoader = false } = {}) {
  const libraries = ["usr/lib", "lib"].flatMap((parent) => {
    const folder = join(work, "root", parent);
    const archs = existsSync(folder) ? readdirSync(folder).filter((name) => name.includes("-linux-gnu")) : [];
    return archs.map((arch) => `$here/../root/${parent}/${arch}`);
  });
  const loader = libraries
    .flatMap((folder) => readdirSync(folder.replace("$here/..", work)).map((name) => `${folder}/${name}`))
    .find((path) => /\/ld-linux-[\w-]+\.so\.\d+$/.test(path));
  if (withLoader && loader === undefined) return "the packages have no loader of programs";
  const path = libraries.join(":");
  mkdirSync(join(work, "bin"));
  for (const name of ["server", "cli", "check-aof", "check-rdb"]) {
    const file = join(work, "bin", `redis-${name}`);
    const program = `"$here/../root/usr/bin/${prefix}-${name}" "$@"`;
    const lines = [
      "#!/bin/sh",
      'here="${0%/*}"',
      // A library path in the environment would also hold for programs of this machine, which have another C library.
      ...(withLoader
        ? [`exec "${loader}" --library-path "${path}" ${program}`]
        : [`export LD_LIBRARY_PATH="${path}"`, `exec ${program}`]),
    ];
    writeFileSync(file, `${lines.join("\n")}\n`);
    chmodSync(file, 0o755);
  }
  return undefined;
}

/** @param {string} output */
const lastLines = (output) => output.trim().split("\n").slice(-3).join("; ");
