import { chmodSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { findProgram, pathFolders } from "./repo.mjs";
import { capture } from "./run.mjs";

/**
 * Fetches a Redis (or Valkey) server as Debian packages and unpacks it into a folder of ours. Nothing is installed: no
 * root is needed, no service starts, and the system stays as it is.
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
export async function unpackRedis(env, target) {
  for (const tool of ["apt-get", "apt-cache", "dpkg-deb", "dpkg-query"]) {
    if (findProgram([tool], pathFolders(env)) === undefined) return `there is no ${tool} here`;
  }
  const work = `${target}.${process.pid}.part`;
  try {
    rmSync(work, { recursive: true, force: true });
    const failure = await unpack(new Apt(work, env));
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
   */
  constructor(work, env) {
    this.work = work;
    this.folder = join(work, "apt");
    this.env = { ...env, LC_ALL: "C" };
    this.lists = systemLists;
    for (const name of ["state", "lists/partial", "cache/archives/partial", "debs"]) {
      mkdirSync(join(this.folder, name), { recursive: true });
    }
    writeFileSync(join(this.folder, "status"), "");
  }

  /** @param {string} lists */
  async useLists(lists) {
    this.lists = lists;
    if (lists !== systemLists) await this.run("apt-get", ["update", "-q"]);
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
    };
    const flags = Object.entries(options).flatMap(([name, value]) => ["-o", `${name}=${value}`]);
    return capture(command, [...flags, ...args], { cwd: join(this.folder, "debs"), env: this.env });
  }

  async firstCandidate() {
    const { stdout } = await this.run("apt-cache", ["policy", ...candidates.map(({ server }) => server)]);
    return candidates.find(({ server }) => new RegExp(`^${server}:\\n.*\\n  Candidate: \\d`, "m").test(stdout));
  }

  /**
   * Downloads and unpacks the server, its tools and the libraries that the system lacks.
   * @param {{ server: string, tools: string }} choice
   */
  async fetch({ server, tools }) {
    const ignored = ["recommends", "suggests", "conflicts", "breaks", "replaces", "enhances"].map(
      (kind) => `--no-${kind}`,
    );
    const depends = await this.run("apt-cache", ["depends", "--recurse", ...ignored, server, tools]);
    const present = await capture("dpkg-query", ["-W", "-f", "${db:Status-Abbrev} ${Package}\n"], { env: this.env });
    const installed = new Set(present.stdout.split("\n").map((line) => /^ii\s+(.*)$/.exec(line)?.[1]));
    const libraries = depends.stdout.split("\n").filter((name) => /^(lib|lua)\S+$/.test(name) && !installed.has(name));
    const download = await this.run("apt-get", ["download", "-q", server, tools, ...new Set(libraries)]);
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
}

/**
 * Writes an executable each for the server and the command line client. They find the unpacked libraries even after the
 * checkout is moved.
 * @param {string} work
 * @param {string} prefix
 */
function writeWrappers(work, prefix) {
  const libraries = ["usr/lib", "lib"].flatMap((parent) => {
    const folder = join(work, "root", parent);
    const archs = existsSync(folder) ? readdirSync(folder).filter((name) => name.includes("-linux-gnu")) : [];
    return archs.map((arch) => `$here/../root/${parent}/${arch}`);
  });
  mkdirSync(join(work, "bin"));
  for (const name of ["server", "cli", "check-aof", "check-rdb"]) {
    const file = join(work, "bin", `redis-${name}`);
    const lines = [
      "#!/bin/sh",
      'here="${0%/*}"',
      `export LD_LIBRARY_PATH="${libraries.join(":")}"`,
      `exec "$here/../root/usr/bin/${prefix}-${name}" "$@"`,
    ];
    writeFileSync(file, `${lines.join("\n")}\n`);
    chmodSync(file, 0o755);
  }
  return undefined;
}

/** @param {string} output */
const lastLines = (output) => output.trim().split("\n").slice(-3).join("; ");
