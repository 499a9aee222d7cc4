// Runs the first program of each README as plain JavaScript, beside its package alone: in an empty folder with the packed
// package, and with what its manifest asks for.
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { eventually, type RedisServer, startRedis } from "@kit/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { packPackage, publicPackages, type Workspace } from "../pack.mjs";
import { findPnpm } from "../pnpm.mjs";
import { installAlone } from "../release/alone.mjs";
import { quickStart, runQuickStart } from "../release/quick-start.mjs";
import { root } from "../repo.mjs";
import { tempFolder } from "./temp.js";

const run = promisify(execFile);
const packages = publicPackages();
const readmeOf = ({ folder }: Workspace): string => readFileSync(join(folder, "README.md"), "utf8");
const libraries = packages.filter(({ manifest }) => manifest.bin === undefined);

let tarballs: string;
const packed = new Map<string, string>();
let server: RedisServer;

beforeAll(async () => {
  tarballs = mkdtempSync(join(tmpdir(), "kit-bootstrap-"));
  const env = { ...process.env, PATH: [findPnpm(), process.env["PATH"]].join(delimiter) };
  for (const one of packages) packed.set(one.manifest.name, await packPackage(one, tarballs, env));
  server = await startRedis();
});
afterAll(async () => {
  await server?.stop();
  rmSync(tarballs, { recursive: true, force: true });
});

/** An empty folder in which one package is installed. */
const installed = async (name: string): Promise<string> => {
  const folder = tempFolder();
  await installAlone(folder, name, packages, packed);
  return folder;
};

/** On a slow machine a process may start more slowly than connect() waits for a server. Only that is tried again. */
const whenServed = (work: () => Promise<string | undefined>): Promise<string | undefined> =>
  eventually(
    async () => {
      const problem = await work();
      if (problem?.includes("KIT_UNAVAILABLE")) throw new Error(problem);
      return problem;
    },
    { timeoutMs: 120_000 },
  );

describe.each(libraries.map((one) => ({ name: one.manifest.name, one })))("$name alone", ({ name, one }) => {
  it("runs the first program of its README, which prints what it says", async () => {
    const folder = await installed(name);
    const env = { ...process.env, REDIS_URL: server.url };
    await server.call("FLUSHALL");
    expect(await whenServed(() => runQuickStart(folder, readmeOf(one), env))).toBeUndefined();
  });
});

it("runs the doctor of @kit/cli alone", async () => {
  const folder = await installed("@kit/cli");
  const main = join(folder, "node_modules/@kit/cli/dist/main.js");
  const { stdout } = await run(process.execPath, [main, "doctor", "--url", server.url], { cwd: folder });
  expect(stdout).toMatch(/^\d+ checks: \d+ ok/m);
});

it("sees a program that prints something else, fails, or is no JavaScript", async () => {
  const folder = tempFolder();
  const readme = (...lines: string[]): string => ["```js", ...lines, "```", ""].join("\n");
  const printed = (...lines: string[]): Promise<string | undefined> =>
    runQuickStart(folder, readme(...lines), process.env);
  expect(await printed('console.log("redis 7.0.15 1"); // for example: redis 6.2 1')).toBeUndefined();
  expect(await printed('console.log("two"); // prints: one')).toContain("which ended with 0, printed\ntwo");
  expect(await printed('console.log("one"); // prints: one', "process.exitCode = 3;")).toContain("ended with 3");
  expect(await printed('console.log("one" as string); // prints: one')).toContain("SyntaxError");
  expect(await printed("console.log();")).toBe("the program of the README does not say what it prints");
  expect(quickStart("```ts\nconst a: number = 1;\n```\n")).toBeUndefined();
});

it("shows the first programs of the queue and the lock on the repository's first page", () => {
  const page = readFileSync(join(root, "README.md"), "utf8");
  for (const example of ["queue/examples/first.mjs", "lock/examples/basic.ts"])
    expect(page).toContain(`\`\`\`js\n${readFileSync(join(root, "packages", example), "utf8")}\`\`\``);
});
