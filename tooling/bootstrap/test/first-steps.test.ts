// Runs the programs of apps/docs/first-steps.md in an empty project with the packed packages.
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { eventually, type RedisServer, startRedis } from "@kit/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { packPackage, publicPackages } from "../pack.mjs";
import { findPnpm } from "../pnpm.mjs";
import { root } from "../repo.mjs";
import { writeFiles } from "./temp.js";

const run = promisify(execFile);
const page = readFileSync(join(root, "apps/docs/first-steps.md"), "utf8");
const programs = [...page.matchAll(/^```js\n(\/\/ (\S+)\n.*?)^```$/gms)].map(([, text = "", name = ""]) => ({
  name,
  text,
}));

/** The packages that a program can import, without the command line and the helpers for tests. */
const libraries = publicPackages().filter(({ manifest }) => !["@kit/cli", "@kit/testing"].includes(manifest.name));

let project: string;
let server: RedisServer;

beforeAll(async () => {
  project = mkdtempSync(join(tmpdir(), "kit-bootstrap-"));
  writeFiles(project, { "package.json": '{ "type": "commonjs" }' });
  const env = { ...process.env, PATH: [findPnpm(), process.env["PATH"]].join(delimiter) };
  for (const one of libraries) {
    const folder = join(project, "node_modules", one.manifest.name);
    mkdirSync(folder, { recursive: true });
    const tarball = await packPackage(one, project, env);
    await run("tar", ["-xzf", tarball, "--strip-components=1", "-C", folder]);
  }
  for (const name of ["ioredis", "@types"])
    symlinkSync(join(root, "packages/lock/node_modules", name), join(project, "node_modules", name));
  // Optional ones: a client, and tracing.
  for (const name of ["redis", "@opentelemetry"])
    symlinkSync(join(root, "packages/core/node_modules", name), join(project, "node_modules", name));
  // Another board, whose types one entry needs.
  symlinkSync(join(root, "packages/board/node_modules/@bull-board"), join(project, "node_modules/@bull-board"));
  server = await startRedis();
});
afterAll(async () => {
  await server?.stop();
  rmSync(project, { recursive: true, force: true });
});

const printsWhatItSays = async (name: string, text: string): Promise<void> => {
  writeFiles(project, { [name]: text });
  // pnpm's NODE_PATH would lead CommonJS to packages that the project does not have.
  const env = { ...process.env, REDIS_URL: server.url, NODE_PATH: "" };
  const start = (): Promise<{ stdout: string; stderr: string }> =>
    run(process.execPath, [name], { cwd: project, env, timeout: 60_000 });
  // On a slow machine a process may start more slowly than connect() waits for a server. Only that is tried again.
  const ended = await eventually(
    () =>
      start().catch((error: unknown) => (/KIT_UNAVAILABLE/.test(String(error)) ? Promise.reject(error) : { error })),
    { timeoutMs: 180_000 },
  );
  if ("error" in ended) throw ended.error;
  const { stdout, stderr } = ended;
  const said = [...text.matchAll(/\/\/ prints: (.*)$/gm)].map(([, line]) => line);
  expect(said).not.toEqual([]);
  expect({ lines: stdout.trim().split("\n"), stderr }).toEqual({ lines: said, stderr: "" });
};

/** The errors of a compiler of TypeScript; empty if there is none. */
const compiled = async (files: Record<string, string>, options: object = {}): Promise<string> => {
  const compilerOptions = { module: "nodenext", target: "es2022", strict: true, noEmit: true, types: ["node"] };
  const config = { compilerOptions: { ...compilerOptions, ...options }, files: Object.keys(files) };
  writeFiles(project, { ...files, "tsconfig.json": JSON.stringify(config) });
  const tsc = join(root, "tooling/bootstrap/node_modules/typescript7/bin/tsc");
  const { stdout, stderr } = await run(process.execPath, [tsc, "-p", project]).catch(
    (error: unknown) => error as { stdout: string; stderr: string },
  );
  return stdout + stderr;
};

it.each(programs)("$name runs, prints what its comments say, and ends", async ({ name, text }) => {
  await printsWhatItSays(name, text);
});

it("shows four programs", () => {
  expect(programs.map(({ name }) => name)).toEqual(["first.mjs", "first.cjs", "node-redis.mjs", "disposed.mjs"]);
});

describe("without ioredis", () => {
  const [installed, away] = ["node_modules/ioredis", "ioredis"] as const;
  beforeAll(() => renameSync(join(project, installed), join(project, away)));
  afterAll(() => renameSync(join(project, away), join(project, installed)));

  it("node-redis.mjs runs, also as CommonJS, and prints the same", async () => {
    const { text } = programs.find(({ name }) => name === "node-redis.mjs")!;
    await printsWhatItSays("node-redis.mjs", text);
    const body = text.replaceAll(/^import (.*) from (.*);$/gm, "const $1 = require($2);");
    await printsWhatItSays("node-redis.cjs", `void (async () => {\n${body}\n})();`);
  });

  it.each([
    ["connect.mjs", 'import { connect } from "@kit/core";'],
    ["connect.cjs", 'const { connect } = require("@kit/core");'],
  ])("connect() of %s says what to install", async (name, first) => {
    const said = "// prints: KIT_UNSUPPORTED connect() cannot find ioredis. Run `npm install ioredis`";
    await printsWhatItSays(name, `${first}\nconnect().catch((e) => console.log(e.code, e.message)); ${said}`);
  });

  it("node-redis.mjs compiles with skipLibCheck", async () => {
    const { text } = programs.find(({ name }) => name === "node-redis.mjs")!;
    expect(await compiled({ "node-redis.mts": text }, { skipLibCheck: true })).toBe("");
  });
});

it("compiles with the types of every entry of every package, and fails on a misspelt error code", async () => {
  const entries = libraries.flatMap(({ manifest: { name, exports = {} } }) =>
    Object.keys(exports)
      .filter((path) => path !== "./package.json")
      .map((path) => `import "${name}${path.slice(1)}";`),
  );
  // The board has no error codes.
  const names = libraries.map(({ manifest }) => manifest.name.replace("@kit/", "")).filter((name) => name !== "board");
  const lines = [
    ...entries,
    'import type { KitError, KitErrorCodes } from "@kit/core";',
    "declare const error: KitError;",
    ...names.flatMap((name) => [
      `export const ${name}: boolean = error.code === (null as unknown as KitErrorCodes["${name}"]);`,
      "// @ts-expect-error There is no such code.",
      `export const not${name}: boolean = error.code === "KIT_${name.toUpperCase()}_NO_SUCH";`,
    ]),
  ];
  expect(await compiled({ "codes.mts": lines.join("\n") })).toBe("");
});
