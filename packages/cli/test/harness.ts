import { type ChildProcess, spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { startRedis, type RedisMode, type RedisServer, type StartRedisOptions } from "@kit/testing";
import { afterAll, onTestFinished } from "vitest";

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** A folder without packages, so that what is installed around the tests plays no part; gone after the file's tests. */
export const emptyFolder = (): string => {
  const folder = mkdtempSync(join(tmpdir(), "kit-cli-"));
  folders.push(folder);
  return folder;
};

/** The checks, in their order. */
export const ids: readonly string[] = [
  "reachability",
  "round-trip",
  "version",
  "eviction-policy",
  "persistence",
  "memory",
  "keys-without-expiry",
  "permissions",
  "cluster-slots",
  "sentinels",
  "replication",
  "clock-skew",
  "connections",
  "slow-log",
  "script-limits",
  "access",
  "tls",
  "connection-churn",
  "throughput",
  "duplicate-copies",
];

/** A folder in which these packages are installed, by their paths below it. */
export const installed = (packages: Readonly<Record<string, string>>): string => {
  const folder = emptyFolder();
  for (const [path, version] of Object.entries(packages)) {
    mkdirSync(join(folder, path), { recursive: true });
    writeFileSync(join(folder, path, "package.json"), JSON.stringify({ version }));
  }
  return folder;
};

const nowhere = emptyFolder();

const here = fileURLToPath(new URL("..", import.meta.url));

/** Puts what is under a path into a folder of packages, by its name. */
const install = (packages: string, name: string, path: string): void => {
  mkdirSync(dirname(join(packages, name)), { recursive: true });
  symlinkSync(realpathSync(path), join(packages, name));
};

/** The program with its dependencies and only these packages beside it. A name without a scope is a package of kit. */
export const programBeside = (...names: readonly string[]): string => {
  const folder = emptyFolder();
  for (const file of ["dist", "package.json"]) cpSync(join(here, file), join(folder, file), { recursive: true });
  for (const name of [
    "@kit/core",
    "commander",
    "ioredis",
    ...names.map((one) => (one.startsWith("@") ? one : `@kit/${one}`)),
  ])
    install(join(folder, "node_modules"), name, join(here, "node_modules", name));
  return join(folder, "dist/main.js");
};

/** The subject of these tests does not change with the packages that are added. */
export const program: string = programBeside("lock", "semaphore");

export interface KitOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly program?: string;
}

export interface DoctorOptions extends KitOptions {
  /** Whether the check `throughput` runs, which keeps a processor busy for two seconds. */
  readonly measures?: true;
}

/** The program as a child, with nothing of this process' environment that would change its answers. */
export const spawnKit = (args: readonly string[], options: KitOptions = {}): ChildProcess => {
  const { cwd = nowhere, env = {}, program: file = program } = options;
  const { PATH = "" } = process.env;
  return spawn(process.execPath, [file, ...args], { cwd, env: { PATH, ...env }, stdio: ["ignore", "pipe", "pipe"] });
};

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export const ended = (child: ChildProcess): Promise<Ended> =>
  new Promise((resolve, reject) => {
    let stdout = "";
    let stderr = "";
    child.stdout?.on("data", (chunk: Buffer) => (stdout += chunk.toString()));
    child.stderr?.on("data", (chunk: Buffer) => (stderr += chunk.toString()));
    child.once("error", reject);
    child.once("close", (code) => resolve({ code, stdout, stderr }));
  });

export const kit = (args: readonly string[], options: KitOptions = {}): Promise<Ended> =>
  ended(spawnKit(args, options));

interface Finding {
  readonly severity: string;
  readonly text: string;
  readonly fix?: string;
}

interface Result {
  readonly id: string;
  readonly severity: string;
  readonly findings: readonly Finding[];
  readonly docs: string;
}

interface Report {
  readonly version: number;
  readonly url: string;
  readonly checks: readonly Result[];
  readonly summary: Readonly<Record<string, number>>;
}

export interface Examined {
  readonly code: number | null;
  readonly report: Report;
  readonly of: (id: string) => Result;
  /** The checks that found something, save those that measure: on a machine that is busy with others they may. */
  readonly wrong: readonly string[];
  /** A check's findings, as one text. */
  readonly said: (id: string) => string;
}

export const doctor = async (
  url: string,
  args: readonly string[] = [],
  options: DoctorOptions = {},
): Promise<Examined> => {
  const { code, stdout, stderr } = await kit(
    ["doctor", "--json", "--url", url, ...(options.measures ? [] : ["--skip", "throughput"]), ...args],
    options,
  );
  if (stderr !== "") throw new Error(stderr);
  const report = JSON.parse(stdout) as Report;
  const of = (id: string): Result => {
    const result = report.checks.find((check) => check.id === id);
    if (!result) throw new Error(`There is no check ${id}`);
    return result;
  };
  return {
    code,
    report,
    of,
    wrong: report.checks
      .filter(({ id, severity }) => /^(problem|warning)$/.test(severity) && !/^(round-trip|throughput)$/.test(id))
      .map(({ id }) => id),
    said: (id) =>
      of(id)
        .findings.map(({ text }) => text)
        .join("\n"),
  };
};

/** A server that is gone after the test. */
export const started = async <M extends RedisMode = "single">(
  options: StartRedisOptions<M> = {},
): Promise<RedisServer<M>> => {
  const server = await startRedis(options);
  onTestFinished(() => server.stop());
  return server;
};

/** The settings of a server for more than play. */
export const soundArgs: readonly string[] = ["--maxmemory", "200mb", "--maxmemory-policy", "noeviction"];
export const soundPassword = "s0und-p@ss/word";
